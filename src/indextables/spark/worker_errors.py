"""Errors that were raised in a Python worker of Spark, as they were raised.

Spark hands on the text of a traceback inside an exception of its own. Where the library's own call was refused, the
traceback in it says nothing, and the last lines are all: there the error is raised again as itself.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from pyspark.errors import PySparkException

from indextables import errors
from indextables.errors import IndexTablesError

_RAISED = re.compile(
    r"^indextables\.errors\.(\w+): "
    r"(.*?)(?:\nhint: (.*?))?"
    r"\s*(?:\Z|^ ?SQLSTATE: |^JVM stacktrace:|^\s+at )",
    re.MULTILINE | re.DOTALL,
)


@contextlib.contextmanager
def own_errors() -> Iterator[None]:
    """Raise the library's own error in the place of the exception in which Spark hands it on."""
    try:
        yield
    except PySparkException as error:
        own = find_own_error(str(error))
        if own is None:
            raise
        raise own from None


def error_text(error: IndexTablesError) -> str:
    """An error as Java hands it on, from which `own_errors` makes it again."""
    return f"{type(error).__module__}.{type(error).__name__}: {error}"


@contextlib.contextmanager
def without_traceback() -> Iterator[None]:
    """In a worker: Spark shows users the whole traceback, and of ours they need the message."""
    try:
        yield
    except IndexTablesError as error:
        raise error.with_traceback(None) from None


def find_own_error(text: str) -> IndexTablesError | None:
    """The error that a traceback in the text ends with, if it is one of the library's."""
    raised = list(_RAISED.finditer(text))
    if not raised:
        return None
    name, message, hint = raised[-1].groups()
    kind = getattr(errors, name, None)
    if not isinstance(kind, type) or not issubclass(kind, IndexTablesError):
        return None
    return kind(message, hint=hint)
