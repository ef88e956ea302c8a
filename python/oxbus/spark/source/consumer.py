# SPDX-License-Identifier: Apache-2.0
"""The consumer of one query run, on the driver: its epoch and its reservations.

The broker keeps reservations under numbers that rise by one with each batch. The reservation of a number never grows,
and reserving or completing it again changes nothing. A newer run of the query, or another query with the same consumer,
fences this one. Every call can therefore be repeated, and a checkpoint needs only the number.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

from oxbus.exceptions import CheckpointBehindError, ReservationFencedError
from oxbus.spark.source.declared import check_with_entity
from oxbus.spark.source.entity import counter_of, describe
from oxbus.spark.source.offsets import Offset, reservation_number, reserving_offset
from oxbus.spark.source.progress import entity_progress
from oxbus.spark.source.repeated_failures import RepeatedFailures
from oxbus.spark.source.reservation_renewer import ReservationRenewer
from oxbus.spark.source.tasks import PartitionSlice, Task, pack
from oxbus.spark.source.trigger_delay import TriggerDelay

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus.spark.source.settings import SourceSettings

_log = logging.getLogger("oxbus.spark")


class CheckpointBehindBrokerError(RuntimeError):
    """The checkpoint is older than the consumer's completed number."""


class ConsumerTakenError(RuntimeError):
    """Another query reads as the same consumer."""


class Consumer:
    """One run of one query; created by the first callback on the driver."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._client = settings.connection.client()
        entity = describe(self._client, settings.entity)
        self._incarnation = entity.incarnation
        self._has_sessions = entity.requires_session
        check_with_entity(settings, entity)
        acquired = self._client.acquire(
            settings.entity, settings.consumer, start="latest" if settings.start == "latest" else "earliest"
        )
        self._epoch: int = acquired["epoch"]
        self._done: int = acquired["done"]
        self._stop_at: list[int] | None = None
        self._reserved_messages = 0
        self._late_messages = 0
        self._missing_messages = 0
        self._commit_millis = 0
        self._delay = TriggerDelay(settings.messages_min, settings.trigger_delay_seconds)
        self._failures = RepeatedFailures(self._client, settings, self._epoch)
        self._renewal = ReservationRenewer(
            self._client, settings.entity, settings.consumer, self._epoch, settings.lock_seconds
        )
        _stop_on_sigterm()

    @property
    def first_offset(self) -> Offset:
        """The offset after the completed number; the broker stores it, so repeated calls return the same."""
        return self._offset(self._done)

    def complete(self, offset: Offset) -> None:
        """Complete all batches up to an offset: the sinks have stored them."""
        number = self._number(offset)
        if number <= self._done:
            return
        began = time.monotonic()
        answer = self._call(self._client.complete, number)
        self._commit_millis = round(1000 * (time.monotonic() - began))
        self._done = number
        self._late_messages += answer["late"]
        if answer["late"]:
            _log.warning(
                "consumer %s: %d messages of batch %d had lost their lock and were taken by others, "
                "so these messages may be processed twice",
                self._settings.consumer,
                answer["late"],
                number,
            )

    def stop_at_current_end(self) -> None:
        """Reserve no messages that arrive later."""
        entity = describe(self._client, self._settings.entity)
        self._stop_at = [counter_of(end) for end in entity.ends]

    def reserve_after(self, start: Offset, messages_max: int, bytes_max: int) -> Offset:
        """Reserve the messages of the next batch.

        Returns:
            The offset after them; `start` itself if there are none.

        Raises:
            CheckpointBehindBrokerError: The batch after `start` is completed already.
        """
        number = self._number(start)
        if number < self._done:
            self._checkpoint_behind(number)
            number = self._done
        if self._holds():
            return start
        plan = self._call(
            self._client.reserve,
            number + 1,
            **self._failures.limits(messages_max),
            max_bytes=bytes_max,
            lock_duration=self._settings.lock_seconds,
            max_wait_time=0 if self._stop_at is not None else self._settings.wait_seconds,
            upto=self._stop_at,
            max_sessions=self._settings.sessions_max,
        )
        if plan["messages"]:
            self._delay.begin_batch()
        self._failures.reserved(plan["messages"])
        self._reserved_messages = plan["messages"]
        if not plan["partitions"] or not plan["messages"]:
            return start
        return self._offset(number + 1)

    def tasks(self, end: Offset) -> list[Task]:
        """Divide the batch that ends at an offset into tasks.

        Raises:
            CheckpointBehindBrokerError: The batch is completed already.
        """
        number = self._number(end)
        if number <= self._done:
            self._checkpoint_behind(number - 1)
            return []
        settings = self._settings
        plan = self._call(self._client.plan, number, lock_duration=settings.lock_seconds)
        if self._failures.decide(number, plan):
            plan = self._call(self._client.plan, number, lock_duration=settings.lock_seconds)
        self._missing_messages += plan["missing"]
        if plan["missing"]:
            _log.warning(
                "consumer %s: %d messages of batch %d are no longer reserved: "
                "taken by others, expired or dead-lettered",
                settings.consumer,
                plan["missing"],
                number,
            )
        shares = [
            PartitionSlice(it["partition"], tuple((first, last) for first, last in it["ranges"]), it["bytes"])
            for it in plan["partitions"]
        ]
        # The messages of a session are in one partition, which therefore stays whole.
        tasks_min = min(settings.tasks_min, len(shares)) if self._has_sessions else settings.tasks_min
        packed = pack(shares, task_bytes=settings.task_bytes, tasks_min=tasks_min, tasks_max=settings.tasks_max)
        return [Task(load, plan["id"], self._epoch, self._has_sessions) for load in packed]

    def report(self) -> dict[str, Any]:
        """Return the counts that the progress of the query shows as latest offset."""
        entity = describe(self._client, self._settings.entity)
        return entity_progress(entity, entity.active_by_partition) | {
            "reservedMessages": self._reserved_messages,
            "lateMessages": self._late_messages,
            "missingMessages": self._missing_messages,
            "commitMillis": self._commit_millis,
        }

    def stop(self) -> None:
        """Stop renewing: the locks of an unfinished batch expire, and the next run takes it over."""
        self._renewal.stop()

    def _holds(self) -> bool:
        """Whether the next batch waits for more messages; the last run over what is there waits for none."""
        if self._stop_at is not None or not self._delay.is_set:
            return False
        if not self._delay.holds(describe(self._client, self._settings.entity).active_messages):
            return False
        time.sleep(self._settings.wait_seconds)
        return self._delay.holds(describe(self._client, self._settings.entity).active_messages)

    def _offset(self, number: int) -> Offset:
        return reserving_offset(self._incarnation, self._settings.consumer, number)

    def _number(self, offset: Offset) -> int:
        return reservation_number(
            offset, path=self._settings.entity, incarnation=self._incarnation, consumer=self._settings.consumer
        )

    def _call(self, call: Callable[..., Any], number: int, **options: Any) -> Any:
        """Make a call on a reservation, with errors in terms of queries."""
        settings = self._settings
        try:
            return call(settings.entity, settings.consumer, self._epoch, number, **options)
        except ReservationFencedError as error:
            raise ConsumerTakenError(
                f"another query, or a newer run of this one, reads `{settings.entity}` as consumer "
                f"`{settings.consumer}`; give each query its own with the option consumer"
            ) from error
        except CheckpointBehindError as error:
            raise CheckpointBehindBrokerError(f"{error}") from error

    def _checkpoint_behind(self, number: int) -> None:
        text = (
            f"the checkpoint ends with batch {number} of consumer `{self._settings.consumer}`, which has completed "
            f"batch {self._done}: those messages are settled and cannot be read again"
        )
        if self._settings.fail_on_data_loss:
            raise CheckpointBehindBrokerError(
                f"{text}; set failOnDataLoss to false to continue after them, or use another consumer"
            )
        _log.warning("%s; continuing after them", text)


def _stop_on_sigterm() -> None:
    """Run the stop handlers of the reader on SIGTERM, with which Spark ends the process of a stopped query."""
    if threading.current_thread() is threading.main_thread() and _is_spark_worker():
        signal.signal(signal.SIGTERM, _end)


def _end(*_details: object) -> NoReturn:
    # Spark may send it twice; the second signal must not interrupt the handlers of the first.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def _is_spark_worker() -> bool:
    return any(name.startswith("PYTHON_WORKER_FACTORY_") for name in os.environ)
