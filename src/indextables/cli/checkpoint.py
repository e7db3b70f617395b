"""`indextables checkpoint` and `indextables compact`: one command with two names."""

from __future__ import annotations

import click

from indextables.cli.output import Column, count_text, json_option, print_answer, progress
from indextables.commands import COMMANDS

_COLUMNS = (
    Column("table", lambda row: row["table_path"]),
    Column("status", lambda row: row["status"]),
    Column("version", lambda row: str(row["checkpoint_version"])),
    Column("files", lambda row: count_text(row["num_files"])),
    Column("actions", lambda row: count_text(row["num_actions"])),
    Column("protocol", lambda row: str(row["protocol_version"])),
    Column("in parts", lambda row: "yes" if row["is_multi_part"] else "no"),
)

_EXAMPLES = """\b
Examples:
  indextables {name} /data/logs
  indextables {name} s3://bucket/logs --json | jq .checkpoint_version
"""


def _command(name: str, short_help: str) -> click.Command:
    @click.command(name, epilog=_EXAMPLES.format(name=name), short_help=short_help)
    @click.argument("url", metavar="TABLE")
    @json_option
    @click.pass_obj
    def command(options: dict[str, str], url: str, as_json: bool) -> None:
        """Compact the newest version of TABLE, a path or a URL, into a checkpoint, so that it opens fast.

        `checkpoint` and `compact` are the same command.
        """
        with progress("writing a checkpoint"):
            made = COMMANDS[name].run(url, {}, options)
        print_answer(made, _COLUMNS, as_json=as_json)

    return command


checkpoint = _command("checkpoint", "Write a compacted checkpoint of a table.")
compact = _command("compact", "The same as checkpoint.")
