"""The fields of a split, as a query needs to know them."""

from __future__ import annotations

from collections.abc import Sequence

from indextables.split import analyzers, literals
from indextables.split.fields import FieldMap, IndexField
from indextables.split.query.catalog import Literal


class SearchableFields:
    """What the query language asks of a split's fields."""

    def __init__(self, fields: FieldMap) -> None:
        self._fields = fields

    @property
    def fields(self) -> Sequence[IndexField]:
        return self._fields.fields

    def find(self, column: str) -> IndexField | None:
        return self._fields.find(column)

    def text_fields(self) -> Sequence[IndexField]:
        return self._fields.text_fields()

    def tokens(self, column: str, text: str) -> list[str]:
        return analyzers.tokens(self.known(column), text)

    def placed_tokens(self, column: str, text: str) -> list[tuple[int, str]]:
        return analyzers.placed_tokens(self.known(column), text)

    def parse_literal(self, column: str, text: str) -> Literal:
        return literals.parse_literal(self.known(column), text)

    def known(self, column: str) -> IndexField:
        field = self._fields.find(column)
        if field is None:
            raise KeyError(column)
        return field
