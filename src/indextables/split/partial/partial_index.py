"""An index of which only the needed pieces are fetched, before each search.

The pieces of terms are not known in advance: a look-up goes through the term dictionary, and each step may need the
next piece. The look-ups of all terms in all segments go side by side, so that every round of them is one fetch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from indextables.split.format.layout import corrupt
from indextables.split.partial.needs import Needs, TermNeed
from indextables.split.partial.piece_table import PieceTable
from indextables.split.partial.tantivy_files import (
    COMPOSITE,
    FAST,
    NORMS,
    POSITIONS,
    POSTINGS,
    TERMS,
    TOKENS_BYTES,
    dictionary_at,
    fields_of,
    kind_of,
)
from indextables.split.partial.term_dictionary import TermInfo, find_term

META = "meta.json"
_SMALL_DICTIONARY_BYTES = 512 << 10
_MOST_REMEMBERED = 1_000

_LookUp = Generator[Sequence[int], None, Sequence[int]]
Missing = Callable[[Iterable[int]], Sequence[int]]
Fetch = Callable[[Iterable[int]], object]
ReadMember = Callable[[int, int, int], bytes]


class Pieces(NamedTuple):
    """The pieces of an index in local files: which are missing, and access to them."""

    table: PieceTable
    missing: Missing
    fetch: Fetch
    read: ReadMember


class PartialIndex:
    """Fetches what searches need of one index; safe for threads."""

    def __init__(self, pieces: Pieces, key: str) -> None:
        """Fetch the tails, and find the fields of every segment by them.

        `key` is the split's, for errors.
        """
        self._pieces = pieces
        self._key = key
        self._done: set[Needs | None] = set()
        pieces.fetch(pieces.table.tails)
        try:
            self._numbers = _field_numbers(_Member(pieces, META)[:])
            self._segments = [_Segment(pieces, name) for name in _segment_names(pieces.table)]
        except (ValueError, KeyError, TypeError, IndexError, msgspec.DecodeError) as error:
            raise self._corrupt(error) from error

    @property
    def is_complete(self) -> bool:
        """Whether all pieces were fetched here."""
        return None in self._done

    def fetch(self, needs: Needs | None) -> None:
        """Make sure that a search finds all it needs; None for everything."""
        if needs in self._done or None in self._done:
            return
        if needs is None:
            self._pieces.fetch(range(self._pieces.table.num_pieces))
        else:
            try:
                self._fetch_needs(needs)
            except (ValueError, KeyError, IndexError) as error:
                raise self._corrupt(error) from error
        if len(self._done) >= _MOST_REMEMBERED:
            self._done.clear()
        self._done.add(needs)

    def _fetch_needs(self, needs: Needs) -> None:
        wanted: set[int] = set()
        looking: list[_LookUp] = []
        for segment in self._segments:
            wanted.update(segment.static(needs, self._numbers))
            looking += segment.look_ups(needs, self._numbers)
        while looking:
            goes_on = []
            for one in looking:
                try:
                    wanted.update(next(one))
                    goes_on.append(one)
                except StopIteration as end:
                    wanted.update(end.value)
            looking = goes_on
            self._pieces.fetch(sorted(wanted))
            wanted.clear()
        self._pieces.fetch(sorted(wanted))

    def _corrupt(self, error: Exception) -> Exception:
        return corrupt(self._key, f"its index cannot be understood ({error})")


class _Member:
    """Bytes of a member, read piece by piece and kept for one use."""

    def __init__(self, pieces: Pieces, name: str) -> None:
        self._pieces = pieces
        self.number = pieces.table.member_of[name]
        self._size = pieces.table.members[self.number][1]
        self._read: dict[int, bytes] = {}

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: slice) -> bytes:
        start, end, _ = place.indices(self._size)
        table = self._pieces.table
        covering = table.covering(self.number, start, end)
        found = [self._piece(piece) for piece in covering]
        if not found:
            return b""
        offset = start - table.raw_start[covering[0]]
        whole = found[0] if len(found) == 1 else b"".join(found)
        return whole[offset : offset + end - start]

    def _piece(self, piece: int) -> bytes:
        data = self._read.get(piece)
        if data is None:
            table = self._pieces.table
            start = table.raw_start[piece]
            data = self._read[piece] = self._pieces.read(self.number, start, start + table.raw_length[piece])
        return data


class _Segment:
    """Places of the fields in the files of one segment."""

    def __init__(self, pieces: Pieces, name: str) -> None:
        self._pieces = pieces
        self._name = name
        table = pieces.table
        self._fields = {
            kind: fields_of(_Member(pieces, f"{name}.{kind}"))
            for kind in COMPOSITE
            if f"{name}.{kind}" in table.member_of
        }
        self._fast = table.member_of.get(f"{name}.{FAST}")

    def static(self, needs: Needs, numbers: dict[str, int]) -> Iterable[int]:
        """Yield the pieces that are known without a look at a dictionary."""
        for field in needs.fields:
            for kind in self._fields:
                yield from self._covering(kind, numbers[field])
        for field in needs.norms:
            yield from self._covering(NORMS, numbers[field])
        if needs.fast and self._fast is not None:
            yield from self._pieces.table.of_member(self._fast)

    def look_ups(self, needs: Needs, numbers: dict[str, int]) -> list[_LookUp]:
        """Return the look-ups of all terms, to be stepped side by side."""
        if not needs.terms:
            return []
        data = _Member(self._pieces, f"{self._name}.{TERMS}")
        return [self._look_up(data, need, numbers[need.field]) for need in needs.terms]

    def _look_up(self, data: _Member, need: TermNeed, field: int) -> _LookUp:
        """Yield pieces for the next step until those of the term are known; return them."""
        place = self._fields[TERMS].get(field)
        if place is None:
            return ()
        table, missing = self._pieces.table, self._pieces.missing
        dictionary = dictionary_at(data, *place)

        def covering(start: int, end: int) -> Sequence[int]:
            return table.covering(data.number, start, end)

        if place[1] - place[0] <= _SMALL_DICTIONARY_BYTES:
            first = covering(*place)
        else:
            root = dictionary.start + dictionary.root
            first = [*covering(root, root + 1), *covering(dictionary.heads, dictionary.infos)]
        if missing(first):
            yield first
        steps = find_term(data, lambda start, end: bool(missing(covering(start, end))), dictionary, need.term)
        while True:
            try:
                wanted = next(steps)
            except StopIteration as end:
                found: TermInfo | None = end.value
                break
            yield covering(*wanted)
        return () if found is None else self._of_term(found, need, field)

    def _of_term(self, found: TermInfo, need: TermNeed, field: int) -> Sequence[int]:
        """Return the pieces of a term's postings, and of its positions if needed."""
        start, end = found.postings
        pieces = [*self._covering(POSTINGS, field, start + TOKENS_BYTES, end + TOKENS_BYTES)]
        if need.positions:
            pieces += self._covering(POSITIONS, field, *found.positions)
        return pieces

    def _covering(self, kind: str, field: int, start: int = 0, end: int | None = None) -> Sequence[int]:
        """Return the pieces of a range in a field; none if the segment lacks the field."""
        place = self._fields.get(kind, {}).get(field)
        if place is None:
            return ()
        first, last = place[0] + start, place[1] if end is None else place[0] + end
        if not first <= last <= place[1]:
            raise ValueError("a term is outside of its field")
        table = self._pieces.table
        return table.covering(table.member_of[f"{self._name}.{kind}"], first, last)


def _field_numbers(meta: bytes) -> dict[str, int]:
    """Return the numbers of the fields by their names, from the index's description."""
    schema = msgspec.json.decode(meta, type=dict[str, Any])["schema"]
    return {str(entry["name"]): number for number, entry in enumerate(schema)}


def _segment_names(table: PieceTable) -> list[str]:
    return [name.rpartition(".")[0] for name, _ in table.members if kind_of(name) == TERMS]
