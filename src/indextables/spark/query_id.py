"""The id of a streaming query, which stands in its checkpoint: it lives as long as the checkpoint does."""

from __future__ import annotations

import json

from indextables.config import Config
from indextables.errors import ConfigError, IndexTablesError, ObjectNotFoundError
from indextables.spark.options import SourceOptions
from indextables.store import open_store

_METADATA = "metadata"
_HINT = (
    "or name the application by the option `txnAppId`: a name that no other query into the table has, and a new one "
    "whenever the query starts with a new checkpoint"
)


def query_id(asked: SourceOptions) -> str:
    """By what a table tells the batches of this query from those of others: the user's word, or the query's id."""
    if asked.txn_app_id is not None:
        return asked.txn_app_id
    place = asked.stream.get("checkpointLocation")
    if place is None:
        raise ConfigError(
            "cannot write a stream without the option `checkpointLocation`: batches are told apart by what is there",
            hint=f"a setting of the session does not reach the writer; give the option, {_HINT}",
        )
    try:
        store = open_store(place, Config.resolve(options=asked.settings))
        found = json.loads(store.get(_METADATA))["id"]
    except ObjectNotFoundError as error:
        raise ConfigError(
            f"cannot write a stream because there is no `{_METADATA}` in its checkpoint `{place}`",
            hint=f"give the whole address, as in `file:/...` or `s3://...`, {_HINT}",
        ) from error
    except IndexTablesError as error:
        raise ConfigError(
            f"cannot write a stream because its checkpoint `{place}` cannot be read here: {error.message}",
            hint=f"put the checkpoint where tables can be, {_HINT}",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"cannot write a stream because `{_METADATA}` in its checkpoint `{place}` holds no id of a query",
            hint=f"start with a new checkpoint, {_HINT}",
        ) from error
    return str(found)
