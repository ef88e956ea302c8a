# SPDX-License-Identifier: Apache-2.0
"""A consumer of a queue as the driver of one query run holds it: its epoch, and what it has reserved.

The broker keeps the reservations under numbers that rise by one with each batch: what number n holds never grows,
reserving or completing it again changes nothing, and a newer run of the query, or another query with the same consumer,
shuts this one out. So each call here may be made again, and a checkpoint needs nothing but the number.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from oxbus.exceptions import CheckpointBehindError, ReservationFencedError
from oxbus.spark.source.entity import counter_of, describe
from oxbus.spark.source.offsets import Offset, reservation_number, reserving_offset
from oxbus.spark.source.reservation_renewer import ReservationRenewer
from oxbus.spark.source.retries import retry_idempotent
from oxbus.spark.source.tasks import PartitionSlice, Task, pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus.spark.source.settings import SourceSettings

_log = logging.getLogger("oxbus.spark")


class CheckpointBehindBrokerError(RuntimeError):
    """The checkpoint is older than what the consumer has completed."""


class ConsumerTakenError(RuntimeError):
    """Another query reads as the same consumer."""


class Consumer:
    """One run of one query; made by the first callback on the driver."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._client = settings.connection.client()
        entity = describe(self._client, settings.entity)
        self._incarnation = entity.incarnation
        acquired = self._client.acquire(
            settings.entity, settings.consumer, start="latest" if settings.start == "latest" else "earliest"
        )
        self._epoch: int = acquired["epoch"]
        self._done: int = acquired["done"]
        self._stop_at: list[int] | None = None
        self._reserved_messages = 0
        self._late_messages = 0
        self._missing_messages = 0
        self._renewal = ReservationRenewer(
            self._client, settings.entity, settings.consumer, self._epoch, settings.lock_seconds
        )
        _stop_on_sigterm()

    @property
    def first_offset(self) -> Offset:
        """Behind what the consumer has completed; the broker keeps it, so it is the same when asked again."""
        return self._offset(self._done)

    def complete(self, offset: Offset) -> None:
        """Complete everything up to an offset: what it stands behind is in the sinks."""
        number = self._number(offset)
        if number <= self._done:
            return
        answer = self._call(self._client.complete, number)
        self._done = number
        self._late_messages += answer["late"]
        if answer["late"]:
            _log.warning(
                "consumer %s: %d messages of batch %d had lost their lock and were taken by others, "
                "so they may be processed twice",
                self._settings.consumer,
                answer["late"],
                number,
            )

    def stop_at_current_end(self) -> None:
        """Reserve nothing that comes later."""
        entity = retry_idempotent(describe, self._client, self._settings.entity)
        self._stop_at = [counter_of(end) for end in entity.ends]

    def reserve_after(self, start: Offset, messages_max: int, bytes_max: int) -> Offset:
        """Reserve the messages of the next batch.

        Returns:
            The offset behind them; `start` itself when there are none.

        Raises:
            CheckpointBehindBrokerError: The batch behind `start` is completed already.
        """
        number = self._number(start)
        if number < self._done:
            self._checkpoint_behind(number)
            number = self._done
        plan = self._call(
            self._client.reserve,
            number + 1,
            max_messages=messages_max,
            max_bytes=bytes_max,
            lock_duration=self._settings.lock_seconds,
            max_wait_time=0 if self._stop_at is not None else self._settings.wait_seconds,
            upto=self._stop_at,
        )
        self._reserved_messages = plan["messages"]
        if not plan["partitions"] or not plan["messages"]:
            return start
        return self._offset(number + 1)

    def tasks(self, end: Offset) -> list[Task]:
        """Share out the batch that ends at an offset.

        Raises:
            CheckpointBehindBrokerError: It is completed already.
        """
        number = self._number(end)
        if number <= self._done:
            self._checkpoint_behind(number - 1)
            return []
        settings = self._settings
        plan = self._call(self._client.plan, number, lock_duration=settings.lock_seconds)
        self._missing_messages += plan["missing"]
        if plan["missing"]:
            _log.warning(
                "consumer %s: %d messages of batch %d are in other hands by now: "
                "taken by others, expired or dead-lettered",
                settings.consumer,
                plan["missing"],
                number,
            )
        shares = [
            PartitionSlice(it["partition"], tuple((first, last) for first, last in it["ranges"]), it["bytes"])
            for it in plan["partitions"]
        ]
        packed = pack(
            shares, task_bytes=settings.task_bytes, tasks_min=settings.tasks_min, tasks_max=settings.tasks_max
        )
        return [Task(load, plan["id"], self._epoch) for load in packed]

    def report(self) -> dict[str, int]:
        """How much there is to do; what Spark shows as the latest offset of the source."""
        return {
            "activeMessages": retry_idempotent(describe, self._client, self._settings.entity).active_messages,
            "reservedMessages": self._reserved_messages,
            "lateMessages": self._late_messages,
            "missingMessages": self._missing_messages,
        }

    def stop(self) -> None:
        """Let the locks of an unfinished batch end by themselves; the next run takes them over."""
        self._renewal.stop()

    def _offset(self, number: int) -> Offset:
        return reserving_offset(self._incarnation, self._settings.consumer, number)

    def _number(self, offset: Offset) -> int:
        return reservation_number(
            offset, path=self._settings.entity, incarnation=self._incarnation, consumer=self._settings.consumer
        )

    def _call(self, call: Callable[..., Any], number: int, **options: Any) -> Any:
        """Make a call about a reservation, in words that speak of queries."""
        settings = self._settings
        try:
            return retry_idempotent(call, settings.entity, settings.consumer, self._epoch, number, **options)
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
                f"{text}; set failOnDataLoss to false to go on behind them, or use another consumer"
            )
        _log.warning("%s; going on behind them", text)


def _stop_on_sigterm() -> None:
    """Let SIGTERM, with which Spark ends the process of a stopped query, run what stops the reader."""
    if threading.current_thread() is threading.main_thread() and _is_spark_worker():
        signal.signal(signal.SIGTERM, _end)


def _end(*_details: object) -> NoReturn:
    # Spark may say it twice, and the second time must not cut off what the first one runs.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def _is_spark_worker() -> bool:
    return any(name.startswith("PYTHON_WORKER_FACTORY_") for name in os.environ)
