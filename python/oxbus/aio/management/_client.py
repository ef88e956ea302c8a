# SPDX-License-Identifier: Apache-2.0
"""`ServiceBusAdministrationClient` for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from oxbus._options import explains_options
from oxbus._remote._options import ConnectionOptions, check_options
from oxbus.aio.management._awaited import awaited, listed
from oxbus.aio.management._credential import LoopCalls, synchronous
from oxbus.management import ServiceBusAdministrationClient as _Client
from oxbus.management._enums import ApiVersion

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Unpack

    from oxbus import Namespace


@explains_options
class ServiceBusAdministrationClient:
    """Creates, reads, updates, lists and counts the entities of a namespace, for asyncio.

    Usable as an asynchronous context manager. Closing it leaves the namespace open, except one that a connection string
    with ``file://`` opened: that closes with its last client.

    Source: `azure.servicebus.aio.management.ServiceBusAdministrationClient`; differences in docs/compat.md.
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
            credential: What identifies the client to a server: an object with `get_token`, awaitable or not, such as
                the credentials of azure-identity; an `AzureNamedKeyCredential` or `AzureSasCredential`; a pair of key
                name and key; or a text ``SharedAccessSignature sr=…``. None for a namespace of this process.
            api_version: The version of the service's management interface. Here all versions behave the same.
            options: Options of the connection, see `ConnectionOptions`.

        Raises:
            OSError: The file `connection_verify` cannot be read.
            TypeError: An argument has the wrong type, or a server has no credential.
            ValueError: The address, an option or the API version is malformed or unknown.

        Source: docs/behaviour.md B-455; `azure.servicebus.aio.management.ServiceBusAdministrationClient`.
        """
        check_options("ServiceBusAdministrationClient", options, ConnectionOptions, "api_version")
        self._set_client(
            _Client(fully_qualified_namespace, synchronous(credential), api_version=api_version, **options)
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

        Source: `azure.servicebus.aio.management.ServiceBusAdministrationClient.from_connection_string`.
        """
        check_options(
            "ServiceBusAdministrationClient.from_connection_string", options, ConnectionOptions, "api_version"
        )
        made = cls.__new__(cls)
        made._set_client(_Client.from_connection_string(conn_str, api_version=api_version, **options))
        return made

    def _set_client(self, client: _Client) -> None:
        self._client = client
        self._calls = LoopCalls(client._transport)

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the client."""
        await self.close()

    async def close(self) -> None:
        """Close the client and its connections to a server; a namespace of this process stays open for other clients.

        A namespace that a connection string with ``file://`` opened closes with the last client that such a string
        created. Closing twice is harmless. Raises nothing.
        """
        # Closing a directory writes to it.
        await self._calls.call(self._client.close)

    create_queue = awaited(_Client.create_queue)
    get_queue = awaited(_Client.get_queue)
    get_queue_runtime_properties = awaited(_Client.get_queue_runtime_properties)
    update_queue = awaited(_Client.update_queue)
    delete_queue = awaited(_Client.delete_queue)
    list_queues = listed(_Client.list_queues)
    list_queues_runtime_properties = listed(_Client.list_queues_runtime_properties)

    create_topic = awaited(_Client.create_topic)
    get_topic = awaited(_Client.get_topic)
    get_topic_runtime_properties = awaited(_Client.get_topic_runtime_properties)
    update_topic = awaited(_Client.update_topic)
    delete_topic = awaited(_Client.delete_topic)
    list_topics = listed(_Client.list_topics)
    list_topics_runtime_properties = listed(_Client.list_topics_runtime_properties)

    create_subscription = awaited(_Client.create_subscription)
    get_subscription = awaited(_Client.get_subscription)
    get_subscription_runtime_properties = awaited(_Client.get_subscription_runtime_properties)
    update_subscription = awaited(_Client.update_subscription)
    delete_subscription = awaited(_Client.delete_subscription)
    list_subscriptions = listed(_Client.list_subscriptions)
    list_subscriptions_runtime_properties = listed(_Client.list_subscriptions_runtime_properties)

    purge_messages = awaited(_Client.purge_messages)
    resubmit_dead_letters = awaited(_Client.resubmit_dead_letters)

    list_reservations = listed(_Client.list_reservations)
    cancel_reservation = awaited(_Client.cancel_reservation)
    list_stages = listed(_Client.list_stages)
    discard_stage = awaited(_Client.discard_stage)

    create_rule = awaited(_Client.create_rule)
    get_rule = awaited(_Client.get_rule)
    update_rule = awaited(_Client.update_rule)
    delete_rule = awaited(_Client.delete_rule)
    list_rules = listed(_Client.list_rules)

    get_namespace_properties = awaited(_Client.get_namespace_properties)
