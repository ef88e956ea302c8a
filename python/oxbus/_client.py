# SPDX-License-Identifier: Apache-2.0
"""The front door of the data plane: a client makes senders and receivers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, NoReturn, Self, overload

from oxbus._connection import open_namespace, parse_connection_string
from oxbus._enums import ServiceBusReceiveMode, ServiceBusSessionFilter, ServiceBusSubQueue
from oxbus._exit_hook import run_before_pools_join
from oxbus._oxbus import Namespace, ServiceBusReceiver, ServiceBusSender, _wake_waiting
from oxbus._paging import ItemPaged
from oxbus._sessions import list_sessions
from oxbus.exceptions import InvalidOperationError

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

    from oxbus._auto_lock_renewer import AutoLockRenewer
    from oxbus._sessions import ServiceBusSessionInfo


class ServiceBusClient:
    """Makes senders and receivers for the entities of one namespace.

    The namespace stays open when the client closes; the senders and receivers that it made do not.
    May be shared by threads.
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
        """Make a client.

        Args:
            namespace: The namespace to work on.
            retry_total: Repeats after a transient error of a connection.
                The retry options are checked, and have no effect in this process: there is no connection to lose.
            retry_backoff_factor: Seconds before the first repeat.
            retry_backoff_max: Most seconds between two repeats.
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
        """Make a client for the namespace that a connection string names.

        Args:
            conn_str: ``Endpoint=memory://name``: the in-memory namespace of that name, one per name and process.
                With ``;EntityPath=…`` the client is for that entity only.
            retry_total: As for the class, like the other retry options.
            retry_backoff_factor: Seconds before the first repeat.
            retry_backoff_max: Most seconds between two repeats.
            retry_mode: ``"exponential"`` or ``"fixed"``.

        Raises:
            ValueError: The connection string is malformed.
            InvalidOperationError: It names a directory or a server, which this version cannot open.
        """
        properties = parse_connection_string(conn_str)
        client = cls(
            open_namespace(properties),
            retry_total=retry_total,
            retry_backoff_factor=retry_backoff_factor,
            retry_backoff_max=retry_backoff_max,
            retry_mode=retry_mode,
        )
        client._entity_path = properties.entity_path
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
            queue_name: The queue.
            client_identifier: A name for this sender in error texts; one is made when missing.
            socket_timeout: Seconds to wait on a socket; checked, and without effect in this process.

        Raises:
            MessagingEntityNotFoundError: There is no such queue; raised here or at the first send.
            ValueError: The client is closed, or its connection string is for another entity.
        """
        self._check(queue_name, socket_timeout)
        sender = self._namespace._sender(queue_name, client_identifier)
        self._keep(sender)
        return sender

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
        """Return a receiver for a queue or for one of its sub-queues.

        Args:
            queue_name: The queue.
            client_identifier: A name for this receiver in error texts; one is made when missing.
            socket_timeout: Seconds to wait on a socket; checked, and without effect in this process.
            session_id: On a queue with sessions, the session to accept: an id, or `NEXT_AVAILABLE_SESSION`.
                It is accepted when the receiver is entered or first used; the next one is waited for as long as
                `max_wait_time`, or a minute.
            sub_queue: The dead-letter queue of the queue, or its transfer dead-letter queue.
            receive_mode: Lock each message until it is settled, or remove it as it is handed out.
            max_wait_time: Seconds that iteration waits for a next message before it ends. `None` waits for ever;
                0 does not wait.
            auto_lock_renewer: Every message that is received in peek-lock mode is registered with it, or the session.
            prefetch_count: Messages to hold ready beyond those asked for; 0 holds none.
            lock_policy: ``"fresh"``: the lock's time starts when a message is handed out.
                ``"faithful"``: it starts when the message is taken from its partition, as in Service Bus.
                `None` is the policy of the namespace.
            partition_id: Take messages from this partition only.

        Raises:
            MessagingEntityNotFoundError: There is no such queue; raised here or at the first receive.
            ValueError: An option is out of its range, `session_id` comes with `sub_queue`, the client is closed, or its
                connection string is for another entity.

        Source: docs/behaviour.md B-125 to B-149, B-192 to B-199; differences in docs/compat.md#receive.
        """
        self._check(queue_name, socket_timeout)
        if session_id is not None and sub_queue is not None:
            raise ValueError("session_id and sub_queue cannot both be given: a sub-queue has no sessions")
        run_before_pools_join(_wake_waiting)
        receiver = self._namespace._receiver(
            queue_name,
            sub_queue=None if sub_queue is None else ServiceBusSubQueue(sub_queue).value,
            receive_mode=ServiceBusReceiveMode(receive_mode).value,
            max_wait_time=max_wait_time,
            prefetch_count=prefetch_count,
            auto_lock_renewer=auto_lock_renewer,
            lock_policy=lock_policy,
            partition_id=partition_id,
            client_identifier=client_identifier,
            session=_wanted(session_id),
        )
        self._keep(receiver)
        return receiver

    def get_topic_sender(
        self, topic_name: str, *, client_identifier: str | None = None, socket_timeout: float | None = None
    ) -> NoReturn:
        """Refuse: topics are not in this version.

        Raises:
            InvalidOperationError: Always.
        """
        del topic_name, client_identifier, socket_timeout
        _refuse("topics")

    def get_subscription_receiver(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        client_identifier: str | None = None,
        socket_timeout: float | None = None,
        session_id: str | Literal[ServiceBusSessionFilter.NEXT_AVAILABLE] | None = None,
        sub_queue: ServiceBusSubQueue | str | None = None,
        receive_mode: ServiceBusReceiveMode | str = ServiceBusReceiveMode.PEEK_LOCK,
        max_wait_time: float | None = None,
        auto_lock_renewer: AutoLockRenewer | None = None,
        prefetch_count: int = 0,
    ) -> NoReturn:
        """Refuse: topics and subscriptions are not in this version.

        Raises:
            InvalidOperationError: Always.
        """
        del topic_name, subscription_name, client_identifier, socket_timeout, session_id, sub_queue
        del receive_mode, max_wait_time, auto_lock_renewer, prefetch_count
        _refuse("topics and subscriptions")

    @overload
    def list_queue_sessions(
        self,
        queue_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
        details: Literal[False] = False,
    ) -> ItemPaged[str]: ...

    @overload
    def list_queue_sessions(
        self,
        queue_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
        details: Literal[True],
    ) -> ItemPaged[ServiceBusSessionInfo]: ...

    def list_queue_sessions(
        self,
        queue_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
        details: bool = False,
    ) -> ItemPaged[str] | ItemPaged[ServiceBusSessionInfo]:
        """List the sessions of a queue that have active messages or a state, by id.

        Args:
            queue_name: A queue that requires sessions.
            state_updated_after: Only those whose state was set after this time; without a time zone it counts as UTC.
            timeout: More than 0, or None. It does not end a call.
            details: Return a `ServiceBusSessionInfo` for each in place of its id.

        Returns:
            Ids, or details. Sessions of partitions that are out of service are missing.

        Raises:
            MessagingEntityNotFoundError: There is no such queue; raised at the first item, like the next one.
            InvalidOperationError: The queue does not require sessions.
            ValueError: `timeout` is not more than 0, the client is closed, or its connection string is for another
                entity.

        Source: docs/behaviour.md B-214 to B-216.
        """
        self._check(queue_name, None)
        if timeout is not None and timeout <= 0:
            raise ValueError(f"timeout must be greater than 0; leave it out for the default: {timeout}")
        fetch = partial(list_sessions, self._namespace, queue_name, state_updated_after)
        if details:
            return ItemPaged(fetch)
        return ItemPaged(lambda: [session.session_id for session in fetch()])

    def list_subscription_sessions(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
    ) -> NoReturn:
        """Refuse: topics and subscriptions are not in this version.

        Raises:
            InvalidOperationError: Always.
        """
        del topic_name, subscription_name, state_updated_after, timeout
        _refuse("topics and subscriptions")

    def transaction(self) -> NoReturn:
        """Refuse: transactions are not in this version.

        Raises:
            InvalidOperationError: Always.
        """
        _refuse("transactions")

    def close(self) -> None:
        """Close every sender and receiver that this client made; the namespace stays open.

        A closed receiver gives back the messages it held without charging a delivery. Closing twice is harmless.
        """
        self._closed = True
        for key, handle in list(self._handles.items()):
            handle.close()
            self._handles.pop(key, None)

    def _keep(self, handle: ServiceBusSender | ServiceBusReceiver) -> None:
        """Remember what to close, and forget what was closed; each step is atomic, so no lock can outlive a fork."""
        for key, other in list(self._handles.items()):
            if other.closed:
                self._handles.pop(key, None)
        self._handles[id(handle)] = handle

    def _check(self, entity_name: str, socket_timeout: float | None) -> None:
        if self._closed:
            raise ValueError("the client is closed: make a new ServiceBusClient")
        if self._entity_path is not None and entity_name != self._entity_path:
            raise ValueError(
                "the connection string is for another entity: use one without EntityPath, "
                f"or that entity: entity=`{entity_name}` entity_path=`{self._entity_path}`"
            )
        if socket_timeout is not None and socket_timeout <= 0:
            raise ValueError(f"socket_timeout must be more than 0 seconds: socket_timeout={socket_timeout}")


def _wanted(session_id: str | Literal[ServiceBusSessionFilter.NEXT_AVAILABLE] | None) -> tuple[str | None] | None:
    """The session to accept as the native part takes it: none, any, or one."""
    if session_id is None:
        return None
    if session_id is ServiceBusSessionFilter.NEXT_AVAILABLE:
        return (None,)
    if isinstance(session_id, str):
        return (session_id,)
    raise TypeError(f"session_id must be a str or NEXT_AVAILABLE_SESSION, not {type(session_id).__name__}")


def _refuse(feature: str) -> NoReturn:
    raise InvalidOperationError(
        f"{feature} are not in this version of oxbus. Use a queue without them.", condition="amqp:not-implemented"
    )
