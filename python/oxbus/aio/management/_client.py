# SPDX-License-Identifier: Apache-2.0
"""`ServiceBusAdministrationClient` for asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from oxbus._options import explains_options
from oxbus.aio._calls import CallRunner
from oxbus.aio.management._awaited import awaited, listed
from oxbus.management import ServiceBusAdministrationClient as _Client
from oxbus.management._enums import ApiVersion

if TYPE_CHECKING:
    from types import TracebackType

    from oxbus import Namespace


@explains_options
class ServiceBusAdministrationClient:
    """Creates, reads, updates, lists and counts the entities of a namespace, for asyncio.

    Usable as an asynchronous context manager. Closing it leaves the namespace open, except one that a connection string
    with ``file://`` opened: that closes with its last client.

    Source: `azure.servicebus.aio.management.ServiceBusAdministrationClient`; differences in docs/compat.md.
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
        self._client = _Client(namespace, api_version=api_version)
        self._calls = CallRunner(namespace)

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

        Source: `azure.servicebus.aio.management.ServiceBusAdministrationClient.from_connection_string`.
        """
        client = _Client.from_connection_string(conn_str, api_version=api_version)
        made = cls(client._namespace, api_version=api_version)
        made._client = client
        return made

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the client."""
        await self.close()

    async def close(self) -> None:
        """Close the client; the namespace stays open for other clients.

        A namespace that a connection string with ``file://`` opened closes with the last client that such a string
        created. Closing twice is harmless. Raises nothing.
        """
        if self._client._use is None:
            self._client.close()
        else:
            # Closing a directory writes to it.
            await asyncio.to_thread(self._client.close)

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
