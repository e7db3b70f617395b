"""The documents are true: the module list is the tree, the examples run, the public names are frozen."""

from __future__ import annotations

import ast
import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import indextables as it

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "indextables"


def modules() -> set[str]:
    names = {".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in SOURCE.rglob("*.py")}
    return {name.removesuffix(".__init__") for name in names if name != "__init__"}


def test_the_module_list_of_the_architecture_is_the_tree() -> None:
    listed = re.findall(r"^\| `([\w.]+)` \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == modules()


def test_modules_are_small_and_say_what_they_are() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert len(text.splitlines()) <= 700, path
        assert ast.get_docstring(ast.parse(text)), path


def test_a_package_shows_its_modules_at_a_glance() -> None:
    for package in {path.parent for path in SOURCE.rglob("*.py")}:
        modules = [path.name for path in package.glob("*.py") if path.name != "__init__.py"]
        assert len(modules) <= 15, f"{package} has {len(modules)} modules beside each other"


def blocks(language: str, document: str = "README.md") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


@pytest.mark.parametrize("document", ["README.md", "docs/python.md", "docs/search.md", "docs/splits.md"])
def test_sessions_in_documents_are_true(tmp_path, monkeypatch, capsys, document) -> None:
    monkeypatch.chdir(tmp_path)
    session = "\n".join(blocks("pycon", document))
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(doctest.DocTestParser().get_doctest(session, {}, document, document, 0))
    assert runner.tries >= 5
    assert not runner.failures, capsys.readouterr().out


def test_the_examples_of_maintenance_run(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = blocks("python", "docs/maintenance.md")
    assert len(code) >= 2
    exec(compile("\n".join(code), "docs/maintenance.md", "exec"), {})


def test_the_examples_of_the_readme_run(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {"it": it})
    shown = [command for block in blocks("console") for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert sum(command.startswith("indextables ") for command in shown) >= 8
    script = str(Path(sys.executable).parent / "indextables")
    for command, output in (text.split("\n", 1) for text in shown):
        words = shlex.split(command.partition("|")[0])
        if words[0] == "cat":
            (tmp_path / words[1]).write_text(output)
        if words[0] != "indextables":
            continue
        done = subprocess.run([script, *words[1:]], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout
        if output:
            assert comparable((done.stdout + done.stderr).replace(str(tmp_path), "/home/you")) == comparable(output)


def comparable(output: str) -> str:
    """Output without how long it took and how many bytes there were."""
    timeless = re.sub(r"[\d.,]+ m?s\b(?: \([\d.,]+ rows/s\))?(?= →|\n|$)", "some time", output)
    return re.sub(r"[\d.,]+ KiB\b(?= →|\n|$)", "some KiB", timeless)


def test_the_make_targets_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"help", "setup", "test", "check", "demo", "bench", "clean"} <= targets
    assert set(re.findall(r"\$ make (\w+)", (ROOT / "README.md").read_text())) <= targets


def test_links_between_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_the_pins_are_names_and_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert len(lines) > 20
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.!+-]+", line) for line in lines)


PUBLIC = {
    "Snippet",
    "Table",
    "TransactionLog",
    "__version__",
    "actions",
    "enable",
    "errors",
    "open",
    "read",
    "repair",
    "spark",
    "sql",
    "write",
}
TABLE = {
    "aggregate",
    "answer_stats",
    "append",
    "checkpoint",
    "columns",
    "compact",
    "count",
    "create",
    "dataset",
    "date_histogram",
    "describe_log",
    "drop_partitions",
    "explain",
    "files",
    "flush_search_cache",
    "fsck",
    "head",
    "histogram",
    "history",
    "indexing",
    "invalidate_cache",
    "log",
    "merge_jobs",
    "merge_splits",
    "metadata",
    "num_files",
    "num_records",
    "open",
    "optimize",
    "overwrite",
    "partition_columns",
    "protocol",
    "prewarm",
    "purge",
    "refresh",
    "reindex",
    "restore",
    "schema",
    "search",
    "set_properties",
    "skipped_files",
    "snapshot",
    "state",
    "stats",
    "to_arrow",
    "to_batches",
    "to_duckdb",
    "to_pandas",
    "to_polars",
    "to_spark",
    "truncate_time_travel",
    "url",
    "vacuum",
    "value_counts",
    "version",
}
LOG = {
    "add_files",
    "cache_stats",
    "checkpoint",
    "checkpointer",
    "clock",
    "commit",
    "config",
    "config_in_force",
    "describe",
    "files_in_cooldown",
    "filter_files_in_cooldown",
    "history",
    "initialize",
    "invalidate_cache",
    "is_in_cooldown",
    "is_portable",
    "last_checkpoint",
    "list_files",
    "metadata",
    "metrics",
    "options",
    "overwrite_files",
    "protocol",
    "read_version",
    "reader",
    "record_skipped_file",
    "replace_files",
    "replace_groups",
    "scan_files",
    "schema",
    "set_properties",
    "skipped_files",
    "snapshot",
    "states",
    "upgrade_protocol",
    "url",
    "versions",
    "wait_for_checkpoint",
}


@pytest.mark.parametrize(("thing", "names"), [(it.TransactionLog, LOG), (it.Table, TABLE)])
def test_public_names_are_frozen(thing, names) -> None:
    assert {name for name in dir(thing) if not name.startswith("_")} == names


def test_the_top_is_frozen() -> None:
    assert set(it.__all__) == PUBLIC


def test_errors_have_one_root_and_pickle() -> None:
    import pickle

    kinds = [kind for kind in vars(it.errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    kinds = [kind for kind in kinds if not issubclass(kind, Warning)]
    assert len(kinds) > 15
    for kind in kinds:
        assert issubclass(kind, it.errors.IndexTablesError)
        copy = pickle.loads(pickle.dumps(kind("cannot x because y", hint="do z")))
        assert type(copy) is kind
        assert str(copy) == "cannot x because y\nhint: do z"
        assert copy.hint == "do z"
