# SPDX-License-Identifier: Apache-2.0
"""Messages that wait for their time: scheduling them, letting them become due, receiving them; few and very many."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from bodies import bodies_of
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import ManualClock
from plan import WHOLE, Plan
from targets import FEW_SCHEDULED

from cases.bus import BATCH, QUEUE, Bus, drain, hundreds
from cases.case import Case, expect
from cases.peer_queues import ceiling_cycle

FEW, MANY = 10_000, 1_000_000
STEP = timedelta(seconds=1)
"""A hundred messages come due each second."""


def _open(bodies: list[bytes]) -> Bus:
    clock = ManualClock()
    namespace = Namespace(clock=clock)
    admin, client = ServiceBusAdministrationClient(namespace), ServiceBusClient(namespace)
    admin.create_queue(QUEUE, enable_partitioning=True)
    return Bus(
        namespace, client, client.get_queue_sender(QUEUE), client.get_queue_receiver(QUEUE), admin, bodies, clock
    )


def _schedule_and_drain(bus: Bus) -> int:
    clock = bus.prepared
    start = clock.now()
    schedule = bus.sender.schedule_messages
    lists = hundreds(bus.bodies)
    for number, bodies in enumerate(lists):
        # Not in the order of their times: 7919 is prime to the number of lists.
        due = start + STEP * (1 + number * 7919 % len(lists))
        schedule([ServiceBusMessage(body) for body in bodies], due)
    count = 0
    for _ in lists:
        clock.advance(STEP.total_seconds())
        count += drain(bus.receiver, BATCH, bus.body_bytes)
    return count


def _check(bus: Bus, count: int) -> None:
    expect("messages", count, len(bus.bodies))


def cases(plan: Plan = WHOLE) -> list[Case]:
    """A million messages, and ten thousand beside them: the cost of one is to be the same."""
    found = []
    messages = plan.of(MANY, BATCH)
    for contender, count in (("oxbus", messages), (FEW_SCHEDULED, plan.of(FEW, BATCH))):
        bodies = bodies_of(100, count)
        found.append(
            Case(
                "schedule_receive/100B/batch_100",
                contender,
                count,
                partial(_open, bodies),
                _schedule_and_drain,
                _check,
                Bus.close,
            )
        )
    return [*found, *ceiling_cycle("schedule_receive/100B/batch_100", bodies_of(100, messages), BATCH)]
