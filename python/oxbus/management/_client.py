# SPDX-License-Identifier: Apache-2.0
"""The administration client."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Self, TypeVar

from oxbus._connection import open_namespace, parse
from oxbus._options import explains_options
from oxbus._oxbus import Namespace
from oxbus._remote._options import ConnectionOptions, check_options, retry_options
from oxbus.management._enums import ApiVersion, MessagingSku, NamespaceType
from oxbus.management._in_process import InProcessTransport
from oxbus.management._message_calls import MessageCalls
from oxbus.management._namespaces import NamespaceProperties
from oxbus.management._queue_calls import QueueCalls
from oxbus.management._reservation_calls import ReservationCalls
from oxbus.management._rule_calls import RuleCalls
from oxbus.management._stage_calls import StageCalls
from oxbus.management._subscription_calls import SubscriptionCalls
from oxbus.management._topic_calls import TopicCalls
from oxbus.management._translation import utc

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Unpack

    from oxbus.management._transport import AdministrationTransport

E = TypeVar("E", bound=Enum)


@explains_options
class ServiceBusAdministrationClient(
    QueueCalls, TopicCalls, SubscriptionCalls, RuleCalls, MessageCalls, ReservationCalls, StageCalls
):
    """Creates, reads, updates, lists and counts the entities of a namespace.

    May be shared by threads; usable as a context manager. Closing it leaves the namespace open, except one that a
    connection string with ``file://`` opened: that closes with its last client.

    Source: `azure.servicebus.management.ServiceBusAdministrationClient`; differences in docs/compat.md.
    """

    def __init__(
        self,
        fully_qualified_namespace: str | Namespace,
        credential: object = None,
        *,
        api_version: str | ApiVersion = ApiVersion.V2024_05,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        """Create a client. It connects to a server at its first call, over HTTPS.

        Args:
            fully_qualified_namespace: The host of a namespace, such as ``bus.example.net`` or ``bus.example.net:8443``;
                or an `oxbus.Namespace` of this process.
            credential: What identifies the client to a server: an object with `get_token`, such as the credentials of
                azure-identity; an `AzureNamedKeyCredential` or `AzureSasCredential`; a pair of key name and key; or a
                text ``SharedAccessSignature sr=…``. None for a namespace of this process.
            api_version: The version of the service's management interface. Here all versions behave the same.
            options: Options of the connection, see `ConnectionOptions`.

        Raises:
            OSError: The file `connection_verify` cannot be read.
            TypeError: An argument has the wrong type, or a server has no credential.
            ValueError: The address, an option or the API version is malformed or unknown.

        Source: docs/behaviour.md B-455; `azure.servicebus.management.ServiceBusAdministrationClient`.
        """
        check_options("ServiceBusAdministrationClient", options, ConnectionOptions, "api_version")
        self._api_version = ApiVersion(api_version)
        self._name: str | None = None
        self._transport: AdministrationTransport
        if isinstance(fully_qualified_namespace, Namespace):
            if credential is not None:
                raise TypeError("a namespace of this process takes no credential: omit it")
            retry_options(options)
            self._transport = InProcessTransport(fully_qualified_namespace)
        elif not isinstance(fully_qualified_namespace, str):
            raise TypeError(
                "fully_qualified_namespace must be a host name or an oxbus.Namespace, "
                f"not {type(fully_qualified_namespace).__name__}"
            )
        elif credential is None:
            raise TypeError(
                "a server needs a credential: pass one, or use ServiceBusAdministrationClient.from_connection_string"
            )
        else:
            from oxbus.management._atom._connect import connect  # noqa: PLC0415 (only servers need it)

            self._transport = connect(
                fully_qualified_namespace, credential, options, api_version=self._api_version.value
            )

    @classmethod
    def from_connection_string(
        cls, conn_str: str, *, api_version: str | ApiVersion = ApiVersion.V2024_05, **options: Unpack[ConnectionOptions]
    ) -> Self:
        """Create a client for the namespace that a connection string names.

        Args:
            conn_str: ``Endpoint=sb://host/;SharedAccessKeyName=…;SharedAccessKey=…`` for a server: HTTPS at port 443 or
                the port of the endpoint; with ``;UseDevelopmentEmulator=true`` HTTP without TLS at port 5300 or the
                port of the endpoint. ``Endpoint=memory://name`` for an in-memory namespace, which all clients of this
                process share by its name until the process ends. ``Endpoint=file:///absolute/dir`` for the namespace in
                a directory, which they share until the last of them is closed. ``Endpoint=`` may be missing.
            api_version: The version of the service's management interface. Here all versions behave the same.
            options: Options of the connection, see `ConnectionOptions`.

        Raises:
            NamespaceInUseError: Another process owns the directory.
            StoreCorruptError: The catalog of the directory is damaged.
            OSError: The directory or the file `connection_verify` cannot be read or written.
            TypeError: An option is unknown or has the wrong type.
            ValueError: The connection string is malformed, or an option or the API version is out of range.

        Source: `azure.servicebus.management.ServiceBusAdministrationClient.from_connection_string`.
        """
        check_options(
            "ServiceBusAdministrationClient.from_connection_string", options, ConnectionOptions, "api_version"
        )
        client = cls.__new__(cls)
        client._api_version = ApiVersion(api_version)
        client._name = None
        retry_options(options)
        connection = parse(conn_str)
        if connection.scheme == "sb":
            from oxbus.management._atom._connect import connect_by  # noqa: PLC0415 (only servers need it)

            client._transport = connect_by(connection, options, api_version=client._api_version.value)
        else:
            use = open_namespace(connection)
            client._transport = InProcessTransport(use.namespace, use)
            client._name = connection.properties.fully_qualified_namespace
        return client

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the client."""
        self.close()

    def close(self) -> None:
        """Close the client and its connections to a server; a namespace of this process stays open for other clients.

        A namespace that a connection string with ``file://`` opened closes with the last client that such a string
        created. Closing twice is harmless. Raises nothing.
        """
        self._transport.close()

    def get_namespace_properties(self) -> NamespaceProperties:
        """Return the properties of the namespace.

        Raises:
            ForkedProcessError: The namespace was opened before the process forked.

        Source: docs/behaviour.md B-001.
        """
        found = self._transport.namespace_properties()
        return NamespaceProperties(
            self._name or found["name"],
            alias=found.get("alias"),
            created_at_utc=utc(found["created_at_ms"]),
            messaging_sku=_choice(MessagingSku, found["messaging_sku"]),
            messaging_units=found["messaging_units"],
            modified_at_utc=utc(found["updated_at_ms"]),
            namespace_type=_choice(NamespaceType, found.get("namespace_type", NamespaceType.MESSAGING)),
        )


def _choice(choices: type[E], value: str) -> E | str | None:
    """Return the member of an enumeration, the value itself if it is a new one, and None for an empty one."""
    known = {member.value: member for member in choices}
    return known.get(value, value) if value else None
