"""Messages without secrets: what a store's client says may quote a signed URL, a key or a server's answer."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_MASK = "***"
_SHORTEST_SECRET = 4
_SIGNED = re.compile(
    r"(?i)((?:x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|x-goog-credential|sig|accountkey"
    r"|sharedaccesssignature|credential|signature|authorization)"
    r"\s*[=:]\s*)(?:(?:bearer|sharedkey|basic|aws4-hmac-sha256)\s+)?[^\s&\"'<>;,]+"
)
_IN_ANSWERS = re.compile(
    r"(?i)((?:secretaccesskey|sessiontoken|(?:access|refresh|id)_token|client_(?:secret|assertion)|private_key)"
    r"\\*[\"']?\s*[=:]\s*\\*[\"']?)[^\s&\"'<>;,\\}]+"
)
_QUOTED_BY_SERVERS = re.compile(
    r"(?is)<(AWSAccessKeyId|SecretAccessKey|SessionToken|SignatureProvided|StringToSign|StringToSignBytes"
    r"|CanonicalRequest|CanonicalRequestBytes|AuthenticationErrorDetail)>.*?(?:</\1>|$)"
)
_PRIVATE_KEY = re.compile(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)")
_ACCESS_KEY_ID = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b")
_USERINFO = re.compile(r"://[^/\s@]+@")
_SECRET_VARIABLE = re.compile(r"(?:AWS|AZURE|GOOGLE)_\w*(?:KEY|SECRET|TOKEN|SAS|PASSWORD)")


def redact(message: str, secrets: Iterable[str] = ()) -> str:
    """The message with every known secret, signature and password masked."""
    known = {*secrets, *(value for name, value in os.environ.items() if _SECRET_VARIABLE.match(name))}
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            message = message.replace(secret, _MASK)
    message = _QUOTED_BY_SERVERS.sub(rf"<\1>{_MASK}</\1>", message)
    message = _USERINFO.sub(f"://{_MASK}@", _PRIVATE_KEY.sub(_MASK, message))
    message = _IN_ANSWERS.sub(rf"\1{_MASK}", _ACCESS_KEY_ID.sub(_MASK, message))
    return _SIGNED.sub(rf"\1{_MASK}", message)
