"""The public face explains itself: every name has a docstring with its arguments, and an example that runs."""

from __future__ import annotations

import doctest
import inspect
import shutil
from pathlib import Path

import pytest
from tests.table.logs_table import make_logs

import indextables as it


def public_members() -> dict[str, object]:
    """What people call: the functions at the top, and the methods and properties of `Table`."""
    top = {name: getattr(it, name) for name in it.__all__}
    found: dict[str, object] = {name: thing for name, thing in top.items() if inspect.isfunction(thing)}
    found["Table"] = it.Table
    for name in dir(it.Table):
        if not name.startswith("_"):
            found[f"Table.{name}"] = inspect.getattr_static(it.Table, name)
    return found


MEMBERS = public_members()
NOT_RUN = {"Table.to_spark", "enable", "read", "sql"}


@pytest.fixture(scope="session")
def logs(tmp_path_factory) -> Path:
    return Path(make_logs(tmp_path_factory.mktemp("examples") / "logs").url.removeprefix("file://"))


def function_of(member: object) -> object:
    if isinstance(member, property):
        return member.fget
    return getattr(member, "__func__", member)


def test_all_names_are_looked_at() -> None:
    assert {"open", "write", "repair", "enable", "read", "sql", "Table.search", "Table.create", "Table.url"} <= set(
        MEMBERS
    )


@pytest.mark.parametrize("name", MEMBERS)
def test_a_docstring_says_what_is_done_and_with_what(name) -> None:
    member = MEMBERS[name]
    text = inspect.getdoc(member)
    assert text
    first, *rest = text.splitlines()
    assert len(first) <= 80
    assert first.endswith(".")
    assert not rest or not rest[0]
    assert ">>> " in text
    if isinstance(member, property | type):
        return
    taken = [parameter for parameter in inspect.signature(function_of(member)).parameters if parameter not in _SELF]
    missing = [parameter for parameter in taken if f"    {parameter}: " not in text]
    assert not missing


@pytest.mark.parametrize("name", sorted(MEMBERS.keys() - NOT_RUN))
def test_examples_are_true(name, logs, tmp_path, monkeypatch, capsys) -> None:
    shutil.copytree(logs, tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner()
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(MEMBERS[name]), {"it": it}, name, None, 0)
    runner.run(example)
    assert runner.tries
    assert not runner.failures, capsys.readouterr().out


_SELF = ("self", "cls")
