"""The search functions of SQL, and `score` and `snippet`.

The search functions are `textsearch`, `fieldmatch` and `indexquery`. Spark requests each call while it analyses a
query, and errors are raised then. A search is a function on values, so it is correct at any place in a query; our
optimizer rules push searches down to an index that can decide them.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, DataType, FloatType, StringType
from pyspark.sql.udf import _wrap_function

from indextables.errors import IndexTablesError, QueryError
from indextables.runtime.caching import lazy_property
from indextables.spark.jvm.worker_errors import error_text
from indextables.spark.scan.column_info import indexed_field
from indextables.split.index.fields import FieldMap, IndexField, Kind
from indextables.split.search.row_matcher import RowMatcher
from indextables.split.search.search_predicate import Search, checked, to_json, tree_of

_SCORE, _SNIPPET = "score", "snippet"
_pickles = CloudPickleSerializer()  # type: ignore[no-untyped-call]


class SearchUdf:
    """A search as a function on values. It is pickled to tasks."""

    def __init__(self, search: Search) -> None:
        self.search = search

    def __getstate__(self) -> dict[str, Any]:
        return {"search": self.search}

    def __call__(self, *columns: pa.Array[Any]) -> pa.Array[Any]:
        """Return whether each row matches; the last argument is the query, which is known."""
        fields = self.search.fields
        batch = pa.RecordBatch.from_arrays(list(columns[: len(fields)]), names=[field.column for field in fields])
        return self._matcher.matches(batch)

    @lazy_property
    def _matcher(self) -> RowMatcher:
        return RowMatcher(tree_of(self.search), FieldMap(self.search.fields))


class Placeholder:
    """A score or a snippet. Only a scan with a search can compute it."""

    def __init__(self, function: str, column: str | None = None) -> None:
        self.function = function
        self.column = column

    def __call__(self, *_: pa.Array[Any]) -> pa.Array[Any]:
        raise QueryError(f"cannot use {self.function}() because there is no search below it that an index decides")


class BuildFunction:
    """Callback for Java that builds the function of a call."""

    def apply(self, request: str) -> bytes | str:
        """Return JSON: pickle and description of the function, positions of its columns."""
        try:
            call = json.loads(request)
            return self._build(call["function"], call["columns"], call["text"])
        except IndexTablesError as error:
            return error_text(error)

    def _build(self, function: str, columns: list[dict[str, Any]], text: str | None) -> bytes:
        fields = [indexed_field(column["field"]) for column in columns]
        for column, field in zip(columns, fields, strict=True):
            _check_whole(function, column, field)
        if function in {_SCORE, _SNIPPET}:
            return _answer(*_placeholder(function, columns, fields))
        known = _known_fields(function, columns, fields)
        search = checked(function, known, text or "")
        names = [field.column for field in search.fields]
        places = [next(i for i, field in enumerate(fields) if field and field.column == name) for name in names]
        return _answer(SearchUdf(search), BooleanType(), places)

    class Java:
        implements = ("java.util.function.Function",)


class DescribeFunction:
    """Callback for Java that describes a function of a plan by its pickle."""

    def apply(self, command: bytes) -> bytes:
        """Return the description as a JSON array; empty if the function is not ours."""
        # Another library may define a function with the same name; do not unpickle it.
        is_ours = __name__.encode() in command
        return json.dumps(_description(cloudpickle.loads(command)) if is_ours else []).encode()

    class Java:
        implements = ("java.util.function.Function",)


def pattern(spark: SparkSession) -> Any:
    """Return a function of Spark as the template for running functions of a session."""
    return _wrap_function(spark.sparkContext, Placeholder(_SCORE), FloatType())


def _answer(function: Any, kind: DataType, places: list[int]) -> bytes:
    pickle = _pickles.dumps((function, kind))  # type: ignore[no-untyped-call]
    does = _description((function, kind))
    return json.dumps({"pickle": base64.b64encode(pickle).decode(), "places": places, "does": does}).encode()


def _description(command: Any) -> list[str]:
    function = command[0] if isinstance(command, tuple) else command
    if isinstance(function, SearchUdf):
        return ["search", to_json(function.search), *(field.column for field in function.search.fields)]
    if isinstance(function, Placeholder):
        return [function.function, *([] if function.column is None else [function.column])]
    return []


def _check_whole(function: str, column: dict[str, Any], field: IndexField | None) -> None:
    if not column["fields"]:
        return
    path = ".".join(column["fields"])
    whole = f"{column['name']}.{path}"
    if field is None:
        raise _not_searchable(function, whole)
    raise QueryError(
        f"cannot use {function.upper()} on `{whole}` because it is a field of the struct `{column['name']}`, which is "
        "indexed as a whole",
        hint=f"write `{column['name']} INDEXQUERY '{field.column}.{path}:value'`",
    )


def _not_searchable(function: str, name: str) -> QueryError:
    return QueryError(
        f"cannot use {function.upper()} on `{name}` because it is not a column of a table of this format, or is "
        "computed from one",
        hint="search a column of the table itself; another name, a view or a join around it is fine",
    )


def _known_fields(function: str, columns: list[dict[str, Any]], fields: list[IndexField | None]) -> FieldMap:
    if len(columns) == 1 and fields[0] is None:
        raise _not_searchable(function, columns[0]["name"])
    known = [field for field in fields if field is not None]
    if not known:
        raise QueryError(f"cannot use {function.upper()} because none of the columns is indexed")
    if len({field.column for field in known}) != len(known):
        raise QueryError(
            f"cannot use {function.upper()} on `*` because it covers columns of several tables",
            hint="write `t.*` for the columns of one table",
        )
        # In one index, field names are unique.
    return FieldMap(msgspec.structs.replace(field, name=f"f{place}") for place, field in enumerate(known))


def _placeholder(
    function: str, columns: list[dict[str, Any]], fields: list[IndexField | None]
) -> tuple[Placeholder, DataType, list[int]]:
    if function == _SCORE:
        if columns:
            raise QueryError("cannot use score() with arguments", hint="it is the score of the search below it")
        return Placeholder(function), FloatType(), []
    if len(columns) != 1:
        raise QueryError("cannot use snippet() but with one column, as in `snippet(message)`")
    field = fields[0]
    if field is None or field.kind is not Kind.TEXT:
        raise QueryError(
            f"cannot use snippet() on `{columns[0]['name']}` because it is not a column that is indexed as `text`"
        )
    return Placeholder(function, field.column), StringType(), [0]
