# SPDX-License-Identifier: Apache-2.0
"""What identifies a client to a server: a key, a ready-made signature, or an object that gives tokens.

Source: docs/behaviour.md B-414, B-455; `azure.core.credentials`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote_plus

from oxbus.exceptions import ServiceBusAuthenticationError

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN_SCOPE: Final = "https://servicebus.azure.net/.default"  # noqa: S105 (an address, not a secret)
"""The scope of tokens of Microsoft Entra ID for Service Bus."""

SIGNATURE_SECONDS: Final = 3600
"""How long a signature of a key is valid, as in the SDK."""

RENEWAL_SECONDS: Final = 300
"""A token is renewed this long before it expires."""

_SIGNATURE_PREFIX: Final = "SharedAccessSignature "


class RequestCredential(Protocol):
    """Gives the text of the header ``Authorization``."""

    def authorization(self, address: str) -> str:
        """Return the text for a request.

        Args:
            address: What the request is for, such as ``https://host/orders``.
        """


class KeyCredential:
    """A key, which signs a token for each request."""

    def __init__(self, named_key: Callable[[], tuple[str, str]]) -> None:
        """Keep a function that returns the name of the key and the key, which may be replaced while it is in use."""
        self._named_key = named_key

    def named_key(self) -> tuple[str, str]:
        """Return the name of the key and the key."""
        return self._named_key()

    def authorization(self, address: str, seconds: int = SIGNATURE_SECONDS) -> str:
        """Return a token that is limited to `address` and valid for so long."""
        name, key = self._named_key()
        scope, expiry = quote_plus(address), str(int(time.time()) + seconds)
        signed = hmac.digest(key.encode(), f"{scope}\n{expiry}".encode(), hashlib.sha256)
        signature = quote_plus(base64.b64encode(signed))
        return f"{_SIGNATURE_PREFIX}sr={scope}&sig={signature}&se={expiry}&skn={quote_plus(name)}"


class SignatureCredential:
    """A ready-made signature. It cannot be renewed."""

    def __init__(self, signature: Callable[[], str]) -> None:
        """Keep a function that returns the signature, which may be replaced while it is in use."""
        self._signature = signature

    def authorization(self, address: str) -> str:  # noqa: ARG002 (the signature has its own scope)
        """Return the signature."""
        return self._signature()


class TokenCredential:
    """An object with `get_token`, as azure-identity has them. A token is kept until shortly before it expires."""

    def __init__(self, credential: Any) -> None:
        """Keep the object."""
        self._credential = credential
        # Threads may renew it together, which is harmless; a lock could stay locked in a forked process.
        self._kept: tuple[str, float] = ("", 0)

    def authorization(self, address: str) -> str:  # noqa: ARG002 (the token is for the whole service)
        """Return a token.

        Raises:
            ServiceBusAuthenticationError: The object gave no token.
        """
        text, renewed_after = self._kept
        if time.time() < renewed_after:
            return text
        try:
            given = self._credential.get_token(TOKEN_SCOPE)
            token, expires_on = str(given.token), float(given.expires_on)
        except Exception as error:
            raise ServiceBusAuthenticationError(
                f"the credential gave no token: check it, or use a connection string with a key: {error}", error=error
            ) from error
        text = token if token.startswith(_SIGNATURE_PREFIX) else f"Bearer {token}"
        self._kept = (text, expires_on - RENEWAL_SECONDS)
        return text


def messaging_credential(credential: object) -> tuple[str, str] | str | Callable[[], tuple[str, float]]:
    """Return the credential of a connection for messages for what a caller gave.

    Returns:
        The name of a key and the key; a signature; or a function that returns a token and its end in seconds since
        1970.

    Args:
        credential: As for `request_credential`.

    Raises:
        TypeError: It is none of these.
        ValueError: A text is no signature.
    """
    match checked := request_credential(credential):
        case KeyCredential():
            return checked.named_key()
        case SignatureCredential():
            return checked.authorization("")
    given: Any = credential

    def token() -> tuple[str, float]:
        got = given.get_token(TOKEN_SCOPE)
        return str(got.token), float(got.expires_on)

    return token


def request_credential(credential: object) -> RequestCredential:
    """Return the credential of requests for what a caller gave.

    Args:
        credential: A pair of key name and key; a text ``SharedAccessSignature sr=…``; an `AzureNamedKeyCredential` or
            `AzureSasCredential`; or an object with `get_token`.

    Raises:
        TypeError: It is none of these.
        ValueError: A text is no signature.
    """
    given: Any = credential
    if isinstance(given, str):
        if not given.startswith(_SIGNATURE_PREFIX):
            raise ValueError(
                "credential must be a signature that begins with 'SharedAccessSignature sr=', "
                "or a pair of key name and key"
            )
        return SignatureCredential(lambda: given)
    match given:
        case (str(name), str(key)):
            return KeyCredential(lambda: (name, key))
    if isinstance(getattr(given, "named_key", None), tuple):
        return KeyCredential(lambda: given.named_key)
    if isinstance(getattr(given, "signature", None), str):
        return SignatureCredential(lambda: given.signature)
    # The SDK's own class of a key and its name; its `get_token` would sign another address.
    if isinstance(getattr(given, "policy", None), str) and isinstance(getattr(given, "key", None), str):
        return KeyCredential(lambda: (given.policy, given.key))
    if callable(getattr(given, "get_token", None)):
        return TokenCredential(given)
    raise TypeError(
        "credential must be a pair of key name and key, a text 'SharedAccessSignature sr=...', "
        "an AzureNamedKeyCredential or AzureSasCredential, or an object with get_token, "
        f"not {type(given).__name__}"
    )
