# SPDX-License-Identifier: Apache-2.0
"""Connection strings, and the namespaces that they name.

``Endpoint=memory://name``
    This process's in-memory namespace of that name; created at its first use, kept until the process ends.
``Endpoint=file:///absolute/dir``
    The namespace in that directory; all clients of one process share it, and it closes with the last of them.
``Endpoint=sb://host/;SharedAccessKeyName=…;SharedAccessKey=…``
    A server. Rejected until the remote client exists.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit
from weakref import WeakValueDictionary

from oxbus._field_mapping import FieldMapping
from oxbus._oxbus import Namespace
from oxbus.exceptions import InvalidOperationError

_FORMS = (
    "Write Endpoint=memory://name, Endpoint=file:///absolute/dir, "
    "or Endpoint=sb://host/;SharedAccessKeyName=...;SharedAccessKey=..."
)

_namespaces: dict[str, Namespace] = {}
_file_namespaces: WeakValueDictionary[str, Namespace] = WeakValueDictionary()
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


def parse_connection_string(conn_str: str) -> ServiceBusConnectionStringProperties:
    """Split a connection string into its parts.

    Args:
        conn_str: ``Endpoint=memory://name``, ``Endpoint=file:///absolute/dir``, or a Service Bus connection string with
            ``Endpoint=sb://host/`` and either a key and its name or a signature. The names of the parts are
            case-insensitive.

    Returns:
        The parts.

    Raises:
        ValueError: A part is malformed, missing or unknown for this scheme.

    Source: `azure.servicebus.parse_connection_string`.
    """
    parts = _parts(conn_str)
    endpoint = parts.get("endpoint", "")
    scheme, rest = _split_endpoint(endpoint)
    signature = parts.get("sharedaccesssignature")
    key_name = parts.get("sharedaccesskeyname")
    key = parts.get("sharedaccesskey")
    if bool(key) != bool(key_name):
        raise ValueError("connection string must have both SharedAccessKeyName and SharedAccessKey, or neither")
    if signature and key:
        raise ValueError("connection string has a SharedAccessKey and a SharedAccessSignature: keep only one of them")
    if scheme == "sb" and not (signature or key):
        raise ValueError(
            "connection string for sb:// needs SharedAccessKeyName and SharedAccessKey, or a SharedAccessSignature"
        )
    return ServiceBusConnectionStringProperties(
        fully_qualified_namespace=rest,
        endpoint=f"{scheme}://{rest}" if scheme == "file" else f"{scheme}://{rest}/",
        entity_path=parts.get("entitypath") or None,
        shared_access_signature=signature or None,
        shared_access_key_name=key_name or None,
        shared_access_key=key or None,
    )


def open_namespace(properties: ServiceBusConnectionStringProperties) -> Namespace:
    """Return the namespace that a connection string names.

    Raises:
        InvalidOperationError: The endpoint is a server, which this version cannot connect to.
    """
    scheme, rest = _split_endpoint(properties.endpoint)
    if scheme == "memory":
        return _memory_namespace(rest)
    if scheme == "file":
        return _file_namespace(unquote(rest))
    raise InvalidOperationError(
        "Endpoint=sb:// needs the remote client, which this version does not have. "
        "Use Endpoint=memory://name, or the azure-servicebus package to reach a server.",
        condition="amqp:not-implemented",
    )


def _parts(conn_str: str) -> dict[str, str]:
    pairs = [part.split("=", 1) for part in conn_str.strip().rstrip(";").split(";")]
    if any(len(pair) != 2 for pair in pairs):  # noqa: PLR2004 (a pair)
        raise ValueError(f"connection string is blank or malformed: each part is name=value. {_FORMS}")
    return {name.strip().lower(): value.strip() for name, value in pairs}


def _split_endpoint(endpoint: str) -> tuple[str, str]:
    """Split ``scheme://rest``: `rest` is a host, an in-memory name, or the path of a directory."""
    split = urlsplit(endpoint)
    match split.scheme:
        case "file" if split.path.startswith("/") and split.netloc in {"", "localhost"}:
            return "file", split.path
        case "memory" if split.netloc and split.path in {"", "/"}:
            # Namespace names are case-insensitive (docs/behaviour.md B-018).
            return "memory", split.netloc.lower()
        case "sb" if split.netloc:
            return "sb", split.netloc
    raise ValueError(f"connection string has no valid Endpoint: endpoint=`{endpoint}`. {_FORMS}")


def _memory_namespace(name: str) -> Namespace:
    with _namespaces_guard:
        namespace = _namespaces.get(name)
        if namespace is None or namespace.closed:
            namespace = _namespaces[name] = Namespace()
        return namespace


def _file_namespace(directory: str) -> Namespace:
    """Open the namespace in a directory, or return the one that a client of this process has open."""
    path = os.path.realpath(directory)
    with _namespaces_guard:
        known = _file_namespaces.get(path)
        if known is None or known.closed:
            known = _file_namespaces[path] = Namespace(directory)
        return known


def _forget_parent_namespaces() -> None:
    """Drop the parent's namespaces in a forked child: their handles do not work there."""
    global _namespaces_guard  # noqa: PLW0603 (the parent's guard may have been held when it forked)
    _namespaces_guard = threading.Lock()
    _namespaces.clear()
    _file_namespaces.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent_namespaces)
