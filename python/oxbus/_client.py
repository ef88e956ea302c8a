# SPDX-License-Identifier: Apache-2.0
"""The data-plane client: it creates senders and receivers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from oxbus._client_receivers import ReceiverFactory
from oxbus._client_sessions import SessionListing
from oxbus._connection import open_connection
from oxbus._options import explains_options
from oxbus._oxbus import Namespace
from oxbus._transaction import Transaction

if TYPE_CHECKING:
    from types import TracebackType

    from oxbus._connection import NamespaceUse
    from oxbus._oxbus import ServiceBusReceiver, ServiceBusSender


@explains_options
class ServiceBusClient(ReceiverFactory, SessionListing):
    """Creates senders and receivers for the entities of one namespace.

    Closing the client closes its senders and receivers; the namespace stays open, except one that a connection string
    with ``file://`` opened: that closes with its last client.
    May be shared by threads; usable as a context manager.

    Source: `azure.servicebus.ServiceBusClient`; differences in docs/compat.md.
    """

    def __init__(
        self,
        namespace: Namespace,
        *,
        retry_total: int = 3,
        retry_backoff_factor: float = 0.8,
        retry_backoff_max: float = 120,
        retry_mode: str = "exponential",
    ) -> None:
        """Create a client.

        Args:
            namespace: The namespace to work on.
            retry_total: Retries after a transient connection error. The retry options are checked and have no effect:
                there is no connection to lose.
            retry_backoff_factor: Seconds before the first retry.
            retry_backoff_max: Upper bound for the seconds between two retries.
            retry_mode: ``"exponential"`` or ``"fixed"``.

        Raises:
            TypeError: `namespace` is not a `Namespace`.
            ValueError: A retry option is out of its range.
        """
        if not isinstance(namespace, Namespace):
            raise TypeError(
                f"namespace must be an oxbus.Namespace, not {type(namespace).__name__}. "
                "For a connection string use ServiceBusClient.from_connection_string."
            )
        if min(retry_total, retry_backoff_factor, retry_backoff_max) < 0:
            raise ValueError("retry options must not be negative")
        if retry_mode not in {"exponential", "fixed"}:
            raise ValueError(f"retry_mode must be 'exponential' or 'fixed': retry_mode=`{retry_mode}`")
        self._namespace = namespace
        self._use: NamespaceUse | None = None
        self._entity_path: str | None = None
        self._handles: dict[int, ServiceBusSender | ServiceBusReceiver] = {}
        self._closed = False

    @classmethod
    def from_connection_string(
        cls,
        conn_str: str,
        *,
        retry_total: int = 3,
        retry_backoff_factor: float = 0.8,
        retry_backoff_max: float = 120,
        retry_mode: str = "exponential",
    ) -> Self:
        """Create a client for the namespace that a connection string names.

        Args:
            conn_str: ``Endpoint=memory://name`` for an in-memory namespace, which all clients of this process share by
                its name until the process ends; or ``Endpoint=file:///absolute/dir`` for the namespace in a directory,
                which they share until the last of them is closed. ``Endpoint=`` may be missing. ``;EntityPath=…``
                limits the client to that entity.
            retry_total: Retries after a transient connection error. The retry options are checked and have no effect:
                there is no connection to lose.
            retry_backoff_factor: Seconds before the first retry.
            retry_backoff_max: Upper bound for the seconds between two retries.
            retry_mode: ``"exponential"`` or ``"fixed"``.

        Raises:
            InvalidOperationError: The connection string names a server; the remote client does not exist yet.
            NamespaceInUseError: Another process owns the directory.
            StoreCorruptError: The catalog of the directory is damaged.
            OSError: The directory cannot be read or written.
            ValueError: The connection string is malformed, or a retry option is out of its range.

        Source: `azure.servicebus.ServiceBusClient.from_connection_string`.
        """
        use = open_connection(conn_str)
        client = cls(
            use.namespace,
            retry_total=retry_total,
            retry_backoff_factor=retry_backoff_factor,
            retry_backoff_max=retry_backoff_max,
            retry_mode=retry_mode,
        )
        client._use = use
        client._entity_path = use.connection.properties.entity_path
        return client

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the client."""
        self.close()

    def get_queue_sender(
        self, queue_name: str, *, client_identifier: str | None = None, socket_timeout: float | None = None
    ) -> ServiceBusSender:
        """Return a sender for a queue.

        Args:
            queue_name: The queue. The first call of the sender looks it up and raises MessagingEntityNotFoundError if
                it does not exist.
            client_identifier: A name for this sender in error texts; generated when missing.
            socket_timeout: Seconds to wait on a socket, more than 0. It is checked and has no effect: there is no
                socket.

        Raises:
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: `queue_name` is not a str.
            ValueError: The client is closed, its connection string is for another entity, or `socket_timeout` is not
                more than 0.

        Source: docs/behaviour.md B-020; `azure.servicebus.ServiceBusClient.get_queue_sender`.
        """
        self._check(queue_name, socket_timeout)
        sender = self._namespace._sender(queue_name, client_identifier)
        self._keep(sender)
        return sender

    def get_topic_sender(
        self, topic_name: str, *, client_identifier: str | None = None, socket_timeout: float | None = None
    ) -> ServiceBusSender:
        """Return a sender for a topic.

        Args:
            topic_name: The topic. The first call of the sender looks it up and raises MessagingEntityNotFoundError if
                it does not exist.
            client_identifier: A name for this sender in error texts; generated when missing.
            socket_timeout: Seconds to wait on a socket, more than 0. It is checked and has no effect: there is no
                socket.

        Raises:
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: `topic_name` is not a str.
            ValueError: The client is closed, its connection string is for another entity, or `socket_timeout` is not
                more than 0.

        Source: docs/behaviour.md B-020; `azure.servicebus.ServiceBusClient.get_topic_sender`.
        """
        self._check(topic_name, socket_timeout)
        sender = self._namespace._sender(topic_name, client_identifier)
        self._keep(sender)
        return sender

    def transaction(self, *, cross_entity: bool = False) -> Transaction:
        """Return a transaction; it begins with its first operation.

        Args:
            cross_entity: Allow sends to several entities. All operations must be in one partition, so partitioned
                entities need the same key. All settled messages must be from one entity.

        Raises:
            ValueError: The client is closed.

        Source: docs/behaviour.md B-306 to B-330.
        """
        if self._closed:
            raise ValueError("the client is closed: create a new ServiceBusClient")
        return Transaction(self._namespace, cross_entity=cross_entity)

    def close(self) -> None:
        """Close every sender and receiver of this client; the namespace stays open for other clients.

        A namespace that a connection string with ``file://`` opened closes with the last client that such a string
        created. Prefetched messages return to their queues; their delivery counts stay the same. Closing twice is
        harmless. Raises nothing.
        """
        self._closed = True
        for key, handle in list(self._handles.items()):
            handle.close()
            self._handles.pop(key, None)
        if self._use is not None:
            self._use.end()
