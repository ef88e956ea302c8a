# SPDX-License-Identifier: Apache-2.0
"""From an address, a credential and options to a transport."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxbus._remote._address import administration_address
from oxbus._remote._credentials import request_credential
from oxbus._remote._http import HttpClient
from oxbus._remote._options import retry_options
from oxbus.management._atom._requests import AtomRequests
from oxbus.management._atom._transport import AtomTransport

if TYPE_CHECKING:
    from oxbus._connection import Connection
    from oxbus._remote._options import ConnectionOptions

_HTTP_OPTIONS = ("connection_verify", "http_proxy", "connection_timeout", "read_timeout")


def connect(
    namespace: str, credential: object, options: ConnectionOptions, *, api_version: str, tls: bool = True
) -> AtomTransport:
    """Return the transport to a server; it connects at the first call.

    Args:
        namespace: The host of the namespace, or host and port.
        credential: See `request_credential`.
        options: The options of the connection.
        api_version: The version of the service's management interface.
        tls: False for a server without TLS.

    Raises:
        OSError: The certificate file cannot be read.
        TypeError: The credential or an option has the wrong type.
        ValueError: The address, the credential or an option is malformed.
    """
    address = administration_address(namespace, tls=tls, custom_endpoint=options.get("custom_endpoint_address"))
    given: dict[str, Any] = {name: value for name, value in options.items() if name in _HTTP_OPTIONS}
    retry = retry_options(options)
    http = HttpClient(address, **given)
    requests = AtomRequests(http, address, request_credential(credential), retry, api_version)
    return AtomTransport(requests, address.authority)


def connect_by(connection: Connection, options: ConnectionOptions, *, api_version: str) -> AtomTransport:
    """Return the transport to the server of a connection string; as for `connect`."""
    properties, server = connection.properties, connection.server
    credential: object = properties.shared_access_signature
    if credential is None:
        credential = (properties.shared_access_key_name, properties.shared_access_key)
    return connect(
        properties.fully_qualified_namespace,
        credential,
        options,
        api_version=api_version,
        tls=server is None or server.tls,
    )
