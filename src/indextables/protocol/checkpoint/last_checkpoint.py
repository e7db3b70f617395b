"""`_last_checkpoint`: a hint of the newest checkpoint, never an authority."""

from __future__ import annotations

import msgspec

from indextables.errors import CheckpointCorruptionError
from indextables.protocol.actions import Count, Long


class LastCheckpoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Content of the hint; old writers recorded only the version."""

    version: Count
    size: Count | None = None
    size_in_bytes: Count | None = None
    num_files: Count | None = None
    created_time: Long | None = None
    parts: Count | None = None
    checkpoint_id: str | None = None
    format: str | None = None
    state_dir: str | None = None


_decoder = msgspec.json.Decoder(LastCheckpoint)


def decode_last_checkpoint(data: bytes, key: str) -> LastCheckpoint:
    """Decode the hint, or raise an error with the reason."""
    try:
        return _decoder.decode(data)
    except RecursionError as error:
        raise CheckpointCorruptionError(f"cannot read `{key}` because it is nested too deeply", path=key) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CheckpointCorruptionError(
            f"cannot read `{key}` because it is not a valid hint: {error}", path=key
        ) from error


def encode_last_checkpoint(hint: LastCheckpoint) -> bytes:
    """Return the bytes of the hint."""
    return msgspec.json.encode(hint)
