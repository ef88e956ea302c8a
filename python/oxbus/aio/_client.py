# SPDX-License-Identifier: Apache-2.0
"""`ServiceBusClient` for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self, overload

from oxbus import _client
from oxbus._enums import ServiceBusReceiveMode, ServiceBusSessionFilter, ServiceBusSubQueue
from oxbus._options import explains_options
from oxbus.aio._calls import CallRunner
from oxbus.aio._paging import AsyncItemPaged
from oxbus.aio._receiver import ServiceBusReceiver
from oxbus.aio._sender import ServiceBusSender
from oxbus.aio._transaction import Transaction

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

    from oxbus._oxbus import Namespace
    from oxbus._oxbus import ServiceBusReceiver as NativeReceiver
    from oxbus._sessions import ServiceBusSessionInfo
    from oxbus.aio._auto_lock_renewer import AutoLockRenewer


@explains_options
class ServiceBusClient:
    """Makes senders and receivers for the entities of one namespace, for asyncio.

    The namespace stays open when the client closes; the senders and receivers that it made do not.
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
        """Make a client; arguments and errors are those of `oxbus.ServiceBusClient`."""
        self._client = _client.ServiceBusClient(
            namespace,
            retry_total=retry_total,
            retry_backoff_factor=retry_backoff_factor,
            retry_backoff_max=retry_backoff_max,
            retry_mode=retry_mode,
        )
        self._calls = CallRunner(namespace)
        self._receivers: list[ServiceBusReceiver] = []

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
        """Make a client for the namespace that a connection string names, as `oxbus.ServiceBusClient` does."""
        client = _client.ServiceBusClient.from_connection_string(
            conn_str,
            retry_total=retry_total,
            retry_backoff_factor=retry_backoff_factor,
            retry_backoff_max=retry_backoff_max,
            retry_mode=retry_mode,
        )
        made = cls(client._namespace)
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

    def get_queue_sender(
        self, queue_name: str, *, client_identifier: str | None = None, socket_timeout: float | None = None
    ) -> ServiceBusSender:
        """Return a sender for a queue; arguments and errors are those of `oxbus.ServiceBusClient`."""
        sender = self._client.get_queue_sender(
            queue_name, client_identifier=client_identifier, socket_timeout=socket_timeout
        )
        return ServiceBusSender(sender, self._calls)

    def get_queue_receiver(
        self,
        queue_name: str,
        *,
        client_identifier: str | None = None,
        socket_timeout: float | None = None,
        session_id: str | Literal[ServiceBusSessionFilter.NEXT_AVAILABLE] | None = None,
        sub_queue: ServiceBusSubQueue | str | None = None,
        receive_mode: ServiceBusReceiveMode | str = ServiceBusReceiveMode.PEEK_LOCK,
        max_wait_time: float | None = None,
        auto_lock_renewer: AutoLockRenewer | None = None,
        prefetch_count: int = 0,
        lock_policy: Literal["fresh", "faithful"] | None = None,
        partition_id: int | None = None,
    ) -> ServiceBusReceiver:
        """Return a receiver for a queue or a sub-queue; arguments and errors are those of `oxbus.ServiceBusClient`."""
        receiver = self._client.get_queue_receiver(
            queue_name,
            client_identifier=client_identifier,
            socket_timeout=socket_timeout,
            session_id=session_id,
            sub_queue=sub_queue,
            receive_mode=receive_mode,
            max_wait_time=max_wait_time,
            prefetch_count=prefetch_count,
            lock_policy=lock_policy,
            partition_id=partition_id,
        )
        return self._wrap(receiver, receive_mode, max_wait_time, auto_lock_renewer, prefetch_count)

    def get_topic_sender(
        self, topic_name: str, *, client_identifier: str | None = None, socket_timeout: float | None = None
    ) -> ServiceBusSender:
        """Return a sender for a topic; arguments and errors are those of `oxbus.ServiceBusClient`."""
        sender = self._client.get_topic_sender(
            topic_name, client_identifier=client_identifier, socket_timeout=socket_timeout
        )
        return ServiceBusSender(sender, self._calls)

    def get_subscription_receiver(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        session_id: str | Literal[ServiceBusSessionFilter.NEXT_AVAILABLE] | None = None,
        sub_queue: ServiceBusSubQueue | str | None = None,
        receive_mode: ServiceBusReceiveMode | str = ServiceBusReceiveMode.PEEK_LOCK,
        max_wait_time: float | None = None,
        auto_lock_renewer: AutoLockRenewer | None = None,
        prefetch_count: int = 0,
        client_identifier: str | None = None,
        socket_timeout: float | None = None,
        lock_policy: Literal["fresh", "faithful"] | None = None,
        partition_id: int | None = None,
    ) -> ServiceBusReceiver:
        """Return a receiver for a subscription; arguments and errors are those of `oxbus.ServiceBusClient`."""
        receiver = self._client.get_subscription_receiver(
            topic_name,
            subscription_name,
            client_identifier=client_identifier,
            socket_timeout=socket_timeout,
            session_id=session_id,
            sub_queue=sub_queue,
            receive_mode=receive_mode,
            max_wait_time=max_wait_time,
            prefetch_count=prefetch_count,
            lock_policy=lock_policy,
            partition_id=partition_id,
        )
        return self._wrap(receiver, receive_mode, max_wait_time, auto_lock_renewer, prefetch_count)

    @overload
    def list_queue_sessions(
        self,
        queue_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
        details: Literal[False] = False,
    ) -> AsyncItemPaged[str]: ...

    @overload
    def list_queue_sessions(
        self,
        queue_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
        details: Literal[True],
    ) -> AsyncItemPaged[ServiceBusSessionInfo]: ...

    def list_queue_sessions(
        self,
        queue_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
        details: bool = False,
    ) -> AsyncItemPaged[str] | AsyncItemPaged[ServiceBusSessionInfo]:
        """List the sessions of a queue; arguments and errors are those of `oxbus.ServiceBusClient`."""
        found = self._client.list_queue_sessions
        if details:
            infos = found(queue_name, state_updated_after=state_updated_after, timeout=timeout, details=True)
            return AsyncItemPaged(infos, self._calls)
        ids = found(queue_name, state_updated_after=state_updated_after, timeout=timeout)
        return AsyncItemPaged(ids, self._calls)

    @overload
    def list_subscription_sessions(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
        details: Literal[False] = False,
    ) -> AsyncItemPaged[str]: ...

    @overload
    def list_subscription_sessions(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
        details: Literal[True],
    ) -> AsyncItemPaged[ServiceBusSessionInfo]: ...

    def list_subscription_sessions(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
        details: bool = False,
    ) -> AsyncItemPaged[str] | AsyncItemPaged[ServiceBusSessionInfo]:
        """List the sessions of a subscription; arguments and errors are those of `oxbus.ServiceBusClient`."""
        names = topic_name, subscription_name
        found = self._client.list_subscription_sessions
        if details:
            infos = found(*names, state_updated_after=state_updated_after, timeout=timeout, details=True)
            return AsyncItemPaged(infos, self._calls)
        ids = found(*names, state_updated_after=state_updated_after, timeout=timeout)
        return AsyncItemPaged(ids, self._calls)

    def transaction(self, *, cross_entity: bool = False) -> Transaction:
        """Return a transaction; arguments and errors are those of `oxbus.ServiceBusClient`."""
        if self._client._closed:
            raise ValueError("the client is closed: make a new ServiceBusClient")
        return Transaction(self._client._namespace, self._calls, cross_entity=cross_entity)

    async def close(self) -> None:
        """Close every sender and receiver that this client made; the namespace stays open."""
        receivers, self._receivers = self._receivers, []
        for receiver in receivers:
            await receiver.close()
        self._client.close()

    def _wrap(
        self,
        receiver: NativeReceiver,
        receive_mode: ServiceBusReceiveMode | str,
        max_wait_time: float | None,
        auto_lock_renewer: AutoLockRenewer | None,
        prefetch_count: int,
    ) -> ServiceBusReceiver:
        made = ServiceBusReceiver(
            receiver,
            self._calls,
            max_wait_time=max_wait_time,
            max_message_count=max(prefetch_count, 1),
            locks=ServiceBusReceiveMode(receive_mode) is ServiceBusReceiveMode.PEEK_LOCK,
            auto_lock_renewer=auto_lock_renewer,
        )
        self._receivers = [*(known for known in self._receivers if not known.closed), made]
        return made
