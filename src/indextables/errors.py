"""Error tree: the class names the remedy, the message the fault and its place.

    IndexTablesError
    ├── TableNotFoundError          no table at this address (also a FileNotFoundError)
    ├── TableExistsError            the address holds a table already (also a FileExistsError)
    ├── ProtocolError               upgrade the library, or the table
    ├── SchemaError                 correct the schema or the data (also a ValueError)
    ├── QueryError                  correct the query (also a ValueError)
    ├── ConfigError                 correct a setting or an argument (also a ValueError)
    ├── CommitConflictError         another writer committed first: run the operation again
    ├── CommitStateUnknownError     check whether the commit exists; nothing was deleted
    ├── CheckpointError             a state or checkpoint
    │   ├── CheckpointWriteError
    │   ├── CheckpointValidationError
    │   └── CheckpointCorruptionError
    ├── CorruptLogError             the transaction log is damaged: repair it
    │   └── DivergedLogError        two kinds of writers made two histories: repair it
    ├── CorruptSplitError           a split is damaged
    ├── RetentionError              the table does not retain the requested version
    └── StorageError                the object store failed or refused
        ├── ObjectExistsError       a create found its key taken (also a FileExistsError)
        ├── ObjectNotFoundError     the key has no object (also a FileNotFoundError)
        └── StorageRefusedError     the store refused, and applied nothing
            └── StorageDeniedError  no permission (also a PermissionError)

`BadSplitWarning` is a warning, not an error: a search skipped splits that it could not read, as its caller requested.

Messages read *cannot X because Y*, with values in backticks and an optional `hint:` line. They never contain
credentials. Programs read `version`, `path` and `cause` instead of messages.
"""

from __future__ import annotations

import pickle


class IndexTablesError(Exception):
    """Base class of all errors that this library raises on purpose.

    `version` is the version of the table and `path` the key of the object, or the address of the table, if they are
    known. `cause` is the underlying error. All of them survive pickling.
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
        """Underlying error, if there is one."""
        return self.__cause__

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.__dict__, _picklable(self.__cause__))


class TableNotFoundError(IndexTablesError, FileNotFoundError):
    """The address holds no table."""


class TableExistsError(IndexTablesError, FileExistsError):
    """The address of a new table holds a table already."""


class ProtocolError(IndexTablesError):
    """The table requires a newer reader or writer than this library."""


class SchemaError(IndexTablesError, ValueError):
    """A schema, a column or a partitioning does not fit."""


class QueryError(IndexTablesError, ValueError):
    """A query or predicate is not valid."""


class ConfigError(IndexTablesError, ValueError):
    """A setting or an argument is unknown or has a bad value."""


class CommitConflictError(IndexTablesError):
    """Another writer made a conflicting commit.

    Run the operation again.
    """


class CommitStateUnknownError(IndexTablesError):
    """It is unknown whether a commit happened.

    Check the log before you run the operation again. Nothing was deleted.
    """


class CheckpointError(IndexTablesError):
    """A state or checkpoint failed; the table itself is not damaged."""


class CheckpointWriteError(CheckpointError):
    """A checkpoint cannot be written."""


class CheckpointValidationError(CheckpointError):
    """A written checkpoint does not match its version."""


class CheckpointCorruptionError(CheckpointError):
    """The bytes of a checkpoint are damaged."""


class CorruptLogError(IndexTablesError):
    """The transaction log is damaged or incomplete."""


class DivergedLogError(CorruptLogError):
    """A state omits a version that is in the log.

    `version` is the version, `state_version` the version of the state.
    """

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
    """A result omits splits that cannot be read, because of `bad_splits="skip"`."""


class RetentionError(IndexTablesError):
    """The table does not retain the requested version."""


class StorageError(IndexTablesError, OSError):
    """The object store failed, refused, or sent no clear response."""

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class ObjectExistsError(StorageError, FileExistsError):
    """A conditional create found the key taken.

    Some stores report this for an object that the same request created: read the object to know.
    """


class ObjectNotFoundError(StorageError, FileNotFoundError):
    """The key has no object."""


class StorageRefusedError(StorageError):
    """The store refused the request, for example on a full disk, and applied nothing."""


class StorageDeniedError(StorageRefusedError, PermissionError):
    """The store refused for lack of permission or credentials, and applied nothing."""


def _picklable(cause: BaseException | None) -> BaseException | None:
    """Return the cause, or an error that names its class if it cannot be pickled."""
    if cause is None or isinstance(cause, IndexTablesError):
        return cause
    try:
        pickle.loads(pickle.dumps(cause))  # noqa: S301 - bytes written on the same line
    except Exception:  # noqa: BLE001 - classes of other libraries may raise any error
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
