# SPDX-License-Identifier: Apache-2.0
"""One broker's share of a round: it is started on an empty directory, warmed up, and does every shape in turn.

Ids read `operation/payload/level_how`. `confirmed`: the client settles and waits for the broker to say that it knows;
`told`: it only settles, which is all that some brokers can. How many messages go through follows from how quick it is.
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
from peers.contract import Level

from amqp import compiled
from amqp.brokers import Oxbus

if TYPE_CHECKING:
    from amqp.brokers import Broker

Figures = dict[str, float]

LATENCIES = ("latency_us_p50", "latency_us_p99")
WARM_UP = 20_000
"""Messages before the first that is timed: the brokers on virtual machines compile what runs often."""
SECONDS = 2.0
LEAST, MOST = 10_000, 200_000
PINGS = 3_000
CONNECTIONS = 1_000
PYTHON_CLIENTS = {"proton": 20_000, "azure": 3_000}
PYTHON_SCRIPT = Path(__file__).with_name("python_clients.py")
PACES = {Level.MEMORY: 5_000, Level.FSYNC: 1_000}
"""Messages per second that each broker can do, so that what is measured is not its backlog."""
PACED_SECONDS = 3
LINKS = 1
WINDOW = 64
AHEAD = 1_000


def can_confirm(broker: Broker) -> bool:
    """Whether it confirms settlements to this client."""
    try:
        compiled.run(broker.endpoint, "through", count=100)
    except RuntimeError as error:
        if "settle" in str(error):
            return False
        raise
    return True


def one_round(kind: type[Broker], place: Path, *, level: Level, extras: bool) -> tuple[dict[str, Figures], str]:
    """Figures by bench id, and the version; `extras` are what does not depend on the level."""
    found: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory(dir=place) as folder:
        broker = kind(Path(folder), level)
        try:
            keep = {"durable": json.dumps(level is Level.FSYNC)}
            warm = compiled.run(broker.endpoint, "through", count=WARM_UP, told="true", **keep)
            count = int(min(MOST, max(LEAST, warm["throughput_msg_per_s"] * SECONDS)))
            found[f"amqp_cycle/1KiB/{level}_told"] = _through(broker, count, told="true", **keep)
            confirms = can_confirm(broker)
            if confirms:
                found[f"amqp_cycle/1KiB/{level}_confirmed"] = _through(broker, count, told="false", **keep)
            pace = PACES[level]
            paced = compiled.run(
                broker.endpoint, "through", count=pace * PACED_SECONDS, rate=pace, told=json.dumps(not confirms), **keep
            )
            found[f"amqp_paced/1KiB/{level}"] = {name: paced[name] for name in LATENCIES}
            pinged = compiled.run(broker.endpoint, "ping", count=PINGS, told=json.dumps(not confirms), **keep)
            found[f"amqp_ping/1KiB/{level}"] = {name: pinged[name] for name in LATENCIES}
            if extras:
                found[f"amqp_idle/0B/{CONNECTIONS}_connections"] = _idle(broker)
            if extras and isinstance(broker, Oxbus):
                for client, messages in PYTHON_CLIENTS.items():
                    found[f"amqp_cycle/1KiB/{level}_{client}"] = _python(broker, client, messages)
            return found, broker.version
        finally:
            broker.close()


def _through(broker: Broker, count: int, **options: str) -> Figures:
    before = go_client.server_seconds(broker.pid)
    answer = compiled.run(broker.endpoint, "through", count=count, **options, links=LINKS, window=WINDOW, ahead=AHEAD)
    return {
        **{name: answer[name] for name in ("throughput_msg_per_s", *LATENCIES)},
        **go_client.shares(go_client.server_seconds(broker.pid) - before, answer["client_cpu_s"], count),
    }


def _idle(broker: Broker) -> Figures:
    before = go_client.server_bytes(broker.pid)
    with compiled.idle(broker.endpoint, CONNECTIONS, told="true"):
        return {"resident_mib": (go_client.server_bytes(broker.pid) - before) / 2**20}


def _python(broker: Broker, client: str, count: int) -> Figures:
    before, client_before = go_client.server_seconds(broker.pid), go_client.children_seconds()
    command = [sys.executable, str(PYTHON_SCRIPT), client, json.dumps(asdict(broker.endpoint)), str(count)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    server, spent = go_client.server_seconds(broker.pid) - before, go_client.children_seconds() - client_before
    return {"throughput_msg_per_s": answer["throughput_msg_per_s"], **go_client.shares(server, spent, count)}
