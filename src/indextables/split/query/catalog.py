"""Interface of a table's fields for queries."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Protocol

from indextables.split.index.fields import Kind

Literal = int | float | str | bool | bytes | None

TEXT, STRING, JSON = Kind.TEXT, Kind.STRING, Kind.JSON
INT, UINT, FLOAT, BOOL, BYTES, IP = Kind.INT, Kind.UINT, Kind.FLOAT, Kind.BOOL, Kind.BYTES, Kind.IP
NUMBERS = frozenset({INT, UINT, FLOAT})


class Field(Protocol):
    """A column in the index."""

    @property
    def column(self) -> str: ...

    @property
    def name(self) -> str:
        """Name inside the index."""
        ...

    @property
    def kind(self) -> str: ...

    @property
    def type(self) -> str:
        """The Arrow type as text, for messages."""
        ...

    @property
    def tokenizer(self) -> str: ...

    @property
    def record(self) -> str:
        """Recorded facts of a word: `basic`, `freq` or `position`; phrases need the last."""
        ...

    @property
    def fast(self) -> bool: ...


class Catalog(Protocol):
    """The fields of a table, and the conversion of text to their index form."""

    @property
    def fields(self) -> Sequence[Field]: ...

    @property
    def longest_name(self) -> int:
        """Length of the longest column name, in lower case."""
        ...

    def find(self, column: str) -> Field | None: ...

    def nan_field(self, column: str) -> Field | None:
        """Return the field that marks NaN in a float column; None if no row has NaN."""
        ...

    def text_fields(self) -> Sequence[Field]:
        """Return the fields to search if a query names none."""
        ...

    def tokens(self, column: str, text: str) -> list[str]:
        """Return the words that the index would hold for a text in a column."""
        ...

    def placed_tokens(self, column: str, text: str) -> list[tuple[int, str]]:
        """Return the words with their positions; words too long for the index count too."""
        ...

    def parse_literal(self, column: str, text: str) -> Literal:
        """Convert a literal to index form; a `ValueError` names the expected form."""
        ...

    def parse_span(self, column: str, text: str) -> tuple[Literal, Literal] | None:
        """Return the range of values that a text covers, or None for a single value.

        Raises `ValueError` like `parse_literal`.
        """
        ...


def resolve(catalog: Catalog, path: tuple[str, ...]) -> tuple[Field, tuple[str, ...]] | None:
    """Return the field of a name, and the path inside its JSON; the longest name wins."""
    for end in range(_most_parts(path, catalog.longest_name), 0, -1):
        field = catalog.find(".".join(path[:end]))
        if field is not None and (end == len(path) or field.kind == JSON):
            return field, path[end:]
    return None


def _most_parts(path: tuple[str, ...], longest_name: int) -> int:
    """Return how many parts of a path fit into `longest_name` characters."""
    length = -1
    for number, part in enumerate(path):
        length += len(part) + 1
        if length > longest_name:
            return number
    return len(path)


def suggest(catalog: Catalog, path: tuple[str, ...]) -> str:
    """Return a hint for an unknown field name."""
    columns = [field.column for field in catalog.fields]
    close = difflib.get_close_matches(".".join(path)[:100], columns, n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    shown = ", ".join(f"`{column}`" for column in columns[:10])
    return f"the indexed columns are {shown}{' and others' if len(columns) > 10 else ''}"
