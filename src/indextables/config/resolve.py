"""Resolution of settings: one value from five places.

A clause of a command wins over an option, an option over the session, the session over a table's property, and a
property over the default. A `Config` is immutable and picklable; every value in it is parsed and checked when the
`Config` is made. No message, log line or repr shows a secret.

A table's properties cannot set storage, credentials or local paths: a writer of the table must not choose the server to
which its readers send their keys.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeVar, cast

from indextables.config import lookup, settings
from indextables.config.setting import Family, Setting
from indextables.errors import ConfigError

PREFIX = "spark.indextables."
REDACTED = "<redacted>"

_T = TypeVar("_T")
_Slot = tuple[str, str]
"""Key of a setting with "", or key of a family with a field."""

_NOTHING: Mapping[str, object] = MappingProxyType({})
_SECRETS = frozenset(setting.key for setting in settings.ALL if setting.secret)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Config:
    """Settings in force: `config[settings.CHECKPOINT_INTERVAL]`."""

    _layers: tuple[_Layer, ...]
    _given: dict[_Slot, object] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        given: dict[_Slot, object] = {}
        for layer in reversed(self._layers):
            given.update(layer.values)
        object.__setattr__(self, "_given", given)

    @classmethod
    def resolve(
        cls,
        *,
        clause: Mapping[str, object] = _NOTHING,
        options: Mapping[str, object] = _NOTHING,
        session: Mapping[str, object] = _NOTHING,
        properties: Mapping[str, object] = _NOTHING,
    ) -> Config:
        """Parse and combine all layers; ignore entries with the value None."""
        given = zip((_CLAUSE, _OPTION, _SESSION, _PROPERTY), (clause, options, session, properties), strict=True)
        return cls(tuple(_Layer.read(source, entries) for source, entries in given))

    def with_properties(self, properties: Mapping[str, object]) -> Config:
        """Return the same clause, options and session over another table's properties."""
        return Config((*self._layers[:-1], _Layer.read(_PROPERTY, properties)))

    def __getitem__(self, setting: Setting[_T]) -> _T:
        return cast("_T", self._given.get((setting.key, ""), setting.default))

    def is_set(self, setting: Setting[object]) -> bool:
        """Return True if a layer sets the value, even to the default."""
        return (setting.key, "") in self._given

    def source(self, setting: Setting[object]) -> str:
        """Return the layer of the value: clause, option, session, table property, default."""
        return self._source((setting.key, "")) or "default"

    def family(self, family: Family) -> dict[str, str]:
        """Return the fields that have a value, with their values."""
        return {name: cast("str", value) for (key, name), value in self._given.items() if key == family.key and name}

    def items(self) -> Iterator[tuple[str, object]]:
        """Yield every key with its value in force, secrets as `<redacted>`."""
        for setting in settings.ALL:
            slot = (setting.key, "")
            yield setting.key, _public(slot, self._given[slot]) if slot in self._given else setting.default
        for slot, value in sorted(self._given.items()):
            if slot[1]:
                yield ".".join(slot), value

    def __repr__(self) -> str:
        parts = (
            f"{'.'.join(filter(None, slot))}={_public(slot, value)!s} ({self._source(slot)})"
            for slot, value in sorted(self._given.items())
        )
        return f"Config({', '.join(parts)})"

    def __hash__(self) -> int:
        return hash(frozenset(self._given.items()))

    def _source(self, slot: _Slot) -> str | None:
        return next((layer.name for layer in self._layers if slot in layer.values), None)


@dataclass(frozen=True)
class _Source:
    """Rules of one layer."""

    name: str
    unknown: Literal["refuse", "warn", "ignore"]
    prefix_required: bool = False
    host_settings: bool = True


_CLAUSE = _Source("clause", "refuse")
_OPTION = _Source("option", "refuse")
_SESSION = _Source("session", "warn", prefix_required=True)
_PROPERTY = _Source("table property", "ignore", host_settings=False)


@dataclass(frozen=True, repr=False)
class _Layer:
    """Parsed entries of one layer."""

    name: str
    values: dict[_Slot, object]

    @classmethod
    def read(cls, source: _Source, entries: Mapping[str, object]) -> _Layer:
        values: dict[_Slot, object] = {}
        spellings: dict[_Slot, str] = {}
        for spelling, raw in entries.items():
            entry = _read_entry(source, spelling, raw)
            if entry is None:
                continue
            slot, value = entry
            if slot in values and values[slot] != value:
                raise ConfigError(
                    f"cannot choose a value for `{'.'.join(filter(None, slot))}` because `{spellings[slot]}` "
                    f"and `{spelling}` ({source.name}) are the same setting and differ",
                    hint="give only one of them",
                )
            values[slot] = value
            spellings[slot] = spelling
        return cls(source.name, values)


def _read_entry(source: _Source, spelling: object, raw: object) -> tuple[_Slot, object] | None:
    if not isinstance(spelling, str):
        raise ConfigError(f"cannot use `{spelling!r}` as a key ({source.name}): expected text")
    prefixed = spelling[: len(PREFIX)].lower() == PREFIX
    if source.prefix_required and not prefixed:
        return None
    name = spelling[len(PREFIX) :] if prefixed else spelling
    found = lookup.find(name)
    if found is None:
        _meet_unknown(source, spelling, name)
        return None
    if raw is None:
        return None
    given_as = f"{source.name} `{spelling}`"
    if isinstance(found, tuple):
        family, field_name = found
        return (family.key, field_name), family.parse(field_name, raw, given_as=given_as)
    if found.host_only and not source.host_settings:
        return None
    return (found.key, ""), found.parse(raw, given_as=given_as)


def _meet_unknown(source: _Source, spelling: str, name: str) -> None:
    if source.unknown == "ignore":
        return
    near = lookup.nearest(name)
    hint = "docs/configuration.md lists all keys" if near is None else f"did you mean `{near}`?"
    # Neither message shows the value: the misspelt key may be the key of a secret.
    if source.unknown == "refuse":
        raise ConfigError(f"cannot use the {source.name} `{spelling}` because there is no such setting", hint=hint)
    _log.warning("ignored `%s` of the session because there is no such setting; %s", spelling, hint)


def _public(slot: _Slot, value: object) -> object:
    return REDACTED if slot[0] in _SECRETS else value
