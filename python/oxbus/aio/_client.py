# SPDX-License-Identifier: Apache-2.0
"""`ServiceBusClient` for asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal, Self, overload

from oxbus import _client
from oxbus._enums import ServiceBusReceiveMode, ServiceBusSessionFilter, ServiceBusSubQueue
from oxbus._options import explains_options
from oxbus._oxbus import Namespace
from oxbus.aio._calls import CallRunner
from oxbus.aio._credential import in_loop
from oxbus.aio._paging import AsyncItemPaged
from oxbus.aio._receiver import ServiceBusReceiver
from oxbus.aio._sender import ServiceBusSender
from oxbus.aio._transaction import Transaction

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType
    from typing import Unpack

    from oxbus._oxbus import ServiceBusReceiver as NativeReceiver
    from oxbus._remote._options import MessagingOptions
    from oxbus._sessions import ServiceBusSessionInfo
    from oxbus.aio._auto_lock_renewer import AutoLockRenewer


@explains_options
class ServiceBusClient:
    """Creates senders and receivers for the entities of one namespace, in this process or on a server, for asyncio.

    Closing the client closes its senders and receivers, and its connection to a server. A namespace of this process
    stays open, except one that a connection string with ``file://`` opened: that closes with its last client.
    Usable as an asynchronous context manager.

    Source: `azure.servicebus.aio.ServiceBusClient`; differences in docs/compat.md.
    """

    def __init__(
        self, fully_qualified_namespace: str | Namespace, credential: object = None, **options: Unpack[MessagingOptions]
    ) -> None:
        """Create a client. It connects to a server at its first call.

        Args:
            fully_qualified_namespace: The host of a namespace, such as ``bus.example.net`` or ``bus.example.net:5671``;
                or an `oxbus.Namespace` of this process.
            credential: What identifies the client to a server: an object with `get_token`, awaitable or not, such as
                the credentials of azure-identity; an `AzureNamedKeyCredential` or `AzureSasCredential`; a pair of key
                name and key; or a text ``SharedAccessSignature sr=…``. None for a namespace of this process.
            options: Options of the connection, see `MessagingOptions`.

        Raises:
            OSError: The file `connection_verify` cannot be read.
            TypeError: An argument has the wrong type, or a server has no credential.
            ValueError: The address or an option is malformed or out of its range.

        Source: `azure.servicebus.aio.ServiceBusClient`.
        """
        self._begin(_client.ServiceBusClient(fully_qualified_namespace, in_loop(credential), **options))

    def _begin(self, client: _client.ServiceBusClient) -> None:
        self._client = client
        namespace = client._namespace
        if isinstance(namespace, Namespace):
            self._calls = CallRunner(namespace, is_in_store=namespace._is_in_store)
        else:
            self._calls = CallRunner(namespace, is_remote=True)
        self._receivers: list[ServiceBusReceiver] = []

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

        Source: `azure.servicebus.aio.ServiceBusClient.from_connection_string`.
        """
        made = cls.__new__(cls)
        made._begin(_client.ServiceBusClient.from_connection_string(conn_str, **options))
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

        Source: docs/behaviour.md B-020; `azure.servicebus.aio.ServiceBusClient.get_queue_sender`.
        """
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
        """Return a receiver for a queue or one of its sub-queues.

        Args:
            queue_name: The queue. The first call of the receiver looks it up and raises MessagingEntityNotFoundError if
                it does not exist.
            client_identifier: A name for this receiver in error texts; generated when missing.
            socket_timeout: Seconds, more than 0. It is checked and has no effect; that of the client has one.
            session_id: On a queue with sessions, the session to accept: an id, or `NEXT_AVAILABLE_SESSION`. It is
                accepted on entering the receiver or by its first call, which waits up to `max_wait_time`, or a minute
                if that is None.
            sub_queue: The dead-letter queue or the transfer dead-letter queue of the queue.
            receive_mode: Lock each message until it is settled, or remove it on delivery.
            max_wait_time: Seconds that iteration waits for the next message before it ends. None: no limit; 0 does not
                wait.
            auto_lock_renewer: Renews the lock of every message received in peek-lock mode, or of the session.
            prefetch_count: How many messages to fetch in advance for later calls; 0: none.
            lock_policy: ``"fresh"``: the lock duration starts when the message is delivered to the caller.
                ``"faithful"``: it starts when the message leaves its partition, as in Service Bus. None: the policy of
                the namespace.
            partition_id: Receive from this partition only. None: from all.

        Raises:
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: An argument has the wrong type.
            ValueError: An option is out of its range, `session_id` is given with `sub_queue`, the client is closed, or
                its connection string is for another entity.

        Source: docs/behaviour.md B-125 to B-149, B-192 to B-199; differences in docs/compat.md#receive.
        """
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

        Source: docs/behaviour.md B-020; `azure.servicebus.aio.ServiceBusClient.get_topic_sender`.
        """
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
        """Return a receiver for a subscription or one of its sub-queues.

        Args:
            topic_name: The topic.
            subscription_name: Its subscription. The first call of the receiver looks it up and raises
                MessagingEntityNotFoundError if it does not exist.
            client_identifier: A name for this receiver in error texts; generated when missing.
            socket_timeout: Seconds, more than 0. It is checked and has no effect; that of the client has one.
            session_id: On a subscription with sessions, the session to accept: an id, or `NEXT_AVAILABLE_SESSION`.
                It is accepted on entering the receiver or by its first call, which waits up to `max_wait_time`, or a
                minute if that is None.
            sub_queue: The dead-letter queue or the transfer dead-letter queue of the subscription.
            receive_mode: Lock each message until it is settled, or remove it on delivery.
            max_wait_time: Seconds that iteration waits for the next message before it ends. None: no limit; 0 does not
                wait.
            auto_lock_renewer: Renews the lock of every message received in peek-lock mode, or of the session.
            prefetch_count: How many messages to fetch in advance for later calls; 0: none.
            lock_policy: ``"fresh"``: the lock duration starts when the message is delivered to the caller.
                ``"faithful"``: it starts when the message leaves its partition, as in Service Bus. None: the policy of
                the namespace.
            partition_id: Receive from this partition only. None: from all.

        Raises:
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: An argument has the wrong type.
            ValueError: An option is out of its range, `session_id` is given with `sub_queue`, a name is invalid, the
                client is closed, or its connection string is for another entity.

        Source: docs/behaviour.md B-020, B-125 to B-149, B-192 to B-199; differences in docs/compat.md#receive.
        """
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
        """List the sessions of a queue that have active messages or a state, by id.

        Args:
            queue_name: A queue that requires sessions.
            state_updated_after: Only sessions whose state was set after this time; a time without a time zone counts as
                UTC.
            timeout: Seconds, more than 0, or None. It is checked and has no effect.
            details: Return a `ServiceBusSessionInfo` for each session instead of its id.

        Returns:
            Ids, or details. Sessions of partitions that are out of service are missing.

        Raises:
            MessagingEntityNotFoundError: The queue does not exist. Raised at the first item, like the next two.
            InvalidOperationError: The queue does not require sessions.
            ForkedProcessError: The namespace was opened before the process forked.
            ValueError: `timeout` is not more than 0, the client is closed, or its connection string is for another
                entity.

        Source: docs/behaviour.md B-214 to B-216.
        """
        list_sessions = self._client.list_queue_sessions
        if details:
            infos = list_sessions(queue_name, state_updated_after=state_updated_after, timeout=timeout, details=True)
            return AsyncItemPaged(infos, self._calls)
        ids = list_sessions(queue_name, state_updated_after=state_updated_after, timeout=timeout)
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
        """List the sessions of a subscription that have active messages or a state, by id.

        Args:
            topic_name: The topic.
            subscription_name: Its subscription, one that requires sessions.
            state_updated_after: Only sessions whose state was set after this time; a time without a time zone counts as
                UTC.
            timeout: Seconds, more than 0, or None. It is checked and has no effect.
            details: Return a `ServiceBusSessionInfo` for each session instead of its id.

        Returns:
            Ids, or details. Sessions of partitions that are out of service are missing.

        Raises:
            MessagingEntityNotFoundError: The subscription does not exist. Raised at the first item, like the next two.
            InvalidOperationError: The subscription does not require sessions.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A name is not a str.
            ValueError: `timeout` is not more than 0, a name is invalid, the client is closed, or its connection string
                is for another entity.

        Source: docs/behaviour.md B-214 to B-216.
        """
        names = topic_name, subscription_name
        list_sessions = self._client.list_subscription_sessions
        if details:
            infos = list_sessions(*names, state_updated_after=state_updated_after, timeout=timeout, details=True)
            return AsyncItemPaged(infos, self._calls)
        ids = list_sessions(*names, state_updated_after=state_updated_after, timeout=timeout)
        return AsyncItemPaged(ids, self._calls)

    def transaction(self, *, cross_entity: bool = False) -> Transaction:
        """Return a transaction; it begins with its first operation.

        Args:
            cross_entity: Allow sends to several entities. All operations must be in one partition, so partitioned
                entities need the same key. All settled messages must be from one entity.

        Raises:
            ValueError: The client is closed.

        Source: docs/behaviour.md B-306 to B-330.
        """
        if self._client._closed:
            raise ValueError("the client is closed: create a new ServiceBusClient")
        return Transaction(self._client._namespace, self._calls, cross_entity=cross_entity)

    async def close(self) -> None:
        """Close every sender and receiver of this client; the namespace stays open for other clients.

        A namespace that a connection string with ``file://`` opened closes with the last client that such a string
        created. Prefetched messages return to their queues; their delivery counts stay the same. Closing twice is
        harmless. Raises nothing.
        """
        receivers, self._receivers = self._receivers, []
        for receiver in receivers:
            await receiver.close()
        if self._client._use is None and not self._calls.may_wait:
            self._client.close()
        else:
            # Closing a directory writes to it, and a server confirms the end of links.
            await asyncio.to_thread(self._client.close)

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
