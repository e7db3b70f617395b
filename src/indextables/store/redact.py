"""Messages without secrets: what a store's client says may quote a signed URL or a key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_MASK = "***"
_SIGNED = re.compile(
    r"(?i)((?:x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|sig|accountkey|sharedaccesssignature|authorization)"
    r"\s*[=:]\s*)(?:(?:bearer|sharedkey|basic)\s+)?[^\s&\"'<>;]+"
)
_ENVIRONMENT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_CLIENT_SECRET",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
)


def redact(message: str, secrets: Iterable[str] = ()) -> str:
    """The message with every known secret and every signature masked."""
    known = [*secrets, *(os.environ.get(name, "") for name in _ENVIRONMENT)]
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= 4:
            message = message.replace(secret, _MASK)
    return _SIGNED.sub(rf"\1{_MASK}", message)
