"""The query language: text to a tree of frozen values, and the tree to a query of the index.

`parse_query` reads the text; `compile_query` resolves names and values against a table's fields and builds the query
object. What every operator means is in docs/query-language.md.
"""

from __future__ import annotations

from indextables.split.query.compile import compile_query
from indextables.split.query.parse import parse_query

__all__ = ["compile_query", "parse_query"]
