"""How long a purge keeps objects.

Ages follow the store's clock, which dates every object.
"""

from __future__ import annotations

import dataclasses
import datetime

from indextables.config import Config, settings
from indextables.config.values import BadValueError, Duration
from indextables.errors import ConfigError
from indextables.state.cleanup.retention import FLOOR_MS, Retention

HOUR_MS = 3_600_000
_HOURS = Duration("hours")

Age = str | datetime.timedelta


@dataclasses.dataclass(frozen=True)
class Ages:
    """How long removed data files stay, and how long log files stay.

    If versions are missing, their removals have an unknown time before the oldest existing version. `unknown_ms` is the
    least age of that version at which such files may be deleted.
    """

    data_hours: int
    unknown_ms: int
    log: Retention

    @property
    def data_ms(self) -> int:
        return self.data_hours * HOUR_MS

    @classmethod
    def of(cls, config: Config, older_than: Age | None, log_retention: Age | None) -> Ages:
        """Return the ages of a command, or else of the settings.

        Raises `ConfigError` if an age is dangerously short.
        """
        data_hours = config[settings.PURGE_DEFAULT_RETENTION_HOURS] if older_than is None else _hours(older_than)
        version_ms = None if log_retention is None else _hours(log_retention) * HOUR_MS
        shortest = config[settings.PURGE_MIN_RETENTION_HOURS] if config[settings.PURGE_RETENTION_CHECK_ENABLED] else 0
        if data_hours < shortest:
            raise ConfigError(
                f"cannot purge files after {data_hours} hours because the shortest retention is {shortest} hours: "
                "writers and readers that are under way may still need them",
                hint="ask for a longer one, or set `purge.retentionCheckEnabled` to false if the table is not in use",
            )
        log = Retention.of(config, version_ms=version_ms)
        log_ms = max(FLOOR_MS, log.version_ms or 0, shortest * HOUR_MS)
        return cls(data_hours, min(data_hours * HOUR_MS, log_ms), log)


def _hours(age: Age) -> int:
    try:
        return _HOURS.read(age)
    except BadValueError:
        if isinstance(age, datetime.timedelta) and age >= datetime.timedelta():
            raise ConfigError(
                f"cannot purge after `{age}` because ages are whole hours", hint="round it up, as to `1 hour`"
            ) from None
        raise ConfigError(
            f"cannot purge because `{age}` is not an age: expected {_HOURS.expected}", hint="as in `7 days`"
        ) from None
