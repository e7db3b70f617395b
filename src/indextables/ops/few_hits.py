"""Whether a query finds little: told by term filters and the index, before any row is read."""

from __future__ import annotations

from typing import NamedTuple

from indextables.ops.questions import Split, SplitQuestion


class Few(NamedTuple):
    """What is still little: splits to be asked, bytes to be fetched (of indexes, of rows), and rows that are found."""

    max_splits: int
    max_fetched_bytes: int
    max_rows: int


def splits_with_hits(question: SplitQuestion, few: Few) -> tuple[Split, ...] | None:
    """The splits that hold rows which a query finds, where these are few and it takes little to tell; else None."""
    tree, text = question.tree, question.text
    if tree is None or question.num_splits > few.max_splits:
        return None
    ruled_out = question.ask(lambda split: question.searcher(split).is_ruled_out(tree, text))
    candidates = [split for split, is_out in ruled_out if not is_out]
    if sum(question.searcher(split).bytes_to_fetch(tree) for split in candidates) > few.max_fetched_bytes:
        return None
    counted = question.ask(lambda split: question.searcher(split).count(tree, text), candidates)
    if sum(count for _, count in counted) > few.max_rows:
        return None
    row_bytes = (count * split.size // question.searcher(split).split.num_rows for split, count in counted if count)
    if sum(row_bytes) > few.max_fetched_bytes:
        return None
    return tuple(split for split, count in counted if count)
