"""The library's errors from Spark's Python workers, raised as themselves.

Spark passes the text of a traceback inside its own exception. For an error of the library, only the last lines matter,
so the error is raised again without the traceback.
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
    """Raise the library's own error instead of the Spark exception that contains it."""
    try:
        yield
    except PySparkException as error:
        own = find_own_error(str(error))
        if own is None:
            raise
        raise own from None


def error_text(error: IndexTablesError) -> str:
    """Return an error as text for Java; `own_errors` restores the error from it."""
    return f"{type(error).__module__}.{type(error).__name__}: {error}"


@contextlib.contextmanager
def without_traceback() -> Iterator[None]:
    """Drop the traceback of the library's errors in a worker.

    Spark shows users the whole traceback, and they only need the message.
    """
    try:
        yield
    except IndexTablesError as error:
        raise error.with_traceback(None) from None


def find_own_error(text: str) -> IndexTablesError | None:
    """Return the library's error at the end of a traceback; None if there is none."""
    raised = list(_RAISED.finditer(text))
    if not raised:
        return None
    name, message, hint = raised[-1].groups()
    kind = getattr(errors, name, None)
    if not isinstance(kind, type) or not issubclass(kind, IndexTablesError):
        return None
    return kind(message, hint=hint)
