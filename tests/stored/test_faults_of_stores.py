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
from datetime import timedelta
from typing import TYPE_CHECKING

import engines
import pytest
from fault_audit import violations
from fault_cluster import Cluster
from fault_driver import Driver, Load
from fault_messages import LOCK_SECONDS, QUEUES, TOKENS, is_as_sent
from oxbus import ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient
from stored_server import LIVENESS_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from stored_server import StoredPlace

FAULTS = int(os.environ.get("OXBUS_STORE_FAULTS", "30")) // len(engines.CHOSEN)
SEED = os.environ.get("OXBUS_STORE_FAULTS_SEED") or str(random.SystemRandom().randrange(10**9))
MOST_DELIVERIES = 100_000
"""High enough that no message is dead-lettered by exceeding it."""

LOCK = timedelta(seconds=LOCK_SECONDS)
EMPTY_RECEIVES = 3
"""How many empty receives in a row mean an empty queue."""

SHOWN = 10
"""Number of violations of each kind that a failure shows."""

pytestmark = pytest.mark.timeout(300 + 30 * FAULTS)


def make_queues(place: StoredPlace) -> None:
    """Create the queues in an empty place."""
    with place.open() as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        for name, partitioned in {**QUEUES, TOKENS: False}.items():
            admin.create_queue(
                name, enable_partitioning=partitioned, max_delivery_count=MOST_DELIVERIES, lock_duration=LOCK
            )


def drain(place: StoredPlace, sub_queue: str | None) -> list[tuple[str, bool]]:
    """Receive and complete what is in the queues; return the ids, and whether each is as it was sent."""
    found = []
    with place.open(standby=True) as namespace, ServiceBusClient(namespace) as client:
        for queue in QUEUES:
            with client.get_queue_receiver(queue, sub_queue=sub_queue) as receiver:
                empty = 0
                while empty < EMPTY_RECEIVES:
                    messages = receiver.receive_messages(500, max_wait_time=0)
                    found += [(str(message.message_id), is_as_sent(message)) for message in messages]
                    receiver.complete_messages(messages)
                    empty = 0 if messages else empty + 1
    return found


def test_every_acknowledgement_holds_through_faults(place: StoredPlace, tmp_path: Path) -> None:
    """Nothing acknowledged is lost, nothing settled returns, nothing is forged, no lock of an old owner counts."""
    seed, began = f"{SEED} {place.url.partition(':')[0]}", time.monotonic()
    make_queues(place)
    with Cluster(place, seed) as cluster:
        load = Load(cluster.switch.connection_string, tmp_path, seed)
        driver = Driver(cluster, load, seed)
        try:
            load.wait_for_more()
            driver.run(FAULTS)
        except AssertionError as error:
            errors = [member.server.errors[-2000:] for member in cluster.members if member.server is not None]
            pytest.fail("\n".join([f"seed {SEED}, after {driver.steps[-5:]}: {error}", *errors]))
        finally:
            load.stop()
        cluster.owner.send(signal.SIGTERM)
        assert cluster.owner.server is not None
        cluster.owner.server.process.wait(LIVENESS_SECONDS)
    left, dead = drain(place, None), drain(place, "deadletter")
    history, tokens = load.history, driver.tokens
    broken = {**violations(history, left, dead), "accepted": tokens.accepted}
    sys.stdout.write(
        f"{driver.total} faults in {time.monotonic() - began:.0f} s, seed {SEED}, {place.url}: {dict(driver.faults)}\n"
        f"{len(history.sent)} messages acknowledged, {len(history.settled)} settlements confirmed, "
        f"{history.failed} calls failed, {tokens.tried} old locks tried\n"
        f"{ {kind: len(found) for kind, found in broken.items()} }\n"
    )
    assert history.settled
    if any(broken.values()):
        shown = {kind: found[:SHOWN] for kind, found in broken.items() if found}
        pytest.fail(f"seed {SEED}: {shown}; the last steps: {driver.steps[-SHOWN:]}", pytrace=False)
