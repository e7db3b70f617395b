"""A table is data: nothing in it is run, and no text of it becomes a part of a statement or of a shell's command."""

from __future__ import annotations

import ast
import os
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import indextables
from indextables.commands.parse import parse_command
from indextables.errors import QueryError

SOURCE = Path(indextables.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
# What Spark's own tasks and the driver say to each other, and causes of errors that were pickled a line above: none of
# it comes from a store.
MAY_UNPICKLE = {
    "spark/workers.py",
    "spark/scan/opening.py",
    "spark/catalog/cached_tables.py",
    "spark/scan/search_functions.py",
    "errors.py",
}
RUNS_TEXT = {"eval", "exec", "compile"}
MAY_START_PROCESSES = {"state/sandbox.py", "spark/jvm/java_runtime.py", "spark/sessions/local.py", "demo/stations.py"}


def calls(module: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Call)]


def called(call: ast.Call) -> str:
    function = call.func
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


def place(module: Path) -> str:
    return module.relative_to(SOURCE).as_posix()


def imported(module: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    return found


def test_nothing_of_a_table_is_unpickled() -> None:
    readers = {"pickle", "marshal", "shelve", "dill", "yaml", "pyspark.cloudpickle", "joblib", "loky.cloudpickle"}
    assert {place(module) for module in MODULES if imported(module) & readers} == MAY_UNPICKLE


def test_no_text_is_run() -> None:
    found = {
        (place(module), called(call))
        for module in MODULES
        for call in calls(module)
        if isinstance(call.func, ast.Name) and call.func.id in RUNS_TEXT
    }
    assert found == set()


def test_no_shell_is_asked() -> None:
    for module in MODULES:
        for call in calls(module):
            assert called(call) not in {"system", "popen"}, place(module)
            assert not any(keyword.arg == "shell" for keyword in call.keywords), place(module)
    assert {place(module) for module in MODULES if "subprocess" in imported(module)} <= MAY_START_PROCESSES


def test_no_statement_is_put_together_from_names() -> None:
    """Spark is given text that the caller wrote, or columns and names as values: never a text made of both."""
    for module in SOURCE.joinpath("spark").rglob("*.py"):
        for call in calls(module):
            if called(call) in {"sql", "expr", "selectExpr", "_sql", "_select_expr"} and call.args:
                made = [node for node in ast.walk(call.args[0]) if isinstance(node, ast.JoinedStr | ast.BinOp)]
                assert made == [], f"{place(module)}, line {call.lineno}"


@pytest.mark.parametrize("name", ["`a; DROP TABLE x`", "`a``b`", "`a' OR '1'='1`", "a.`b.c`", "`x y`.`-- y`"])
def test_a_quoted_name_stays_one_name(name) -> None:
    command = parse_command(f"CHECKPOINT INDEXTABLES {name}")
    assert command is not None
    assert command.target is not None
    assert (command.target.text, command.target.is_path) == (name, False)


@pytest.mark.parametrize(
    "text",
    ["CHECKPOINT INDEXTABLES '/t'; DROP TABLE x", "CHECKPOINT INDEXTABLES t DROP TABLE x", "PURGE INDEXTABLE '/t' --"],
)
def test_a_command_is_one_statement(text) -> None:
    try:
        command = parse_command(text)
    except QueryError:
        return
    assert command is not None
    assert command.target is not None
    assert command.target.text == "/t"
    assert "DROP" not in text


class Evil:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return os.mkdir, (self.mark,)


def test_types_of_columns_run_no_code(tmp_path) -> None:
    """Old Arrow made the types of columns by unpickling what stood in a schema."""
    mark = str(tmp_path / "mark")
    metadata = {
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": pickle.dumps(Evil(mark)),
    }
    schema = pa.schema([pa.field("a", pa.int64(), metadata=metadata)])
    found = pa.ipc.read_schema(pa.py_buffer(schema.serialize()))
    assert found.field("a").type == pa.int64() or isinstance(found.field("a").type, pa.BaseExtensionType)
    assert not os.path.exists(mark)
