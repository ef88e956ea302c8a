# SPDX-License-Identifier: Apache-2.0
"""The part of the client that creates receivers for queues, subscriptions and their sub-queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from oxbus._entity_path import subscription_path
from oxbus._enums import ServiceBusReceiveMode, ServiceBusSessionFilter, ServiceBusSubQueue
from oxbus._exit_hook import run_before_pools_join
from oxbus._handles import ClientHandles
from oxbus._oxbus import _wake_waiting

if TYPE_CHECKING:
    from oxbus._auto_lock_renewer import AutoLockRenewer
    from oxbus._oxbus import ServiceBusReceiver


class ReceiverFactory(ClientHandles):
    """Creates the receivers of a client."""

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
        self._check(queue_name, socket_timeout)
        return self._make_receiver(
            queue_name,
            client_identifier=client_identifier,
            session_id=session_id,
            sub_queue=sub_queue,
            receive_mode=receive_mode,
            max_wait_time=max_wait_time,
            auto_lock_renewer=auto_lock_renewer,
            prefetch_count=prefetch_count,
            lock_policy=lock_policy,
            partition_id=partition_id,
        )

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
        path = subscription_path(topic_name, subscription_name)
        self._check(topic_name, socket_timeout)
        return self._make_receiver(
            path,
            client_identifier=client_identifier,
            session_id=session_id,
            sub_queue=sub_queue,
            receive_mode=receive_mode,
            max_wait_time=max_wait_time,
            auto_lock_renewer=auto_lock_renewer,
            prefetch_count=prefetch_count,
            lock_policy=lock_policy,
            partition_id=partition_id,
        )

    def _make_receiver(
        self,
        entity_path: str,
        *,
        client_identifier: str | None,
        session_id: str | Literal[ServiceBusSessionFilter.NEXT_AVAILABLE] | None,
        sub_queue: ServiceBusSubQueue | str | None,
        receive_mode: ServiceBusReceiveMode | str,
        max_wait_time: float | None,
        auto_lock_renewer: AutoLockRenewer | None,
        prefetch_count: int,
        lock_policy: Literal["fresh", "faithful"] | None,
        partition_id: int | None,
    ) -> ServiceBusReceiver:
        if session_id is not None and sub_queue is not None:
            raise ValueError("session_id and sub_queue cannot both be given: a sub-queue has no sessions")
        # When the interpreter exits, calls that wait for messages end.
        run_before_pools_join(_wake_waiting)
        receiver = self._namespace._receiver(
            entity_path,
            sub_queue=None if sub_queue is None else ServiceBusSubQueue(sub_queue).value,
            receive_mode=ServiceBusReceiveMode(receive_mode).value,
            max_wait_time=max_wait_time,
            prefetch_count=prefetch_count,
            auto_lock_renewer=auto_lock_renewer,
            lock_policy=lock_policy,
            partition_id=partition_id,
            client_identifier=client_identifier,
            session=_native_session(session_id),
        )
        self._keep(receiver)
        return receiver


def _native_session(
    session_id: str | Literal[ServiceBusSessionFilter.NEXT_AVAILABLE] | None,
) -> tuple[str | None] | None:
    """Convert a session option for the native module: no session, the next available one, or one id."""
    if session_id is None:
        return None
    if session_id is ServiceBusSessionFilter.NEXT_AVAILABLE:
        return (None,)
    if isinstance(session_id, str):
        return (session_id,)
    raise TypeError(f"session_id must be a str or NEXT_AVAILABLE_SESSION, not {type(session_id).__name__}")
