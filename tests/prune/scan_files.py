"""Files of random rows, with the statistics that careful, careless and foreign writers would give them."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from tests.conftest import make_add
from tests.predicate.predicate_oracle import POOLS, random_row, single

from indextables.protocol.file_table import AddedFile, files_table
from indextables.prune import NAN_SHOWN, NAN_TAG, STATS_TAG, STATS_TYPED

MAX_LENGTH = 8
TOKYO = dt.timezone(dt.timedelta(hours=9))
WRITERS = ["ours", "ours, NaN shown", "foreign typed", "foreign text", "foreign UTF-16"]


def random_files(
    rng: Random, names: tuple[str, ...], partition_columns: tuple[str, ...], num_files: int
) -> tuple[pa.Table, list[list[dict[str, Any]]]]:
    """A file table, and the rows of each file."""
    adds, contents = [], []
    for number in range(num_files):
        rows = [random_row(rng, names) for _ in range(rng.choice([1, 1, 2, 3, 4]))]
        shared = {name: rows[0][name] for name in partition_columns}
        rows = [{**row, **shared} for row in rows]
        adds.append(make_add(f"{number}.split", **_fields(rng, rows, partition_columns)))
        contents.append(rows)
    return files_table([AddedFile(add, 0, 0) for add in adds]), contents


def files(
    names: tuple[str, ...] = tuple(POOLS), partition_columns: tuple[str, ...] = ()
) -> st.SearchStrategy[tuple[pa.Table, list[list[dict[str, Any]]]]]:
    """A few random files."""
    some = st.randoms(use_true_random=False)
    return st.builds(random_files, some, st.just(names), st.just(partition_columns), st.integers(1, 4))


def spelled(name: str, value: Any, style: int) -> str:
    """The text of a column's value, in one of the forms that are about."""
    if name == "f" and style == 1 and math.isfinite(value):
        # The shortest decimal that is this 32-bit float, as Java writes it.
        return next(text for text in (f"{value:.{digits}g}" for digits in range(1, 10)) if single(float(text)) == value)
    if isinstance(value, bool):
        return str(value) if style == 1 else str(value).lower()
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            return value.isoformat(sep=" T "[style])
        local = value.astimezone(TOKYO).replace(tzinfo=None)
        return [value.isoformat(), value.isoformat().replace("+00:00", "Z"), local.isoformat(sep=" ")][style]
    if isinstance(value, float):
        return [repr(value), _java(value), repr(value).removesuffix(".0")][style]
    if isinstance(value, Decimal):
        return str(value.normalize()) if style == 2 and value == value.to_integral_value() and value else str(value)
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def _java(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return (
        repr(value).replace("e-0", "E-").replace("e+", ".0E").replace("e", ".0E") if "e" in repr(value) else repr(value)
    )


def _fields(rng: Random, rows: list[dict[str, Any]], partition_columns: tuple[str, ...]) -> dict[str, Any]:
    writer, style = rng.choice(WRITERS), rng.choice([0, 1, 2])
    if writer.startswith("ours"):
        style = min(style, 1)
    low: dict[str, str] = {}
    high: dict[str, str] = {}
    for name in sorted(rows[0].keys() - set(partition_columns)):
        least, greatest = _bounds(name, [row[name] for row in rows], writer, style)
        if least is not None and rng.random() < 0.9:
            low[name] = least
        if greatest is not None and rng.random() < 0.9:
            high[name] = greatest
    tags = {STATS_TAG: STATS_TYPED} if writer.startswith("ours") else None
    if writer == "ours, NaN shown":
        tags = {STATS_TAG: STATS_TYPED, NAN_TAG: NAN_SHOWN}
    values = {name: spelled(name, rows[0][name], 1) for name in partition_columns if rows[0][name] is not None}
    fields: dict[str, Any] = {"partition_values": values, "tags": tags, "num_records": len(rows)}
    nulls = {name: sum(row[name] is None for row in rows) for name in rows[0]}
    where = rng.choice(["maps", "maps", "json", "both", "nothing"])
    if where in {"maps", "both"}:
        fields |= {"min_values": low, "max_values": high}
    if where in {"json", "both"}:
        parts = {"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls}
        fields["stats"] = json.dumps(parts if where == "json" else {"nullCount": nulls})
    return fields


def _bounds(name: str, values: list[Any], writer: str, style: int) -> tuple[str | None, str | None]:
    known = [value for value in values if value is not None]
    hidden = [value for value in known if not (isinstance(value, float) and math.isnan(value))]
    if not hidden:
        return None, None
    typed = writer not in {"foreign text", "foreign UTF-16"}
    if typed:
        texts = [spelled(name, min(hidden), style), spelled(name, max(hidden), style)]
    else:
        key = (lambda text: text.encode("utf-16-be")) if writer == "foreign UTF-16" else (lambda text: text)
        everything = sorted((spelled(name, value, style) for value in hidden), key=key)
        texts = [everything[0], everything[-1]]
    if writer == "ours, NaN shown" and len(hidden) != len(known):
        return texts[0], None
    if isinstance(hidden[0], str):
        return _cut_ours(*texts) if writer.startswith("ours") else (_cut_like_java(texts[0]), _cut_like_java(texts[1]))
    return texts[0], texts[1]


def _cut_ours(least: str, greatest: str) -> tuple[str, str | None]:
    if len(greatest) <= MAX_LENGTH:
        return least[:MAX_LENGTH], greatest
    last = ord(greatest[MAX_LENGTH - 1])
    raised = greatest[: MAX_LENGTH - 1] + chr(last + 1) if last < 0xD7FF else None
    return least[:MAX_LENGTH], raised


def _cut_like_java(text: str) -> str:
    units = text.encode("utf-16-be")[: 2 * MAX_LENGTH]
    try:
        return units.decode("utf-16-be")
    except UnicodeDecodeError:
        return units[:-2].decode("utf-16-be") + "?"
