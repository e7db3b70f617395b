"""The error tree: a class says what the caller has to do, a message says what went wrong and where.

    IndexTablesError
    ├── TableNotFoundError          nothing is there (also a FileNotFoundError)
    ├── TableExistsError            something is there already (also a FileExistsError)
    ├── ProtocolError               upgrade the library, or the table
    ├── SchemaError                 mend the schema or the data (also a ValueError)
    ├── QueryError                  mend the query (also a ValueError)
    ├── ConfigError                 mend a setting or an argument (also a ValueError)
    ├── CommitConflictError         another writer was first: run the operation again
    ├── CommitStateUnknownError     look whether the commit is there; nothing was deleted
    ├── CheckpointError             a state or checkpoint
    │   ├── CheckpointWriteError
    │   ├── CheckpointValidationError
    │   └── CheckpointCorruptionError
    ├── CorruptLogError             the transaction log is damaged: repair it
    │   └── DivergedLogError        two kinds of writers made two histories: repair it
    ├── CorruptSplitError           a split is damaged
    ├── RetentionError              what was asked for is no longer retained
    └── StorageError                the object store failed or refused
        ├── ObjectExistsError       a create found its key taken (also a FileExistsError)
        ├── ObjectNotFoundError     no object under that key (also a FileNotFoundError)
        └── StorageRefusedError     the store said no, and nothing was applied
            └── StorageDeniedError  no permission (also a PermissionError)

`BadSplitWarning` is a warning, not an error: a search has left out splits that it could not read, as it was told to.

Messages read *cannot X because Y*, with values in backticks, and a `hint:` line where there is one. Credentials never
stand in them. Programs read `version`, `path` and `cause` instead of messages.
"""

from __future__ import annotations

import pickle


class IndexTablesError(Exception):
    """The root of all errors that this library raises on purpose.

    `version` and `path` say what the error is about, where that is known: a version of the table, and the key of an
    object, or the table's address. `cause` is the error below. All of it survives pickling.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, version: int | None = None, path: str | None = None
    ) -> None:
        self.message = message
        self.hint = hint
        self.version = version
        self.path = path
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")

    @property
    def cause(self) -> BaseException | None:
        """The error that led to this one, if there is one."""
        return self.__cause__

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.__dict__, _picklable(self.__cause__))


class TableNotFoundError(IndexTablesError, FileNotFoundError):
    """There is no table at the place that was named."""


class TableExistsError(IndexTablesError, FileExistsError):
    """There is a table already at the place where one was to be created."""


class ProtocolError(IndexTablesError):
    """The table asks for a newer reader or writer than this library is."""


class SchemaError(IndexTablesError, ValueError):
    """A schema, a column or a partitioning does not fit."""


class QueryError(IndexTablesError, ValueError):
    """A query or predicate cannot be understood."""


class ConfigError(IndexTablesError, ValueError):
    """A setting or an argument has no such key or no such value."""


class CommitConflictError(IndexTablesError):
    """Another writer committed something that this operation cannot stand beside. Run it again."""


class CommitStateUnknownError(IndexTablesError):
    """A commit may or may not have happened; look before you run it again. Nothing was deleted."""


class CheckpointError(IndexTablesError):
    """Something about a state or checkpoint went wrong; the table itself is unharmed."""


class CheckpointWriteError(CheckpointError):
    """A checkpoint could not be written."""


class CheckpointValidationError(CheckpointError):
    """A checkpoint was written but does not stand for what it should."""


class CheckpointCorruptionError(CheckpointError):
    """A checkpoint's bytes are damaged."""


class CorruptLogError(IndexTablesError):
    """The transaction log is damaged or incomplete."""


class DivergedLogError(CorruptLogError):
    """A state does not contain a version that is there. `version` is the version, `state_version` the state's."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        version: int | None = None,
        path: str | None = None,
        state_version: int = -1,
    ) -> None:
        super().__init__(message, hint=hint, version=version, path=path)
        self.state_version = state_version


class CorruptSplitError(IndexTablesError):
    """A split is damaged."""


class BadSplitWarning(UserWarning):
    """An answer leaves out splits that could not be read, as was asked for with `bad_splits="skip"`."""


class RetentionError(IndexTablesError):
    """What was asked for lies before what the table retains."""


class StorageError(IndexTablesError, OSError):
    """The object store failed, refused, or gave no clear answer."""

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class ObjectExistsError(StorageError, FileExistsError):
    """Put-if-absent found the key taken, or says so: who holds it must be read to be known."""


class ObjectNotFoundError(StorageError, FileNotFoundError):
    """There is no object under the key."""


class StorageRefusedError(StorageError):
    """The store said a clear no, as for a full disk: nothing was applied."""


class StorageDeniedError(StorageRefusedError, PermissionError):
    """The store refused for want of permission or credentials: nothing was applied."""


def _picklable(cause: BaseException | None) -> BaseException | None:
    """The cause, or what is left of one that cannot be pickled: the name of its class."""
    if cause is None or isinstance(cause, IndexTablesError):
        return cause
    try:
        pickle.loads(pickle.dumps(cause))  # noqa: S301 - bytes that were written one line above
    except Exception:  # noqa: BLE001 - classes of other libraries fail in ways of their own
        return IndexTablesError(f"an error of class `{type(cause).__name__}`")
    return cause


def _rebuild(
    kind: type[IndexTablesError],
    message: str,
    hint: str | None,
    state: dict[str, object],
    cause: BaseException | None = None,
) -> IndexTablesError:
    error = kind(message, hint=hint)
    error.__dict__.update(state)
    error.__cause__ = cause
    return error
