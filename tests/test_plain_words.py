"""Docstrings begin with one short sentence, and the prose of the source uses plain words."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGES = ("indextables", "indextables_start", "pyspark_indextables")

MAX_FIRST_LINE = 80
ENDS = (".", ":", "?", "`")
FORBIDDEN = re.compile(
    r"\b(somebody|nobody|whoever|anybody|everybody|told|lived|bears|that\s+of|called\s+off)\b", re.IGNORECASE
)
NOUN_PHRASE = re.compile(r"(The|A|An|What|How|Whether|Where)\b")
PROPERTIES = {"property", "cached_property", "lazy_property", "setter"}

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (SOURCE / package).rglob("*.py"))


def docstrings(tree: ast.Module) -> Iterator[tuple[Documented, int, str]]:
    """Yield each documented thing, the line of its docstring and the docstring."""
    for node in ast.walk(tree):
        if isinstance(node, Documented) and (text := ast.get_docstring(node)) is not None:
            yield node, node.body[0].lineno, text


def comments(source: str) -> Iterator[tuple[int, str]]:
    if not FORBIDDEN.search(source):  # tokenizing is slow
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def is_property(node: Documented) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    names = (item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "") for item in node.decorator_list)
    return not PROPERTIES.isdisjoint(names)


def first_line_faults(node: Documented, docstring: str) -> Iterator[str]:
    first = docstring.splitlines()[0] if docstring else ""
    if len(first) > MAX_FIRST_LINE:
        yield f"the first line has {len(first)} characters: {first}"
    if not first.endswith(ENDS):
        yield f"the first line has no full stop: {first}"
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if is_function and not is_property(node) and NOUN_PHRASE.match(first):
        yield f"the first line is no imperative: {first}"


def faults(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the fault of each docstring and comment that is not plain."""
    for node, line, docstring in docstrings(ast.parse(source)):
        yield from ((line, fault) for fault in first_line_faults(node, docstring))
        yield from ((line, f"`{word[0]}` in a docstring") for word in FORBIDDEN.finditer(docstring))
    for line, comment in comments(source):
        yield from ((line, f"`{word[0]}` in a comment") for word in FORBIDDEN.finditer(comment))


def test_prose_is_plain() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {fault}" for path in modules() for line, fault in faults(path.read_text())
    ]
    assert modules()
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (f'"""{"long " * 20}sentence."""', "characters"),
        ('"""No full stop"""', "no full stop"),
        ('def f():\n    """The number."""', "no imperative"),
        ('async def f():\n    """How it is done."""', "no imperative"),
        ('"""Fine.\n\nNobody reads it."""', "`Nobody` in a docstring"),
        ('"""Fine.\n\nThe name is that\nof a file."""', "in a docstring"),
        ("x = 1  # the writer is told", "`told` in a comment"),
    ],
)
def test_a_fault_is_found(source, fault) -> None:
    assert any(fault in text for _, text in faults(source))


@pytest.mark.parametrize(
    "source",
    [
        '"""A module."""',
        'class C:\n    """The class."""\n    @property\n    def p(self):\n        """The value."""',
        'class C:\n    @functools.cached_property\n    def p(self):\n        """The value."""',
        'def f():\n    """Return the number."""',
        'x = "told"  # A comment about a retold story',
    ],
)
def test_plain_prose_has_no_fault(source) -> None:
    assert not list(faults(source))
