# SPDX-License-Identifier: Apache-2.0
"""Servers, clients and the way to the store fail at any moment, and every acknowledgement holds.

`OXBUS_STORE_FAULTS` is the number of faults, over all engines of the run, and `OXBUS_STORE_FAULTS_SEED` repeats the
choices of a run (not its timing).
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from typing import TYPE_CHECKING

import engines
import pytest
from fault_audit import violations
from fault_cluster import Cluster
from fault_driver import Driver, Load
from fault_messages import QUEUES, is_as_sent, make_queues
from oxbus import ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient
from stored_server import LIVENESS_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from stored_server import StoredPlace

FAULTS = -(-int(os.environ.get("OXBUS_STORE_FAULTS", "24")) // len(engines.CHOSEN))
"""Number of faults for each engine."""

FAULTS_PER_NAMESPACE = 25
"""Number of faults after which a new namespace begins, to limit the length of a history."""

SEED = os.environ.get("OXBUS_STORE_FAULTS_SEED") or str(random.SystemRandom().randrange(10**9))
EMPTY_RECEIVES = 3
"""How many empty receives in a row mean an empty queue."""

SHOWN = 10
"""Number of violations of each kind that a failure shows."""

pytestmark = pytest.mark.timeout(300 + 30 * FAULTS_PER_NAMESPACE)


def drain(place: StoredPlace, sub_queue: str | None) -> list[tuple[str, bool]]:
    """Receive and complete what is in the queues; return the ids, and whether each is as it was sent.

    A receive leaves a partition out whose store is slow at that moment, so the counts say when a queue is empty.
    """
    found = []
    with place.open(standby=True) as namespace, ServiceBusClient(namespace) as client:
        admin = ServiceBusAdministrationClient(namespace)

        def is_empty(queue: str) -> bool:
            counts = admin.get_queue_runtime_properties(queue)
            return (counts.dead_letter_message_count if sub_queue else counts.active_message_count) == 0

        for queue in QUEUES:
            end = time.monotonic() + LIVENESS_SECONDS
            with client.get_queue_receiver(queue, sub_queue=sub_queue) as receiver:
                empty = 0
                while empty < EMPTY_RECEIVES or not is_empty(queue):
                    assert time.monotonic() < end, f"{queue} does not become empty"
                    messages = receiver.receive_messages(500, max_wait_time=0)
                    found += [(str(message.message_id), is_as_sent(message)) for message in messages]
                    receiver.complete_messages(messages)
                    empty = 0 if messages else empty + 1
    return found


@pytest.mark.parametrize("first", range(0, FAULTS, FAULTS_PER_NAMESPACE))
def test_every_acknowledgement_holds_through_faults(place: StoredPlace, tmp_path: Path, first: int) -> None:
    """Nothing acknowledged is lost, nothing settled returns, nothing is forged, no lock of an old owner counts."""
    seed, began = f"{SEED} {first}", time.monotonic()
    make_queues(place)
    with Cluster(place, seed) as cluster:
        load = Load(cluster.switch.connection_string, tmp_path, seed)
        driver = Driver(cluster, load, seed)
        try:
            load.wait_for_more()
            driver.run(min(FAULTS - first, FAULTS_PER_NAMESPACE))
        except AssertionError as error:
            errors = [member.server.errors[-2000:] for member in cluster.members if member.server is not None]
            pytest.fail(
                "\n".join([f"seed {SEED}, {dict(driver.faults)}, {[name for _, name in driver.at]}: {error}", *errors])
            )
        finally:
            load.stop()
        cluster.owner.send(signal.SIGTERM)
        assert cluster.owner.server is not None
        cluster.owner.server.process.wait(LIVENESS_SECONDS)
    left, dead = drain(place, None), drain(place, "deadletter")
    broken = {**violations(load.history, left, dead), "accepted": driver.tokens.accepted}
    sys.stdout.write(report(driver, load, broken, time.monotonic() - began))
    assert load.history.settled
    if any(broken.values()):
        shown = {kind: found[:SHOWN] for kind, found in broken.items() if found}
        lines = "\n".join(load.lines_about([text.partition(":")[0] for found in shown.values() for text in found]))
        pytest.fail(f"seed {SEED}: {shown}; the steps: {driver.at}; the calls:\n{lines}", pytrace=False)


def report(driver: Driver, load: Load, broken: dict[str, list[str]], seconds: float) -> str:
    """Return what a run did and found, for `make test-engines`."""
    counts = ", ".join(f"{number} {fault}" for fault, number in sorted(driver.faults.items()))
    found = ", ".join(f"{len(those)} {kind}" for kind, those in broken.items())
    history = load.history
    return (
        f"{driver.total} faults in {seconds:.0f} s, seed {SEED}: {counts}\n"
        f"{len(history.sent)} messages acknowledged, {len(history.settled)} settlements confirmed, "
        f"{history.failed} calls failed, {driver.tokens.tried} old locks tried\n"
        f"{found}\n"
    )
