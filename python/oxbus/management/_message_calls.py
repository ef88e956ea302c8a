# SPDX-License-Identifier: Apache-2.0
"""Removing many messages in one call, and sending dead-lettered ones again."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from oxbus._enums import ServiceBusSubQueue
from oxbus.management._rules import SqlRuleFilter

if TYPE_CHECKING:
    from datetime import datetime

    from oxbus._oxbus import Namespace


POLL_INTERVAL_SECONDS = 0.05
"""How long a call with a rate sleeps at most before it looks at the clock, which may be moved by hand."""


class MessageCalls:
    """The calls on messages as such."""

    _namespace: Namespace

    def purge_messages(
        self,
        entity: str,
        *,
        sub_queue: ServiceBusSubQueue | str | None = None,
        where: SqlRuleFilter | None = None,
        before_enqueued_time_utc: datetime | None = None,
        limit: int | None = None,
    ) -> int:
        """Remove messages that nobody has; those that are locked, deferred or scheduled stay.

        What is removed in one partition is removed together. Messages that come in meanwhile may stay.

        Args:
            entity: A queue, or a subscription as ``topic/Subscriptions/subscription``.
            sub_queue: Its dead-letter queue.
            where: Only messages that the filter selects; one that it cannot be evaluated for stays.
            before_enqueued_time_utc: Only messages that were stored before this time.
            limit: At most so many.

        Returns:
            How many were removed.

        Raises:
            MessagingEntityNotFoundError: There is no such entity.
            MessagingEntityDisabledError: Its status forbids to receive.
            InvalidOperationError: It is a topic, or its messages are forwarded.
            InvalidRuleError: The filter cannot be read.
            ValueError: `limit` is below 0.
            PartitionUnavailableError: A store failed; what was removed before is removed.

        Source: docs/behaviour.md B-401 to B-406.
        """
        expression, parameters = _filter_parts(where)
        named = None if sub_queue is None else ServiceBusSubQueue(sub_queue).value
        _check_limit(limit)
        return self._namespace._purge(entity, named, expression, parameters, before_enqueued_time_utc, limit)

    def resubmit_dead_letters(
        self, entity: str, *, where: SqlRuleFilter | None = None, rate: float | None = None, limit: int | None = None
    ) -> int:
        """Put dead-lettered messages back into their entity as new messages, without the reason.

        They get new numbers in the order of their old ones, and their time to live, delivery count and forwarding begin
        anew. What goes in one partition goes together; with a `rate`, at most one partition's share of a step does.
        None is dropped as a duplicate. In an entity that requires sessions, a message without a session id stays.

        Args:
            entity: A queue, or a subscription as ``topic/Subscriptions/subscription``.
            where: Only messages that the filter selects; one that it cannot be evaluated for stays.
            rate: Messages per second of the namespace's clock; None for as fast as possible. The call returns when the
                last one went.
            limit: At most so many. Never more than are there when the call begins.

        Returns:
            How many were put back.

        Raises:
            MessagingEntityNotFoundError: There is no such entity.
            MessagingEntityDisabledError: Its status forbids to receive or to send.
            InvalidOperationError: It is a topic, or its dead letters are forwarded.
            InvalidRuleError: The filter cannot be read.
            ValueError: `limit` is below 0, or `rate` is not a number more than 0.
            PartitionUnavailableError: A store failed; what was put back before is there.

        Source: docs/behaviour.md B-270.
        """
        expression, parameters = _filter_parts(where)
        _check_limit(limit)
        if rate is not None and not (rate > 0 and math.isfinite(rate)):
            raise ValueError(f"rate must be more than 0 messages per second, or None: {rate=}")
        left: int = self._namespace._dead_letter_count(entity)
        if limit is not None:
            left = min(left, limit)
        if rate is None:
            return self._namespace._resubmit(entity, expression, parameters, left)
        sent = 0
        due = min(left, 1)
        begun = self._namespace._clock_ms()
        while True:
            step = self._namespace._resubmit(entity, expression, parameters, due)
            sent += step
            if step < due or sent == left:
                return sent
            due = 0
            while due == 0:
                time.sleep(min(1 / rate, POLL_INTERVAL_SECONDS))
                passed = (self._namespace._clock_ms() - begun) / 1000
                due = min(left, int(passed * rate) + 1) - sent


def _filter_parts(where: SqlRuleFilter | None) -> tuple[str | None, dict[str, object]]:
    if where is None:
        return None, {}
    if not isinstance(where, SqlRuleFilter):
        raise TypeError(f"where must be a SqlRuleFilter, not {type(where).__name__}")
    return where.sql_expression, dict(where.parameters or {})


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 0:
        raise ValueError(f"limit must not be negative: {limit=}")
