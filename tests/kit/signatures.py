# SPDX-License-Identifier: Apache-2.0
"""Shared access signatures, created as the service documents."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from typing import Final
from urllib.parse import quote_plus

KEY_NAME: Final = "RootManageSharedAccessKey"
KEY: Final = "SAS_KEY_VALUE"
"""The development key."""


def token(address: str, name: str = KEY_NAME, key: str = KEY, *, seconds: int = 60) -> str:
    """Make a token for an address."""
    address = quote_plus(address)
    expiry = int(time.time()) + seconds
    signed = hmac.new(key.encode(), f"{address}\n{expiry}".encode(), hashlib.sha256).digest()
    signature = quote_plus(base64.b64encode(signed))
    return f"SharedAccessSignature sr={address}&sig={signature}&se={expiry}&skn={quote_plus(name)}"


def connection_string(port: int, name: str = KEY_NAME, key: str = KEY, host: str = "127.0.0.1") -> str:
    """The connection string for a local server without TLS."""
    return f"Endpoint=sb://{host}:{port};SharedAccessKeyName={name};SharedAccessKey={key};UseDevelopmentEmulator=true"
