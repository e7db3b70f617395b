"""What a query has to know of a table's fields."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Protocol

from indextables.split.fields import Kind

Literal = int | float | str | bool | bytes | None

TEXT, STRING, JSON = Kind.TEXT, Kind.STRING, Kind.JSON
INT, UINT, FLOAT, BOOL, BYTES, IP = Kind.INT, Kind.UINT, Kind.FLOAT, Kind.BOOL, Kind.BYTES, Kind.IP
NUMBERS = frozenset({INT, UINT, FLOAT})


class Field(Protocol):
    """A column as the index holds it."""

    @property
    def column(self) -> str: ...

    @property
    def name(self) -> str:
        """Its name inside the index."""
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
        """What is kept of a word: `basic`, `freq` or `position`. Only the last can do phrases."""
        ...

    @property
    def fast(self) -> bool: ...


class Catalog(Protocol):
    """The fields of a table, and how text becomes what their index holds."""

    @property
    def fields(self) -> Sequence[Field]: ...

    @property
    def longest_name(self) -> int:
        """Characters of the longest name of a column, in lower case."""
        ...

    def find(self, column: str) -> Field | None: ...

    def nan_field(self, column: str) -> Field | None:
        """The field that says where a column of floats is NaN; None where the index holds no such row."""
        ...

    def text_fields(self) -> Sequence[Field]:
        """The fields that are searched when a query names none."""
        ...

    def tokens(self, column: str, text: str) -> list[str]:
        """The words that the index would hold of a text in a column."""
        ...

    def placed_tokens(self, column: str, text: str) -> list[tuple[int, str]]:
        """The same words with their places in the text, at which words that are too long for the index count too."""
        ...

    def parse_literal(self, column: str, text: str) -> Literal:
        """A value of a column as the index holds it. `ValueError` says what was expected."""
        ...

    def parse_span(self, column: str, text: str) -> tuple[Literal, Literal] | None:
        """The least and the greatest value that a text means; None where it means one. `ValueError` as above."""
        ...


def resolve(catalog: Catalog, path: tuple[str, ...]) -> tuple[Field, tuple[str, ...]] | None:
    """The field that a name means, and the path inside its JSON. The longest name of a column wins."""
    for end in range(_most_parts(path, catalog.longest_name), 0, -1):
        field = catalog.find(".".join(path[:end]))
        if field is not None and (end == len(path) or field.kind == JSON):
            return field, path[end:]
    return None


def _most_parts(path: tuple[str, ...], longest_name: int) -> int:
    """How many parts of a path a name of so many characters can have at most."""
    length = -1
    for number, part in enumerate(path):
        length += len(part) + 1
        if length > longest_name:
            return number
    return len(path)


def suggest(catalog: Catalog, path: tuple[str, ...]) -> str:
    """A hint for a name that no field has."""
    columns = [field.column for field in catalog.fields]
    close = difflib.get_close_matches(".".join(path)[:100], columns, n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    shown = ", ".join(f"`{column}`" for column in columns[:10])
    return f"the indexed columns are {shown}{' and others' if len(columns) > 10 else ''}"
