# SPDX-License-Identifier: Apache-2.0
"""All steps of the demo, from the first message or from where an earlier run was killed."""

from __future__ import annotations

import contextlib
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import oxbus
from oxbus import ServiceBusClient
from oxbus._read_progress import ReadProgress
from oxbus.demo import aircraft_sessions, carrier_topic, checks, exchange, scenarios, stories
from oxbus.demo.deliveries import Deliveries
from oxbus.demo.encoded import PARTITIONS
from oxbus.demo.progress_log import ProgressLog
from oxbus.demo.report import Report, Runs
from oxbus.exceptions import ResourceExistsError
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import Progress

    from oxbus.demo.encoded import EncodedFlights
    from oxbus.demo.scenarios import ScenarioResult

QUEUE = "flights"
DELIVERIES_MAX = 1000
"""High, because each kill counts as a delivery; many kills must not create dead letters."""
LOCK_DURATION = timedelta(minutes=5)
"""The maximum: a slow machine may need long to process a batch."""


def run(
    progress: Progress,
    encode: Callable[[Progress], EncodedFlights],
    make_client: Callable[[oxbus.Namespace], ServiceBusClient] = ServiceBusClient,
    notes: ProgressLog | None = None,
) -> Report:
    """Send the flights through a queue, drain it, and check the received messages.

    Args:
        progress: Shows the progress of each stage.
        encode: Returns the flights, unless an earlier run did.
        make_client: Creates the client; tests pass one that loses or misroutes messages.
        notes: The progress log. None: in memory.

    Returns:
        The report; `passed` is False if a single message is wrong.

    Raises:
        NamespaceInUseError: Another process has the demo's namespace open.
    """
    began = time.perf_counter()
    notes = notes or ProgressLog()
    encoded = notes.encoded(lambda: encode(progress))
    total = sum(batch.num_rows for batch in encoded.batches)
    with _open(progress, notes) as namespace, make_client(namespace) as client:
        admin = ServiceBusAdministrationClient(namespace)
        with contextlib.suppress(ResourceExistsError):
            admin.create_queue(
                QUEUE, enable_partitioning=True, max_delivery_count=DELIVERIES_MAX, lock_duration=LOCK_DURATION
            )
        sending = progress.add_task("sending", total=total)
        sent = exchange.send(client, QUEUE, encoded.batches, notes, lambda rows: progress.advance(sending, rows))
        in_queue = admin.get_queue_runtime_properties(QUEUE).total_message_count or 0
        receiving = progress.add_task("receiving and completing", total=total, completed=total - in_queue)
        received = exchange.receive(client, QUEUE, notes, lambda rows: progress.advance(receiving, rows))
        left_in_queue = admin.get_queue_runtime_properties(QUEUE).total_message_count or 0
        recovery = namespace.recovery

    some = scenarios.sample(sent.messages)
    by_session = _run_scenario(progress, "through sessions", lambda: aircraft_sessions.run_scenario(some))
    by_topic = _run_scenario(progress, "through a topic", lambda: carrier_topic.run_scenario(some))

    checking = progress.add_task("checking", total=None)
    deliveries = Deliveries(notes.deliveries())
    findings = [
        *checks.check_input(sent.messages, encoded.flights, encoded.keyless),
        *checks.check_placement(sent.messages, PARTITIONS),
        *checks.check_kept(sent),
        *checks.check_delivery(sent.messages, deliveries, PARTITIONS, left_in_queue),
        *by_session.checks,
        *by_topic.checks,
        *(encoded.bulk.checks if encoded.bulk else ()),
    ]
    shown_stories = [stories.lock_expiry(), stories.dead_letter()]
    progress.update(checking, total=1, completed=1)

    runs = Runs(
        count=notes.run,
        directory=str(notes.directory) if notes.directory else None,
        recovery_seconds=recovery.seconds if recovery else 0.0,
        frames_recovered=recovery.frames if recovery else 0,
        found_in_queue=sent.found_in_queue,
        redelivered=deliveries.redelivered,
        noted_again=int(deliveries.noted_again.sum()),
    )
    return Report(
        messages_per_partition=deliveries.per_partition(PARTITIONS),
        messages_per_receiver=deliveries.per_receiver(notes.run, exchange.RECEIVERS),
        checks=findings,
        stories=shown_stories,
        seconds={
            "encode": encoded.encode_seconds,
            "send": sent.seconds,
            "receive": max(result.seconds for result in received),
            "sessions": by_session.seconds,
            "topic": by_topic.seconds,
            "bulk": encoded.bulk.seconds if encoded.bulk else 0.0,
            "total": time.perf_counter() - began,
        },
        rows={
            "encode": 0 if runs.resumed else total,
            "send": sent.rows,
            "receive": sum(result.rows for result in received),
            "sessions": by_session.rows,
            "topic": by_topic.rows,
            "bulk": encoded.bulk.rows if encoded.bulk else 0,
        },
        runs=runs,
    )


def _run_scenario(progress: Progress, name: str, scenario: Callable[[], ScenarioResult]) -> ScenarioResult:
    running = progress.add_task(name, total=None)
    result = scenario()
    progress.update(running, total=1, completed=1)
    return result


def _open(progress: Progress, notes: ProgressLog) -> oxbus.Namespace:
    """Open the demo's namespace; show a progress bar if that takes more than a second."""
    if notes.namespace is None:
        return oxbus.Namespace(partitions=PARTITIONS)
    opening = progress.add_task("opening", visible=False)

    def show(read: int, total: int) -> None:
        progress.update(opening, completed=read, total=total, visible=True)

    with ReadProgress(notes.namespace, show):
        return oxbus.Namespace(notes.namespace, partitions=PARTITIONS, durability="fsync")
