# SPDX-License-Identifier: Apache-2.0
"""`ServiceBusAdministrationClient` for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from oxbus import management
from oxbus.aio._calls import Calls
from oxbus.aio._paging import AsyncItemPaged
from oxbus.management._enums import ApiVersion

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from oxbus import Namespace
    from oxbus.management import NamespaceProperties, QueueProperties, QueueRuntimeProperties


class ServiceBusAdministrationClient:
    """Makes, changes and removes the queues of one namespace, for asyncio."""

    def __init__(self, namespace: Namespace, *, api_version: str | ApiVersion = ApiVersion.V2024_05) -> None:
        """Make a client; arguments and errors are those of `oxbus.management.ServiceBusAdministrationClient`."""
        self._client = management.ServiceBusAdministrationClient(namespace, api_version=api_version)
        self._calls = Calls(namespace)

    @classmethod
    def from_connection_string(cls, conn_str: str, *, api_version: str | ApiVersion = ApiVersion.V2024_05) -> Self:
        """Make a client for the namespace that a connection string names."""
        client = management.ServiceBusAdministrationClient.from_connection_string(conn_str, api_version=api_version)
        return cls(client._namespace, api_version=api_version)

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the client."""
        await self.close()

    async def close(self) -> None:
        """End the client; the namespace stays open."""
        self._client.close()

    async def create_queue(self, queue_name: str, **options: Any) -> QueueProperties:
        """Create a queue with the options of `oxbus.management.ServiceBusAdministrationClient.create_queue`."""
        return await self._calls.call(self._client.create_queue, queue_name, **options)

    async def get_queue(self, queue_name: str) -> QueueProperties:
        """Return the settings of a queue."""
        return await self._calls.call(self._client.get_queue, queue_name)

    async def get_queue_runtime_properties(self, queue_name: str) -> QueueRuntimeProperties:
        """Return counts and times of a queue."""
        return await self._calls.call(self._client.get_queue_runtime_properties, queue_name)

    async def update_queue(self, queue: QueueProperties | Mapping[str, Any]) -> None:
        """Replace the settings of a queue."""
        await self._calls.call(self._client.update_queue, queue)

    async def delete_queue(self, queue_name: str) -> None:
        """Delete a queue with its messages."""
        await self._calls.call(self._client.delete_queue, queue_name)

    def list_queues(self) -> AsyncItemPaged[QueueProperties]:
        """List the settings of all queues."""
        return AsyncItemPaged(self._client.list_queues(), self._calls)

    def list_queues_runtime_properties(self) -> AsyncItemPaged[QueueRuntimeProperties]:
        """List counts and times of all queues."""
        return AsyncItemPaged(self._client.list_queues_runtime_properties(), self._calls)

    async def get_namespace_properties(self) -> NamespaceProperties:
        """Return what the namespace is."""
        return await self._calls.call(self._client.get_namespace_properties)
