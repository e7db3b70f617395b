"""What a start loads: the package, the command line, and a table on local disk."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import click
import pytest

import indextables as it
from indextables.cli.main import cli

_REPORT = """
    import json, sys, sysconfig
    ours = sorted(name for name in sys.modules if name.split(".")[0].startswith("indextables"))
    tops = {name.split(".")[0] for name in sys.modules} - {*sys.stdlib_module_names, "__main__", "__mp_main__"}
    sys.stderr.write(json.dumps({"ours": ours, "others": sorted(tops - {"indextables", "indextables_start"})}))
"""


def _load(program: str, *arguments: str) -> dict[str, list[str]]:
    """What a program has loaded when it ends, beside what an empty one has."""
    loaded = []
    for each in ("", program):
        text = textwrap.dedent(each) + textwrap.dedent(_REPORT)
        command = [sys.executable, "-c", text, *arguments]
        ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, ran.stderr
        loaded.append(json.loads(ran.stderr.splitlines()[-1]))
    empty, full = loaded
    return {kind: [name for name in full[kind] if name not in empty[kind]] for kind in full}


def test_the_package_loads_nothing():
    assert _load("import indextables") == {"ours": ["indextables", "indextables._version"], "others": []}


def test_the_help_of_the_command_loads_click_alone():
    program = """
        from indextables_start import main
        try:
            main()
        except SystemExit as end:
            assert end.code == 0
    """
    assert _load(program, "--help") == {
        "ours": [
            "indextables",
            "indextables._version",
            "indextables.cli",
            "indextables.cli.main",
            "indextables.cli.options",
            "indextables.clock",
            "indextables.errors",
            "indextables_start",
        ],
        "others": ["click"],
    }


def test_opening_a_local_table_loads_what_reads_a_log(tmp_path):
    it.write(tmp_path / "t", [{"id": 1, "text": "disk full"}], text=["text"])
    program = """
        import sys
        import indextables as it
        t = it.open(sys.argv[1])
        assert (t.files().num_rows, t.count(), t.columns) == (1, 1, ["id", "text"])
    """
    loaded = _load(program, str(tmp_path / "t"))
    rooms = {".".join(name.split(".")[1:2]) for name in loaded["ours"]}
    assert rooms - {""} == {
        "_version",
        "arrow_values",
        "clock",
        "config",
        "errors",
        "location",
        "log",
        "protocol",
        "runtime",
        "state",
        "store",
        "table",
        "transaction_log",
    }
    not_needed = ("log.commit", "log.history", "state.checkpointer", "state.writer", "state.cleanup", "store.cloud")
    assert not [name for name in loaded["ours"] if name.startswith(tuple(f"indextables.{room}" for room in not_needed))]
    others = {name for name in loaded["others"] if not name.startswith(("_", "cython"))}
    assert others - {"cloudpickle", "numpy", "typing_extensions"} == {"msgspec", "pyarrow"}


def test_every_public_name_is_there_when_it_is_asked_for():
    assert set(it.__all__) <= set(dir(it))
    for name in it.__all__:
        assert getattr(it, name) is getattr(it, name)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = it.nonsense


def test_the_list_of_commands_says_what_each_says_of_itself():
    with click.Context(cli) as ctx:
        for name, shown in cli.commands.items():
            command = cli.get_command(ctx, name)
            assert (command.name, command.short_help) == (name, shown.short_help)
        assert [item.value for item in cli.shell_complete(ctx, "co")] == ["compact", "count"]
        assert cli.get_command(ctx, "nonsense") is None


def test_pandas_is_never_imported(tmp_path):
    program = """
        import datetime, sys
        import indextables as it

        def check(what):
            assert "pandas" not in sys.modules and "datafusion" not in sys.modules, what

        day = datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)
        row = {"id": 1, "text": "disk full", "day": "a", "x": 1.5, "at": day, "ok": True, "tags": ["a"], "m": {"a": 1}}
        rows = [row, {**row, "id": 2, "day": "b", "text": None}]
        t = it.write(sys.argv[1], rows, text=["text"], partition_by=["day"])
        for number in range(12):
            t.append({"id": [number], "day": ["b"], "text": ["x"]})
        check("append")
        t.checkpoint()
        t = it.open(sys.argv[1])
        t.files(), t.files("day = 'a' AND x < 9.5"), t.history(), t.indexing
        check("open")
        t.count(), t.count("disk"), t.count(where="id > 0 AND at > '2020-01-01'")
        check("count")
        t.search("disk", where="day = 'a' AND x < 9.5", limit=3, score=True, snippet="text")
        t.search(order_by="at", descending=True), t.search("nothing")
        check("search")
        t.aggregate("day"), t.stats("id"), t.date_histogram("at", interval="1d"), t.histogram("x", interval=1)
        check("aggregate")
        t.merge_splits(), t.purge(), t.fsck(), t.describe_log(), t.state()
        check("maintain")
        t.overwrite([{"id": 9, "day": "b"}], where="day = 'b'")
        t.restore(version=2)
        check("overwrite and restore")
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "t")]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr


def test_values_become_arrow_without_pyarrows_converters():
    """They import pandas. Spark does so itself."""
    root = Path(it.__file__).parent
    sources = [path for path in root.rglob("*.py") if not {"spark", "demo"} & set(path.relative_to(root).parts)]
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in sources
        if path.name != "arrow_values.py"
        for line in path.read_text().splitlines()
        if re.search(r"\bpa\.(array|scalar)\(|\.from_pylist\(|\.empty_table\(|\.group_by\(|\bimport datafusion", line)
    ]
    assert len(sources) > 100
    assert not found


def test_a_program_may_use_datafusion_beside_us():
    program = """
        import threading
        from indextables.protocol.avro.file_entry import _engine

        found = []
        threads = [threading.Thread(target=lambda: found.append(_engine())) for _ in range(4)]
        threads.append(threading.Thread(target=lambda: __import__("datafusion")))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4 and len(set(map(id, found))) == 1

        import datafusion
        assert datafusion.SessionContext().sql("select 1 as a").to_pydict() == {"a": [1]}
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=120)
