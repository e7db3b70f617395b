"""From how splits are indexed back to the properties that make a table index new ones alike."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import pyarrow as pa

from indextables.config import Config, settings
from indextables.config.resolve import PREFIX
from indextables.split.fields import FieldMap, IndexField, Kind, map_fields

logger = logging.getLogger(__name__)

_WORDS = frozenset({Kind.TEXT, Kind.JSON})


def indexing_properties(schema: pa.Schema, fields: FieldMap, partition_columns: Sequence[str]) -> dict[str, str]:
    """The properties `indexing.*` under which a column is indexed as in `fields`; only those that are needed."""
    usual = {field.column: field for field in map_fields(schema, Config.resolve(), partition_columns).fields}
    found: dict[str, str] = {}
    for field in fields.fields:
        if field.column in usual and field.kind is not usual[field.column].kind:
            found[f"{settings.INDEXING_TYPEMAP.key}.{field.column}"] = str(field.kind)
        if field.kind in _WORDS and field.tokenizer != settings.INDEXING_TOKENIZER.default:
            found[f"{settings.INDEXING_TOKENIZER.key}.{field.column}"] = field.tokenizer
    words = [field for field in fields.fields if field.kind in _WORDS]
    records, lengths = {field.record for field in words}, {str(field.max_token_length) for field in words}
    found |= _common(settings.INDEXING_TEXT_INDEX_RECORD_OPTION.key, records)
    found |= _common(settings.INDEXING_TEXT_MAX_TOKEN_LENGTH.key, lengths)
    if any(field.kind is Kind.JSON and not field.fast for field in fields.fields):
        found[settings.INDEXING_JSON_MODE.key] = "minimal"
    properties = {PREFIX + key: value for key, value in found.items()}
    made = map_fields(schema, Config.resolve(properties=properties), partition_columns)
    fast = _fast(fields.fields)
    if fast != _fast(made.fields) and all("," not in name and name == name.strip() for name in fast):
        properties[PREFIX + settings.INDEXING_FASTFIELDS.key] = ",".join(sorted(fast))
        made = map_fields(schema, Config.resolve(properties=properties), partition_columns)
    if made != fields:
        logger.warning("new splits will be indexed otherwise than the newest of those that are there")
    return properties


def _common(key: str, values: Iterable[str]) -> dict[str, str]:
    """A setting that all text columns share."""
    known = list(values)
    return {key: known[0]} if len(known) == 1 else {}


def _fast(fields: Iterable[IndexField]) -> set[str]:
    return {field.column for field in fields if field.fast}
