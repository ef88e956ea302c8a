# SPDX-License-Identifier: Apache-2.0
"""One broker's share of a round: it is started on an empty directory, warmed up, and does every shape in turn.

Ids read `operation/payload/level_how`. `confirmed`: the client settles and waits for the broker's confirmation;
`told`: it only settles, which is all that some brokers can. The number of messages depends on the broker's speed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import go_client
from metrics import P50, P99, RATE
from peers.contract import Level
from turns import Figures, Found

from amqp import compiled
from amqp.brokers import Oxbus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plan import Plan
    from turns import Group

    from amqp.brokers import Broker

LATENCIES = (P50, P99)
WARM_UP = 20_000
"""Messages before the first that is timed: brokers in Java or Erlang compile code while it runs."""
SECONDS = 2.0
LEAST, MOST = 10_000, 200_000
PINGS = 3_000
CONNECTIONS = 1_000
IDLE = f"amqp_idle/0B/{CONNECTIONS}_connections"
PYTHON_CLIENTS = {"proton": 20_000, "azure": 3_000}
PYTHON_SCRIPT = Path(__file__).with_name("python_clients.py")
PACES = {Level.MEMORY: 5_000, Level.FSYNC: 1_000}
"""Messages per second, few enough for each broker, so that no backlog adds to the latency."""
PACED_SECONDS = 3
LINKS = 1
WINDOW = 64
AHEAD = 1_000
"""The client's options: connections of each direction, unanswered sends of one, messages sent but not received."""


def can_confirm(broker: Broker) -> bool:
    """Whether the broker confirms settlements to this client."""
    try:
        compiled.run(broker.endpoint, "through", count=100)
    except RuntimeError as error:
        if "settle" in str(error):
            return False
        raise
    return True


def one_round(kind: type[Broker], directory: Path, level: Level, group: Group, plan: Plan) -> Iterator[Found]:
    """Results of each case; the version goes to the group."""
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        broker = kind(Path(folder), level)
        group.versions[kind.name] = broker.version
        try:
            for case, figures in _cases(broker, level, plan):
                yield Found(case, kind.name, figures, level.value)
        finally:
            broker.close()


def cases_of(level: Level) -> list[str]:
    """Every case that some broker does at a level."""
    cycles = [f"amqp_cycle/1KiB/{level}_{how}" for how in ("told", "confirmed")]
    others = [f"amqp_{operation}/1KiB/{level}" for operation in ("paced", "ping")]
    clients = [f"amqp_cycle/1KiB/{level}_{client}" for client in PYTHON_CLIENTS]
    return [*cycles, *others, *([IDLE, *clients] if level is Level.MEMORY else [])]


def _cases(broker: Broker, level: Level, plan: Plan) -> Iterator[tuple[str, Figures]]:
    def wants(case: str) -> bool:
        return plan.wants(level.value, case)

    keep = {"durable": json.dumps(level is Level.FSYNC)}
    warm = compiled.run(broker.endpoint, "through", count=plan.of(WARM_UP, AHEAD), told="true", **keep)
    most, least = plan.of(MOST), plan.of(LEAST)
    count = int(min(most, max(least, warm[RATE] * SECONDS * plan.scale)))
    confirms = can_confirm(broker)
    for how, told in (("told", True), ("confirmed", False)):
        if wants(case := f"amqp_cycle/1KiB/{level}_{how}") and (told or confirms):
            yield case, _through(broker, count, told=json.dumps(told), **keep)
    keep["told"] = json.dumps(not confirms)
    if wants(case := f"amqp_paced/1KiB/{level}"):
        pace = PACES[level]
        paced = compiled.run(broker.endpoint, "through", count=plan.of(pace * PACED_SECONDS), rate=pace, **keep)
        yield case, {name: paced[name] for name in LATENCIES}
    if wants(case := f"amqp_ping/1KiB/{level}"):
        pinged = compiled.run(broker.endpoint, "ping", count=plan.of(PINGS), **keep)
        yield case, {name: pinged[name] for name in LATENCIES}
    if level is Level.MEMORY and wants(IDLE):
        yield IDLE, _idle(broker, plan.of(CONNECTIONS))
    if level is Level.MEMORY and isinstance(broker, Oxbus):
        for client, messages in PYTHON_CLIENTS.items():
            if wants(case := f"amqp_cycle/1KiB/{level}_{client}"):
                yield case, _python(broker, client, plan.of(messages))


def _through(broker: Broker, count: int, **options: str) -> Figures:
    before = go_client.server_seconds(broker.pid)
    answer = compiled.run(broker.endpoint, "through", count=count, **options, links=LINKS, window=WINDOW, ahead=AHEAD)
    return {
        **{name: answer[name] for name in (RATE, *LATENCIES)},
        **go_client.shares(go_client.server_seconds(broker.pid) - before, answer["client_cpu_s"], count),
    }


def _idle(broker: Broker, connections: int) -> Figures:
    before = go_client.server_bytes(broker.pid)
    with compiled.idle(broker.endpoint, connections, told="true"):
        return {"resident_mib": (go_client.server_bytes(broker.pid) - before) / 2**20}


def _python(broker: Broker, client: str, count: int) -> Figures:
    before, client_before = go_client.server_seconds(broker.pid), go_client.children_seconds()
    command = [sys.executable, str(PYTHON_SCRIPT), client, json.dumps(asdict(broker.endpoint)), str(count)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    server, spent = go_client.server_seconds(broker.pid) - before, go_client.children_seconds() - client_before
    return {RATE: answer[RATE], **go_client.shares(server, spent, count)}
