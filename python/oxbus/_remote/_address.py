# SPDX-License-Identifier: Apache-2.0
"""Where a server answers administration calls.

Azure and `oxbus serve`: HTTPS, at the port of the endpoint or else 443.

With ``UseDevelopmentEmulator=true``: HTTP without TLS, at the port of the endpoint or else 5300, the management port of
the Service Bus emulator. Its README says so, and the SDK for .NET (7.20) does the same.
An endpoint without a port thus works for messages (5672) and for administration.

Source: github.com/Azure/azure-service-bus-emulator-installer, "Choosing the right connection string".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

HTTPS_PORT: Final = 443
EMULATOR_PORT: Final = 5300


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAddress:
    """Where requests go.

    Attributes:
        host: The host to connect to. An IPv6 address has no brackets.
        port: The port to connect to.
        tls: Whether the connection is encrypted.
        authority: Host and port of the namespace, as tokens and the header ``Host`` name it.
    """

    host: str
    port: int
    tls: bool
    authority: str

    @property
    def scheme(self) -> str:
        """``"https"`` or ``"http"``."""
        return "https" if self.tls else "http"

    @property
    def shown(self) -> str:
        """The address in error texts."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def administration_address(namespace: str, *, tls: bool = True, custom_endpoint: str | None = None) -> HttpAddress:
    """Return where a namespace is administered.

    Args:
        namespace: The host of the namespace, or host and port.
        tls: False for a server without TLS.
        custom_endpoint: Where to connect instead, such as ``https://gateway:8443`` or ``gateway:8443``. Tokens still
            name `namespace`.

    Raises:
        ValueError: An address is malformed.
    """
    host, port = host_and_port("fully_qualified_namespace", namespace)
    authority = urlsplit(f"//{_without_scheme(namespace)}").netloc
    default = HTTPS_PORT if tls else EMULATOR_PORT
    if custom_endpoint is not None:
        host, port = host_and_port("custom_endpoint_address", custom_endpoint)
        default = HTTPS_PORT
    return HttpAddress(host=host, port=default if port is None else port, tls=tls, authority=authority)


def _without_scheme(address: str) -> str:
    return address.partition("://")[2] if "://" in address else address


def host_and_port(option: str, address: str) -> tuple[str, int | None]:
    """Return the host of an address, without brackets, and its port if it has one.

    Args:
        option: The option that gave the address, for errors.
        address: Host, or host and port, with or without a scheme.

    Raises:
        TypeError: `address` is not a str.
        ValueError: It is malformed.
    """
    if not isinstance(address, str):
        raise TypeError(f"{option} must be a str, not {type(address).__name__}")
    try:
        split = urlsplit(f"//{_without_scheme(address)}")
        host, port = split.hostname, split.port
    except ValueError:
        host, port = None, None
    if not host or "@" in address or any(letter <= " " for letter in address):
        raise ValueError(f"{option} must be a host, or host:port: {option}=`{address}`")
    return host, port
