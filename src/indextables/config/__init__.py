"""Settings and their values in force.

    config = Config.resolve(options={"checkpoint.interval": "20"})
    config[settings.CHECKPOINT_INTERVAL]

This package is a leaf: it imports only `errors` from the rest of the library.
"""

from __future__ import annotations

from indextables.config import settings, store_settings
from indextables.config.resolve import Config
from indextables.config.setting import Family, Setting

__all__ = ["Config", "Family", "Setting", "settings", "store_settings"]
