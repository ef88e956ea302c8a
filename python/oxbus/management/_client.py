# SPDX-License-Identifier: Apache-2.0
"""The administration client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from oxbus._connection import open_connection
from oxbus._options import explains_options
from oxbus._oxbus import Namespace
from oxbus.management._enums import ApiVersion, MessagingSku, NamespaceType
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

    from oxbus._connection import NamespaceUse


@explains_options
class ServiceBusAdministrationClient(
    QueueCalls, TopicCalls, SubscriptionCalls, RuleCalls, MessageCalls, ReservationCalls, StageCalls
):
    """Creates, reads, updates, lists and counts the entities of a namespace.

    May be shared by threads; usable as a context manager. Closing it leaves the namespace open, except one that a
    connection string with ``file://`` opened: that closes with its last client.

    Source: `azure.servicebus.management.ServiceBusAdministrationClient`; differences in docs/compat.md.
    """

    def __init__(self, namespace: Namespace, *, api_version: str | ApiVersion = ApiVersion.V2024_05) -> None:
        """Create a client.

        Args:
            namespace: The namespace to manage.
            api_version: It is checked and has no effect: all versions behave the same.

        Raises:
            TypeError: `namespace` is not a `Namespace`.
            ValueError: The API version is unknown.
        """
        if not isinstance(namespace, Namespace):
            raise TypeError(
                f"namespace must be an oxbus.Namespace, not {type(namespace).__name__}. "
                "For a connection string use ServiceBusAdministrationClient.from_connection_string."
            )
        self._api_version = ApiVersion(api_version)
        self._namespace = namespace
        self._name: str | None = None
        self._use: NamespaceUse | None = None

    @classmethod
    def from_connection_string(cls, conn_str: str, *, api_version: str | ApiVersion = ApiVersion.V2024_05) -> Self:
        """Create a client for the namespace that a connection string names.

        Args:
            conn_str: ``Endpoint=memory://name`` for an in-memory namespace, which all clients of this process share by
                its name until the process ends; or ``Endpoint=file:///absolute/dir`` for the namespace in a directory,
                which they share until the last of them is closed. ``Endpoint=`` may be missing.
            api_version: It is checked and has no effect.

        Raises:
            InvalidOperationError: The connection string names a server; the remote client does not exist yet.
            NamespaceInUseError: Another process owns the directory.
            StoreCorruptError: The catalog of the directory is damaged.
            OSError: The directory cannot be read or written.
            ValueError: The connection string is malformed, or the API version is unknown.

        Source: `azure.servicebus.management.ServiceBusAdministrationClient.from_connection_string`.
        """
        use = open_connection(conn_str)
        client = cls(use.namespace, api_version=api_version)
        client._use = use
        client._name = use.connection.properties.fully_qualified_namespace
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
        """Close the client; the namespace stays open for other clients.

        A namespace that a connection string with ``file://`` opened closes with the last client that such a string
        created. Closing twice is harmless. Raises nothing.
        """
        if self._use is not None:
            self._use.end()

    def get_namespace_properties(self) -> NamespaceProperties:
        """Return the properties of the namespace.

        Raises:
            ForkedProcessError: The namespace was opened before the process forked.

        Source: docs/behaviour.md B-001.
        """
        native = self._namespace._namespace_properties()
        sku = native["messaging_sku"]
        return NamespaceProperties(
            self._name or native["name"],
            alias=None,
            created_at_utc=utc(native["created_at_ms"]),
            messaging_sku=MessagingSku(sku) if sku else None,
            messaging_units=native["messaging_units"],
            modified_at_utc=utc(native["updated_at_ms"]),
            namespace_type=NamespaceType.MESSAGING,
        )
