"""Check splits against the log, spread over the available workers.

Deep checks compare statistics and partition values in the log with the rows. Bounds may be missing or wider than the
values. Other writers may have computed bounds on text: these are wrong only if pruning by them would lose rows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array
from indextables.config import Config
from indextables.errors import CorruptSplitError, ObjectNotFoundError
from indextables.log.snapshot import Snapshot
from indextables.maintain.workers import shares, workers_for
from indextables.predicate.bound import BoundColumn, BoundValue, stored_type
from indextables.protocol.actions import Add
from indextables.protocol.file_table import AddedFile, adds_of, files_table
from indextables.protocol.schema import same_columns
from indextables.protocol.statistics_tags import NAN_SHOWN, NAN_TAG, STATS_TAG, STATS_TYPED
from indextables.prune.bounds import ColumnBounds
from indextables.prune.intervals import Interval
from indextables.prune.lenient_text import parse_texts
from indextables.prune.statistics import DEFAULT_MAX_LENGTH, FileStatistics
from indextables.runtime.progress import report
from indextables.split.split_file import SplitFile
from indextables.split.statistics import ColumnStatistics, StatisticsCollector
from indextables.split.verification import RowFacts, check_index, is_of_another_format, read_row_facts
from indextables.store import ObjectStore
from indextables.transaction_log import TransactionLog

_NAN = float("nan")
_EXACTLY = Config.resolve(options={"stats.truncation.enabled": False, "dataSkippingNumIndexedCols": -1})


def exact_statistics(schema: pa.Schema) -> StatisticsCollector:
    """Return a collector for the statistics of all columns, without shortening."""
    return StatisticsCollector(schema, _EXACTLY)


def statistics_problems(add: Add, schema: pa.Schema, found: ColumnStatistics) -> Iterator[str]:
    """Yield the errors in an add's statistics; `found` are the exact statistics."""
    claimed = FileStatistics(files_table([AddedFile(add, 0, 0)]), schema.names, DEFAULT_MAX_LENGTH)
    announced = _announced_records(add.stats)
    if announced is not None and announced != found.num_records:
        yield f"its statistics announce {announced} rows and it has {found.num_records}"
    for name in schema.names:
        column = BoundColumn((name,), schema.field(name).type)
        num_nulls = claimed.null_counts(name)[0].as_py()
        if num_nulls is not None and num_nulls != found.null_counts[name]:
            yield f"`{name}` is null in {found.null_counts[name]} rows and the log says {num_nulls}"
        if column.kind != "other":
            yield from _bound_problems(add, column, claimed, found)


def partition_problems(add: Add, schema: pa.Schema, facts: RowFacts) -> Iterator[str]:
    """Yield each partition column whose rows differ from the value in the log."""
    for name, values in facts.partition_values.items():
        claimed = add.partition_values.get(name)
        other = [value for value in values if not _is_same(value, claimed, schema.field(name).type)]
        if other:
            yield f"`{name}` is {_shown(other[0])} in its rows and the log says {_shown(claimed)}"


def _bound_problems(add: Add, column: BoundColumn, claimed: FileStatistics, found: ColumnStatistics) -> Iterator[str]:
    name, bounds = column.name, claimed.bounds(column.name)
    held = [text for text in (found.min_values.get(name), found.max_values.get(name)) if text is not None]
    num_values = found.num_records - found.null_counts[name]
    has_nan = column.kind == "float" and num_values > 0 and name not in found.max_values
    if (add.tags or {}).get(STATS_TAG) == STATS_TYPED:
        low, high = (parse_texts(texts, column.type) for texts in (bounds.low, bounds.high))
        values = parse_texts(to_array(held, pa.string()), column.type)
        if pc.any(pc.less(values, low[0])).as_py():
            yield f"`{name}` holds {_shown(held[0])}, below the least value in the log, {_shown(bounds.low[0].as_py())}"
        if pc.any(pc.greater(values, high[0])).as_py():
            yield (
                f"`{name}` holds {_shown(held[-1])}, above the greatest value in the log, "
                f"{_shown(bounds.high[0].as_py())}"
            )
        shows_nan = (add.tags or {}).get(NAN_TAG) == NAN_SHOWN
        if has_nan and shows_nan and high[0].is_valid and high[0].as_py() == high[0].as_py():
            yield f"`{name}` holds NaN, above the greatest value in the log, {_shown(bounds.high[0].as_py())}"
        return
    rules = ColumnBounds(column, bounds)
    for value in (*_bound_values(held, column), *([_NAN] if has_nan else [])):
        if rules.exclude_interval(Interval(value, value))[0].as_py():
            yield f"`{name}` holds {_shown(str(value))}, which the bounds in the log rule out"


def _bound_values(texts: list[str], column: BoundColumn) -> list[BoundValue]:
    """Convert values to the form that pruning compares."""
    values: Any = parse_texts(to_array(texts, pa.string()), column.type)
    if column.kind == "decimal":
        scale = stored_type(column.type).scale
        return [int(value.scaleb(scale)) for value in values.to_pylist() if value is not None]
    if column.kind == "date":
        values = pc.cast(values, pa.int32())
    elif column.kind == "timestamp":
        values = pc.cast(values, pa.int64())
    return [value for value in values.to_pylist() if value is not None]


def _is_same(found: str | None, claimed: str | None, type_: pa.DataType) -> bool:
    if found == claimed:
        return True
    if found is None or claimed is None:
        return False
    left, right = parse_texts(to_array([found, claimed], pa.string()), type_)
    return bool(left.is_valid and left == right)


def _announced_records(stats: str | None) -> int | None:
    try:
        found: Any = msgspec.json.decode(stats or "null")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    number = found.get("numRecords") if isinstance(found, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _shown(text: str | None) -> str:
    return "null" if text is None else f"`{text[:80]}`"


MISSING = "missing"
FOREIGN = "format"
INDEX = "index"
STATISTICS = "statistics"


class Finding(NamedTuple):
    """A problem of a split: the check that found it, and a sentence."""

    check: str
    problem: str


class CheckedSplit(NamedTuple):
    """A checked split and its problems."""

    add: Add
    findings: list[Finding]

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong, as far as a split of another format can be judged."""
        return all(finding.check == FOREIGN for finding in self.findings)

    @property
    def mended(self) -> Add | None:
        """The add action for a clean log; None if rows cannot be read.

        Wrong statistics are dropped. A damaged index is kept: the next merge rebuilds it.
        """
        wrong = {finding.check for finding in self.findings} - {FOREIGN, INDEX}
        if wrong == {STATISTICS}:
            return msgspec.structs.replace(self.add, stats=None, min_values=None, max_values=None)
        return None if wrong else self.add


def check_splits(log: TransactionLog, snapshot: Snapshot, *, deep: bool) -> Iterator[CheckedSplit]:
    """Check every live split of a snapshot.

    Quick checks read the size and the footer; deep checks read everything.
    """
    adds = adds_of(snapshot.describe(snapshot.files))
    groups = list(shares(adds, lambda add: add.size if deep else 0))
    work = functools.partial(
        _check_group, log=log, schema=snapshot.schema, partition_columns=snapshot.partition_columns, deep=deep
    )
    done = 0
    for place, results in workers_for(log).run(work, groups):
        done += len(results)
        report("checking splits", done, len(adds))
        yield from map(CheckedSplit, groups[place], results)


def verify_split(
    store: ObjectStore,
    add: Add,
    schema: pa.Schema,
    config: Config,
    *,
    partition_columns: Sequence[str] = (),
    deep: bool,
) -> list[Finding]:
    """Return the problems of one split.

    Raises if the store cannot be reached: that is no damage.
    """
    try:
        size = store.head(add.path).size
        if size != add.size:
            return [Finding("split", f"it has {size} bytes and the log says {add.size}")]
        if is_of_another_format(store, add):
            return [Finding(FOREIGN, "it is a split of another format and cannot be checked here")]
        split, findings = _open(store, add)
        if split is None:
            return findings
        findings += _footer_findings(split, add, schema)
        if deep and not findings:
            findings += _deep_findings(split, add, schema, config, partition_columns)
    except ObjectNotFoundError:
        return [Finding(MISSING, "it is missing")]
    return findings


def _check_group(
    adds: Sequence[Add], *, log: TransactionLog, schema: pa.Schema, partition_columns: Sequence[str], deep: bool
) -> list[list[Finding]]:
    store, config = log.reader.store, log.config
    return [verify_split(store, add, schema, config, partition_columns=partition_columns, deep=deep) for add in adds]


def _open(store: ObjectStore, add: Add) -> tuple[SplitFile | None, list[Finding]]:
    """Open a split; locate its footer without the log if the log's offsets are wrong.

    Wrong offsets are reported as a finding.
    """
    try:
        split = SplitFile.open(
            store,
            add.path,
            size=add.size,
            footer_start_offset=add.footer_start_offset,
            footer_end_offset=add.footer_end_offset,
        )
    except CorruptSplitError as error:
        said = error
    else:
        return split, []
    try:
        split = SplitFile.open(store, add.path, size=add.size)
    except CorruptSplitError:
        return None, [Finding("split", said.message)]
    start = split.directory.footer_start_offset
    wrong = f"the log says {add.footer_start_offset} to {add.footer_end_offset}"
    return split, [Finding("split", f"its footer is at {start} to {split.size} and {wrong}")]


def _footer_findings(split: SplitFile, add: Add, schema: pa.Schema) -> list[Finding]:
    findings: list[Finding] = []
    if add.num_records is not None and add.num_records != split.num_rows:
        findings.append(Finding("split", f"it has {split.num_rows} rows and the log says {add.num_records}"))
    if not same_columns(split.schema, schema):
        findings.append(Finding("split", "its columns differ from the table"))
    return findings


def _deep_findings(
    split: SplitFile, add: Add, schema: pa.Schema, config: Config, partition_columns: Sequence[str]
) -> list[Finding]:
    findings: list[Finding] = []
    try:
        facts = read_row_facts(split, exact_statistics(split.schema), partition_columns)
    except CorruptSplitError as error:
        findings.append(Finding("rows", error.message))
    else:
        findings += [Finding(STATISTICS, text) for text in statistics_problems(add, schema, facts.statistics)]
        findings += [Finding("partition", text) for text in partition_problems(add, schema, facts)]
    try:
        check_index(split, config)
    except CorruptSplitError as error:
        findings.append(Finding(INDEX, error.message))
    return findings
