# SPDX-License-Identifier: Apache-2.0
"""Purging many messages in one call, and resubmitting dead-lettered ones."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from oxbus._enums import ServiceBusSubQueue
from oxbus.management._rules import SqlRuleFilter
from oxbus.management._transport import Selection

if TYPE_CHECKING:
    from datetime import datetime

    from oxbus.management._transport import AdministrationTransport


POLL_INTERVAL_SECONDS = 0.05
"""Longest sleep of a call with a rate between two looks at the clock, which a test may move by hand."""


class MessageCalls:
    """The message operations of the administration client."""

    _transport: AdministrationTransport

    def purge_messages(
        self,
        entity: str,
        *,
        sub_queue: ServiceBusSubQueue | str | None = None,
        where: SqlRuleFilter | None = None,
        before_enqueued_time_utc: datetime | None = None,
        limit: int | None = None,
    ) -> int:
        """Remove messages without receiving them; locked, deferred and scheduled messages stay.

        The messages of one partition are removed together. Messages that arrive during the call may stay.

        Args:
            entity: A queue, or a subscription as ``topic/Subscriptions/subscription``.
            sub_queue: Its dead-letter queue. None: the entity itself.
            where: Only messages that the filter selects; a message for which the filter cannot be evaluated stays.
            before_enqueued_time_utc: Only messages stored before this time.
            limit: Upper bound for the number of messages. None: no limit.

        Returns:
            The number of messages removed.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist.
            MessagingEntityDisabledError: The status of the entity forbids receiving.
            InvalidOperationError: The entity is a topic, its messages are forwarded, or the server is not one of oxbus.
            InvalidRuleError: The filter does not parse.
            PartitionUnavailableError: A store failed. Messages removed before the failure stay removed; with the effect
                ``"unknown"`` those of the failed partition may be.
            OperationTimeoutError: A store did not answer in time.
            ServiceBusQuotaExceededError: The disk of a partition is full.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: `where` is not a `SqlRuleFilter`.
            ValueError: `limit` is below 0, `sub_queue` is unknown, or the namespace is closed.

        Source: docs/behaviour.md B-401 to B-406.
        """
        selection = _selection(where, before_enqueued_time_utc, limit)
        named = None if sub_queue is None else ServiceBusSubQueue(sub_queue).value
        return self._transport.purge(entity, named, selection)

    def resubmit_dead_letters(
        self, entity: str, *, where: SqlRuleFilter | None = None, rate: float | None = None, limit: int | None = None
    ) -> int:
        """Move dead-lettered messages back into their entity as new messages, without the dead-letter reason.

        They get new sequence numbers in the order of their old ones; their time to live, delivery count and forwarding
        hops start from the beginning.
        The messages of one partition are moved together, unless `rate` spreads them over time.
        None is dropped as a duplicate. In an entity that requires sessions, a message without a session id stays.

        Args:
            entity: A queue, or a subscription as ``topic/Subscriptions/subscription``.
            where: Only messages that the filter selects; a message for which the filter cannot be evaluated stays.
            rate: Messages per second of the namespace's clock. None: as fast as possible. The call returns after the
                last message.
            limit: Upper bound for the number of messages. None: all that exist when the call begins.

        Returns:
            The number of messages moved.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist.
            MessagingEntityDisabledError: The status of the entity forbids receiving or sending.
            InvalidOperationError: The entity is a topic, its dead letters are forwarded, or the server is not one of
                oxbus.
            InvalidRuleError: The filter does not parse.
            MessageLockLostError: Another caller took one of the messages during the call. Make the call again.
            PartitionUnavailableError: A store failed. Messages moved before the failure stay moved.
            ServiceBusServerBusyError: Too many sends wait for a store.
            OperationTimeoutError: A store did not answer in time.
            ServiceBusQuotaExceededError: The disk of a partition is full.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: `where` is not a `SqlRuleFilter`.
            ValueError: `limit` is below 0, `rate` is not a number more than 0, or the namespace is closed.

        Source: docs/behaviour.md B-270.
        """
        selection = _selection(where, None, limit)
        if rate is not None and not (rate > 0 and math.isfinite(rate)):
            raise ValueError(f"rate must be more than 0 messages per second, or None: {rate=}")
        transport = self._transport
        left = transport.dead_letter_count(entity)
        if limit is not None:
            left = min(left, limit)
        if rate is None:
            return transport.resubmit(entity, selection._replace(limit=left))
        sent = 0
        due = min(left, 1)
        begun = transport.clock_ms()
        while True:
            step = transport.resubmit(entity, selection._replace(limit=due))
            sent += step
            if step < due or sent == left:
                return sent
            due = 0
            while due == 0:
                time.sleep(min(1 / rate, POLL_INTERVAL_SECONDS))
                passed = (transport.clock_ms() - begun) / 1000
                due = min(left, int(passed * rate) + 1) - sent


def _selection(where: SqlRuleFilter | None, before: datetime | None, limit: int | None) -> Selection:
    if where is not None and not isinstance(where, SqlRuleFilter):
        raise TypeError(f"where must be a SqlRuleFilter, not {type(where).__name__}")
    if limit is not None and limit < 0:
        raise ValueError(f"limit must not be negative: {limit=}")
    if where is None:
        return Selection(None, {}, before, limit)
    return Selection(where.sql_expression, dict(where.parameters or {}), before, limit)
