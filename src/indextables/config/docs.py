"""The page `docs/configuration.md`, made from the settings themselves so that it cannot disagree with them.

`python -m indextables.config.docs` prints the page; `--write PATH` writes it, `--check PATH` fails if the file differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from indextables.config import settings
from indextables.config.resolve import PREFIX
from indextables.config.setting import Family, Setting
from indextables.config.values import Maybe

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Transactions", ("transaction",)),
    ("Checkpoints and clean-up of the log", ("checkpoint", "checkpointRetention", "logRetention", "cleanup")),
    ("State", ("state",)),
    ("Statistics", ("stats", "dataSkippingNumIndexedCols", "dataSkippingStatsColumns")),
    ("Purge", ("purge", "purgeOnWrite")),
    ("Merge", ("merge", "mergeOnWrite")),
    ("Writing", ("indexWriter", "write")),
    ("Reading with Spark", ("read", "search")),
    ("Cache on disk", ("cache",)),
    ("Indexing", ("indexing",)),
    ("Storage", ("store",)),
    ("Amazon S3", ("aws",)),
    ("Azure Blob Storage", ("azure",)),
    ("Google Cloud Storage", ("gcs",)),
    ("HDFS", ("hdfs",)),
)
"""Titles, and the first words of the keys under them."""


def render() -> str:
    """The whole page as Markdown."""
    return "\n".join([_INTRODUCTION, *(_section(title, heads) for title, heads in GROUPS)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print, write or check the page; the exit code is 0 only if that worked and nothing differs."""
    parser = argparse.ArgumentParser(prog="python -m indextables.config.docs", description="The page on configuration.")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", metavar="PATH", type=Path, help="write the page to this file")
    action.add_argument("--check", metavar="PATH", type=Path, help="fail if this file is not the page")
    given = parser.parse_args(arguments)
    if given.write is not None:
        given.write.write_text(render(), encoding="utf-8")
    elif given.check is None:
        sys.stdout.write(render())
    elif not given.check.is_file() or given.check.read_text(encoding="utf-8") != render():
        sys.stderr.write(f"{given.check} is out of date: run python -m indextables.config.docs --write {given.check}\n")
        return 1
    return 0


_INTRODUCTION = f"""\
<!-- Made by `python -m indextables.config.docs --write docs/configuration.md`; edit the settings, not this page. -->

# Configuration

Every key has the prefix `{PREFIX}`, which this page leaves out. The prefix is required in a Spark session
and optional everywhere else. Upper and lower case make no difference, except in the names of columns.

The first of these that gives a value decides:

1. a clause of a command, such as `TARGET SIZE 100M`
2. an option of a call, a reader or a writer
3. the Spark session
4. a property of the table
5. the default

| | clause or option | session | table property |
|---|---|---|---|
| prefix | optional | required; other keys are not looked at | optional |
| unknown key | an error that names the nearest key | a warning that names the nearest key | ignored |
| bad value | an error | an error | an error |
| storage, credentials, local paths | used | used | ignored |

The last row keeps a table from deciding where those who read it send their credentials. One setting given twice in one
place, under two spellings and with different values, is an error.

Values: `true`, `yes`, `1` and `false`, `no`, `0` are the two truth values. Sizes are bytes, or a number with `K`, `M`,
`G` or `T` (`KB` and `KiB` mean the same: 1024). Durations are a number in the unit named, or one with a unit of its
own: `500ms`, `30s`, `5 minutes`, `2h`, `7 days`, `1 week`. Secrets are never shown in messages, logs or descriptions.

*From the environment*: without a value, the environment and the cloud's own chain of credentials decide.
"""


def _section(title: str, heads: tuple[str, ...]) -> str:
    rows = [_row(setting) for setting in settings.ALL if setting.key.split(".")[0] in heads]
    rows += [_family_row(family) for family in settings.FAMILIES if family.key.split(".")[0] in heads]
    head = "| key | default | value | meaning | also spelt |\n|---|---|---|---|---|"
    return "\n".join([f"## {title}", "", head, *rows, ""])


def _row(setting: Setting[object]) -> str:
    shown = setting.kind.show(setting.default)
    unset = setting.default is None and not isinstance(setting.kind, Maybe)
    default = "from the environment" if unset else f"`{shown}`"
    value = setting.kind.expected + (" (secret)" if setting.secret else "")
    return _cells(
        f"`{setting.key}`", default, value, setting.meaning, ", ".join(f"`{name}`" for name in setting.aliases)
    )


def _family_row(family: Family) -> str:
    short = "" if family.short is None else f"`{family.short}.<field>`, if the field's name has no dot"
    return _cells(f"`{family.key}.<field>`", f"`{family.default}`", family.kind.expected, family.meaning, short)


def _cells(*texts: str) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


if __name__ == "__main__":
    sys.exit(main())
