# SPDX-License-Identifier: Apache-2.0
"""Our client for Python beside azure-servicebus, go-amqp and qpid-proton, on the same server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from client.measure import CASES, CLIENTS, one_round
from targets_of_servers import CLIENT_TARGETS
from turns import Group, Turn

from suites.suite import Suite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plan import Plan


def _clients(plan: Plan) -> Iterator[Group]:
    """All clients, each with a server of its own."""
    if any(plan.wants("clients", case) for case in CASES):
        group = Group("clients", [])
        group.turns = [Turn(contender, partial(one_round, contender, group, plan)) for contender in CLIENTS]
        yield group


SUITE = Suite(
    name="client",
    text="the client for messages compared with azure-servicebus, go-amqp and qpid-proton, over a network",
    rounds=3,
    parts={"clients": _clients},
    targets=CLIENT_TARGETS,
)
