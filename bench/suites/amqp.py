# SPDX-License-Identifier: Apache-2.0
"""`oxbus serve` beside other brokers that speak AMQP 1.0, with the same clients; how soon it is ready."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from amqp.brokers import BROKERS
from amqp.measure import cases_of, one_round
from amqp.start import one_start
from durable import disk
from peers.contract import Level
from targets import OURS
from targets_of_servers import AMQP_TARGETS
from turns import Found, Group, Turn

from suites.scratch import scratch
from suites.suite import Suite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plan import Plan

STARTS = 20
START = "amqp_start/0B/serve"


def _brokers(level: Level, plan: Plan) -> Iterator[Group]:
    """All brokers at a level."""
    if not any(plan.wants(level.value, case) for case in cases_of(level)):
        return
    with scratch() as directory:
        group = Group(level.value, [], disk=disk.figures(directory, plan) if level is Level.FSYNC else {})
        group.turns = [Turn(kind.name, partial(one_round, kind, directory, level, group, plan)) for kind in BROKERS]
        yield group


def _start(plan: Plan) -> Iterator[Group]:
    """From the start of a process until it prints where it listens."""

    def starts() -> Iterator[Found]:
        for _ in range(plan.of(STARTS)):
            yield Found(START, OURS, one_start())

    if plan.wants("start", START):
        yield Group("start", [Turn(OURS, starts, warm_up=one_start)], 1)


SUITE = Suite(
    name="amqp",
    text="`oxbus serve` compared with RabbitMQ 4 and ActiveMQ Artemis",
    rounds=3,
    parts={**{level.value: partial(_brokers, level) for level in (Level.MEMORY, Level.FSYNC)}, "start": _start},
    targets=AMQP_TARGETS,
)
