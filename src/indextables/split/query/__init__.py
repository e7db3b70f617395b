"""The query language: from text to a tree, and from a tree to an index query.

`parse_query` parses the text; `compile_query` resolves names and values against a table's fields and builds the query
object. docs/query-language.md defines every operator.
"""

from __future__ import annotations

from indextables.split.query.compile import compile_query
from indextables.split.query.parse import parse_query

__all__ = ["compile_query", "parse_query"]
