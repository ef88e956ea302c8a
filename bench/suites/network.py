# SPDX-License-Identifier: Apache-2.0
"""`oxbus serve` beside work queues with protocols of their own, and beside the loopback with nothing behind it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from network.measure import SHAPES, one_round
from network.servers import QUEUES
from targets_of_servers import NETWORK_TARGETS
from turns import Group, Turn

from suites.scratch import scratch
from suites.suite import Suite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plan import Plan


def _queues(plan: Plan) -> Iterator[Group]:
    """Everyone in memory."""
    shapes = {case: size for case, size in SHAPES.items() if plan.wants("queues", case)}
    with scratch() as directory:
        group = Group("queues", [])
        group.turns = [Turn(kind.name, partial(one_round, kind, directory, shapes, group, plan)) for kind in QUEUES]
        if shapes:
            yield group


SUITE = Suite(
    name="network",
    text="`oxbus serve` compared with beanstalkd, Redis and a bare loopback",
    rounds=3,
    parts={"queues": _queues},
    targets=NETWORK_TARGETS,
)
