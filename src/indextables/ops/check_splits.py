"""Splits held against what the log says of them, by as many workers as there are."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa

from indextables.config import Config
from indextables.errors import CorruptSplitError, ObjectNotFoundError
from indextables.log.snapshot import Snapshot
from indextables.ops.reporting import report
from indextables.ops.split_claims import exact_statistics, partition_problems, statistics_problems
from indextables.ops.workers import shares, workers_for
from indextables.protocol.actions import Add
from indextables.protocol.file_table import adds_of
from indextables.protocol.schema import same_columns
from indextables.split.split_file import SplitFile
from indextables.split.verifying import check_index, is_of_another_format, read_row_facts
from indextables.store import ObjectStore
from indextables.transaction_log import TransactionLog

MISSING = "missing"
FOREIGN = "format"
INDEX = "index"
STATISTICS = "statistics"


class Finding(NamedTuple):
    """What is wrong with a split: the check that found it, and a sentence."""

    check: str
    problem: str


class CheckedSplit(NamedTuple):
    """A split that was checked, and what is wrong with it."""

    add: Add
    findings: list[Finding]

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong, as far as a split of another format can be judged."""
        return all(finding.check == FOREIGN for finding in self.findings)

    @property
    def mended(self) -> Add | None:
        """What a log may say of it: nothing of statistics that are wrong, and nothing at all where rows cannot be read.
        An index that is damaged is built again by the next merge."""
        wrong = {finding.check for finding in self.findings} - {FOREIGN, INDEX}
        if wrong == {STATISTICS}:
            return msgspec.structs.replace(self.add, stats=None, min_values=None, max_values=None)
        return None if wrong else self.add


def check_splits(log: TransactionLog, snapshot: Snapshot, *, deep: bool) -> Iterator[CheckedSplit]:
    """Every live split of a snapshot. Quick checks look at the size and the footer, deep ones read everything."""
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
    """What is wrong with one split. What cannot be reached just now is an error, not a damage."""
    try:
        size = store.head(add.path).size
        if size != add.size:
            return [Finding("split", f"it has {size} bytes and the log says {add.size}")]
        if is_of_another_format(store, add):
            return [Finding(FOREIGN, "it is a split of another format, which cannot be checked here")]
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
    """The split; found by itself where the log says wrongly where its footer is, which is told."""
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
    return split, [Finding("split", f"its footer stands at {start} to {split.size} and {wrong}")]


def _footer_findings(split: SplitFile, add: Add, schema: pa.Schema) -> list[Finding]:
    findings: list[Finding] = []
    if add.num_records is not None and add.num_records != split.num_rows:
        findings.append(Finding("split", f"it has {split.num_rows} rows and the log says {add.num_records}"))
    if not same_columns(split.schema, schema):
        findings.append(Finding("split", "its columns are not those of the table"))
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
