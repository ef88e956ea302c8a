# SPDX-License-Identifier: Apache-2.0
"""Connection strings: their parts, and the namespaces and servers that they lead to.

``Endpoint=memory://name``
    This process's in-memory namespace of that name; created at its first use, kept until the process ends.
``Endpoint=file:///absolute/dir``
    The namespace in that directory; all clients of one process share it, and it closes with the last of them.
``Endpoint=s3://bucket/prefix``, and ``az://``, ``gs://``, ``postgresql://``
    The namespace in that store, with the credentials of the environment; shared and closed in the same way.
``Endpoint=sb://host/;SharedAccessKeyName=…;SharedAccessKey=…``
    A server.

``Endpoint=`` may be missing. The parser is ``rust/oxbus-wire/src/connection_parts.rs``, which bulk clients share.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import quote
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from oxbus._field_mapping import FieldMapping
from oxbus._oxbus import Namespace, _parse_connection_string

_namespaces: dict[str, Namespace] = {}
_kept_namespaces: WeakValueDictionary[str, Namespace] = WeakValueDictionary()
_uses: WeakKeyDictionary[Namespace, WeakSet[NamespaceUse]] = WeakKeyDictionary()
"""The uses of each namespace in a directory or a store that have not ended."""
_namespaces_guard = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServiceBusConnectionStringProperties(FieldMapping):
    """The parts of a connection string; also readable like a mapping. Its repr hides the secrets.

    Attributes:
        fully_qualified_namespace: Host and port, the name after ``memory://``, or the directory after ``file://``.
        endpoint: The endpoint with its scheme.
        entity_path: The only entity that this connection string is for, if any.
        shared_access_signature: A token derived from a key.
        shared_access_key_name: The name of the key.
        shared_access_key: The key.

    Source: `azure.servicebus.ServiceBusConnectionStringProperties`.
    """

    fully_qualified_namespace: str
    endpoint: str
    entity_path: str | None = None
    shared_access_signature: str | None = field(default=None, repr=False)
    shared_access_key_name: str | None = None
    shared_access_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """The address of a server.

    Attributes:
        host: A name or an address; an IPv6 address has no brackets.
        port: The port of the endpoint, else the default of AMQP with or without TLS.
        tls: False with ``UseDevelopmentEmulator=true``.
    """

    host: str
    port: int
    tls: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A parsed connection string.

    Attributes:
        scheme: The scheme of its endpoint.
        properties: Its parts. For ``file``, `fully_qualified_namespace` is the path of the directory; for ``store``, it
            and `endpoint` are the URL.
        server: The address of the server, if the scheme is ``sb``.
    """

    scheme: Literal["memory", "file", "store", "sb"]
    properties: ServiceBusConnectionStringProperties
    server: ServerAddress | None


def parse(conn_str: str) -> Connection:
    """Parse a connection string.

    Raises:
        TypeError: `conn_str` is not a str.
        ValueError: A part is malformed, missing or unknown. The text quotes nothing, because it could show the key.
    """
    if not isinstance(conn_str, str):
        raise TypeError(f"a connection string must be a str, not {type(conn_str).__name__}")
    parts = _parse_connection_string(conn_str)
    scheme, address = parts["scheme"], parts["address"]
    properties = ServiceBusConnectionStringProperties(
        fully_qualified_namespace=address,
        endpoint=_endpoint(scheme, address),
        entity_path=parts["entity_path"],
        shared_access_signature=parts["shared_access_signature"],
        shared_access_key_name=parts["shared_access_key_name"],
        shared_access_key=parts["shared_access_key"],
    )
    server = ServerAddress(host=parts["host"], port=parts["port"], tls=parts["tls"]) if scheme == "sb" else None
    return Connection(scheme=scheme, properties=properties, server=server)


def _endpoint(scheme: str, address: str) -> str:
    if scheme == "store":
        return address
    return f"file:///{quote(address.lstrip('/'), safe='/:')}" if scheme == "file" else f"{scheme}://{address}/"


def parse_connection_string(conn_str: str) -> ServiceBusConnectionStringProperties:
    """Split a connection string into its parts.

    Args:
        conn_str: ``Endpoint=memory://name``, ``Endpoint=file:///absolute/dir``, or a Service Bus connection string with
            ``Endpoint=sb://host/`` and either a key and its name or a signature. The names of the parts are
            case-insensitive, and ``Endpoint=`` may be missing.

    Returns:
        The parts.

    Raises:
        TypeError: `conn_str` is not a str.
        ValueError: A part is malformed, missing, repeated or unknown.

    Source: `azure.servicebus.parse_connection_string`.
    """
    return parse(conn_str).properties


class NamespaceUse:
    """The use of a namespace by one client of a connection string.

    A namespace in a directory or a store closes when its last use ends. A client that is dropped without being closed
    ends its use, but leaves the namespace open for its senders and receivers; it then closes with the last of these.
    """

    def __init__(self, connection: Connection, namespace: Namespace) -> None:
        """Begin a use; `open_namespace` calls this under the guard."""
        self.connection: Final = connection
        self.namespace: Final = namespace
        if connection.scheme in {"file", "store"}:
            _uses.setdefault(namespace, WeakSet()).add(self)

    def end(self) -> None:
        """End the use; ending it twice is harmless."""
        with _namespaces_guard:
            uses = _uses.get(self.namespace)
            if uses is None or self not in uses:
                return
            uses.discard(self)
            if not uses:
                self.namespace.close()


def open_namespace(connection: Connection) -> NamespaceUse:
    """Open the namespace of this process that a connection string names, or share that of another of its clients."""
    name = connection.properties.fully_qualified_namespace
    with _namespaces_guard:
        if connection.scheme == "memory":
            namespace = _memory_namespace(name)
        else:
            namespace = _kept_namespace(name, name if connection.scheme == "store" else os.path.realpath(name))
        return NamespaceUse(connection, namespace)


def _memory_namespace(name: str) -> Namespace:
    namespace = _namespaces.get(name)
    if namespace is None or namespace.closed:
        namespace = _namespaces[name] = Namespace()
    return namespace


def _kept_namespace(place: str, key: str) -> Namespace:
    """Return the namespace in a directory or a store."""
    namespace = _kept_namespaces.get(key)
    if namespace is None or namespace.closed:
        namespace = _kept_namespaces[key] = Namespace(place)
    return namespace


def _forget_parent_namespaces() -> None:
    """Drop the parent's namespaces in a forked child: their handles do not work there."""
    global _namespaces_guard  # noqa: PLW0603 (the parent's guard may have been held when it forked)
    _namespaces_guard = threading.Lock()
    _namespaces.clear()
    _kept_namespaces.clear()
    _uses.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent_namespaces)
