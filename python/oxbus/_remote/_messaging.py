# SPDX-License-Identifier: Apache-2.0
"""From an address, a credential and options to the namespace of a server."""

from __future__ import annotations

import math
import uuid
from typing import TYPE_CHECKING, Any

from oxbus._enums import TransportType
from oxbus._oxbus import _RemoteNamespace
from oxbus._remote._address import host_and_port
from oxbus._remote._credentials import messaging_credential
from oxbus._remote._options import certificate_file, check_messaging_options, retry_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oxbus._connection import Connection
    from oxbus._remote._options import MessagingOptions

_CONNECT_SECONDS = 60.0
"""Time to connect and to open a link, without `socket_timeout`."""


def connect(
    namespace: str, credential: object, options: MessagingOptions, *, tls: bool = True, entity_path: str | None = None
) -> _RemoteNamespace:
    """Return the namespace of a server; it connects at the first call.

    Args:
        namespace: The host of the namespace, or host and port.
        credential: See `messaging_credential`.
        options: The options of the connection.
        tls: False for a server without TLS.
        entity_path: The entity that the credential is limited to.

    Raises:
        OSError: The certificate file cannot be read.
        TypeError: The credential or an option has the wrong type.
        ValueError: The address, the credential or an option is malformed.
    """
    host, port = host_and_port("fully_qualified_namespace", namespace)
    check_messaging_options(options)
    retry = retry_options(options)
    custom_endpoint = options.get("custom_endpoint_address")
    http_proxy, user_agent = options.get("http_proxy"), options.get("user_agent")
    transport = TransportType(options.get("transport_type") or TransportType.Amqp)
    name = f"{user_agent or 'oxbus'}-{uuid.uuid4().hex[:8]}"
    try_timeout = options.get("try_timeout")
    return _RemoteNamespace(
        {
            "host": host,
            "port": port,
            "tls": tls,
            "custom_endpoint": None
            if custom_endpoint is None
            else host_and_port("custom_endpoint_address", custom_endpoint),
            "ca_file": certificate_file(options.get("connection_verify")),
            # As in the SDK: a proxy for HTTP forwards no other protocol.
            "websocket": transport is TransportType.AmqpOverWebsocket or http_proxy is not None,
            "proxy": None if http_proxy is None else _proxy(http_proxy),
            "credential": messaging_credential(credential),
            "entity": entity_path,
            "retry_total": retry.total,
            "retry_backoff_factor": retry.backoff_factor,
            "retry_backoff_max": retry.backoff_max,
            "retry_fixed": retry.mode == "fixed",
            "connect_timeout": min(options.get("socket_timeout") or _CONNECT_SECONDS, try_timeout or math.inf),
            "try_timeout": try_timeout,
            "identifier": name,
        }
    )


def connect_by(connection: Connection, options: MessagingOptions) -> _RemoteNamespace:
    """Return the namespace of the server of a connection string; as for `connect`."""
    properties, server = connection.properties, connection.server
    credential: object = properties.shared_access_signature
    if credential is None:
        credential = (properties.shared_access_key_name, properties.shared_access_key)
    return connect(
        properties.fully_qualified_namespace,
        credential,
        options,
        tls=server is None or server.tls,
        entity_path=properties.entity_path,
    )


def _proxy(http_proxy: Mapping[str, Any]) -> tuple[str, int, tuple[str, str] | None]:
    try:
        host, port = str(http_proxy["proxy_hostname"]), int(http_proxy["proxy_port"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError("http_proxy must be a mapping with proxy_hostname and proxy_port") from error
    user, password = http_proxy.get("username"), http_proxy.get("password")
    return host, port, None if user is None else (str(user), str(password or ""))
