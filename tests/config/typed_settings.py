"""Each setting has the type of its value. `make check` reads this file with mypy; no test runs it."""

from __future__ import annotations

from typing import assert_type

from indextables.config import Config, settings, store_settings

config = Config.resolve()
assert_type(config[settings.CHECKPOINT_INTERVAL], int)
assert_type(config[settings.CHECKPOINT_ENABLED], bool)
assert_type(config[settings.STATE_COMPACTION_TOMBSTONE_THRESHOLD], float)
assert_type(config[settings.STATE_FORMAT], str)
assert_type(config[settings.PURGE_PARALLELISM], int | None)
assert_type(config[store_settings.AWS_REGION], str | None)
assert_type(config[store_settings.AWS_PATH_STYLE_ACCESS], bool | None)
assert_type(config[settings.INDEXING_FASTFIELDS], tuple[str, ...] | None)
assert_type(config.family(settings.INDEXING_TYPEMAP), dict[str, str])
config.is_set(settings.CHECKPOINT_INTERVAL)
wrong: str = config[settings.CHECKPOINT_INTERVAL]  # type: ignore[assignment]  # mypy complains where this is no mistake
