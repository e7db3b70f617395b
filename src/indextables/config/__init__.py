"""Settings: what there is to set, and which value is in force.

    config = Config.resolve(options={"checkpoint.interval": "20"})
    config[settings.CHECKPOINT_INTERVAL]

A leaf of the library: it imports nothing of it but the errors.
"""

from __future__ import annotations

from indextables.config import settings, store_settings
from indextables.config.resolve import Config
from indextables.config.setting import Family, Setting

__all__ = ["Config", "Family", "Setting", "settings", "store_settings"]
