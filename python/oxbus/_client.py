# SPDX-License-Identifier: Apache-2.0
"""The client for messages: it creates senders and receivers, in this process or on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from oxbus._client_receivers import ReceiverFactory
from oxbus._client_sessions import SessionListing
from oxbus._connection import open_namespace, parse
from oxbus._options import explains_options
from oxbus._oxbus import Namespace
from oxbus._remote._options import MessagingOptions, check_messaging_options, check_options
from oxbus._transaction import Transaction

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Unpack

    from oxbus._connection import Connection, NamespaceUse
    from oxbus._oxbus import ServiceBusReceiver, ServiceBusSender, _RemoteNamespace


@explains_options
class ServiceBusClient(ReceiverFactory, SessionListing):
    """Creates senders and receivers for the entities of one namespace, in this process or on a server.

    Closing the client closes its senders and receivers, and its connection to a server. A namespace of this process
    stays open, except one that a connection string with ``file://`` opened: that closes with its last client.
    May be shared by threads; usable as a context manager.

    Source: `azure.servicebus.ServiceBusClient`; differences in docs/compat.md.
    """

    def __init__(
        self, fully_qualified_namespace: str | Namespace, credential: object = None, **options: Unpack[MessagingOptions]
    ) -> None:
        """Create a client. It connects to a server at its first call.

        Args:
            fully_qualified_namespace: The host of a namespace, such as ``bus.example.net`` or ``bus.example.net:5671``;
                or an `oxbus.Namespace` of this process.
            credential: What identifies the client to a server: an object with `get_token`, such as the credentials of
                azure-identity; an `AzureNamedKeyCredential` or `AzureSasCredential`; a pair of key name and key; or a
                text ``SharedAccessSignature sr=…``. None for a namespace of this process.
            options: Options of the connection, see `MessagingOptions`.

        Raises:
            OSError: The file `connection_verify` cannot be read.
            TypeError: An argument has the wrong type, or a server has no credential.
            ValueError: The address or an option is malformed or out of its range.

        Source: `azure.servicebus.ServiceBusClient`.
        """
        check_options("ServiceBusClient", options, MessagingOptions)
        self._namespace: Namespace | _RemoteNamespace
        if isinstance(fully_qualified_namespace, Namespace):
            if credential is not None:
                raise TypeError("a namespace of this process takes no credential: omit it")
            check_messaging_options(options)
            self._namespace = fully_qualified_namespace
        elif not isinstance(fully_qualified_namespace, str):
            raise TypeError(
                "fully_qualified_namespace must be a host name or an oxbus.Namespace, "
                f"not {type(fully_qualified_namespace).__name__}. "
                "For a connection string use ServiceBusClient.from_connection_string."
            )
        elif credential is None:
            raise TypeError("a server needs a credential: pass one, or use ServiceBusClient.from_connection_string")
        else:
            self._namespace = _connect(fully_qualified_namespace, credential, options)
        self._begin()

    def _begin(self) -> None:
        self._use: NamespaceUse | None = None
        self._entity_path: str | None = None
        self._handles: dict[int, ServiceBusSender | ServiceBusReceiver] = {}
        self._closed = False

    @classmethod
    def from_connection_string(cls, conn_str: str, **options: Unpack[MessagingOptions]) -> Self:
        """Create a client for the namespace that a connection string names.

        Args:
            conn_str: ``Endpoint=sb://host/;SharedAccessKeyName=…;SharedAccessKey=…`` for a server: AMQP with TLS at
                port 5671 or the port of the endpoint; with ``;UseDevelopmentEmulator=true`` without TLS at port 5672 or
                the port of the endpoint. ``Endpoint=memory://name`` for an in-memory namespace, which all clients of
                this process share by its name until the process ends. ``Endpoint=file:///absolute/dir`` for the
                namespace in a directory, which they share until the last of them is closed. ``Endpoint=`` may be
                missing. ``;EntityPath=…`` limits the client to that entity.
            options: Options of the connection, see `MessagingOptions`.

        Raises:
            NamespaceInUseError: Another process owns the directory.
            StoreCorruptError: The catalog of the directory is damaged.
            OSError: The directory or the file `connection_verify` cannot be read or written.
            TypeError: An option is unknown or has the wrong type.
            ValueError: The connection string is malformed, or an option is out of its range.

        Source: `azure.servicebus.ServiceBusClient.from_connection_string`.
        """
        check_options("ServiceBusClient.from_connection_string", options, MessagingOptions)
        connection = parse(conn_str)
        client = cls.__new__(cls)
        if connection.scheme == "sb":
            client._namespace = _connect_by(connection, options)
            client._begin()
        else:
            check_messaging_options(options)
            use = open_namespace(connection)
            client._namespace = use.namespace
            client._begin()
            client._use = use
        client._entity_path = connection.properties.entity_path
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
            socket_timeout: Seconds, more than 0. It is checked and has no effect; that of the client has one.

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
            socket_timeout: Seconds, more than 0. It is checked and has no effect; that of the client has one.

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
        if not isinstance(self._namespace, Namespace):
            self._namespace.close()


def _connect(namespace: str, credential: object, options: MessagingOptions) -> _RemoteNamespace:
    from oxbus._remote._messaging import connect  # noqa: PLC0415 (only servers need it)

    return connect(namespace, credential, options)


def _connect_by(connection: Connection, options: MessagingOptions) -> _RemoteNamespace:
    from oxbus._remote._messaging import connect_by  # noqa: PLC0415 (only servers need it)

    return connect_by(connection, options)
