# SPDX-License-Identifier: Apache-2.0
"""One client's share of a round: every shape in turn, on a server of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import go_client
from amqp.brokers import Oxbus
from metrics import RATE
from peers.contract import Level
from targets import AZURE, OURS
from turns import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plan import Plan
    from turns import Group

SHAPES = {"single": (3_000, 1_000), "lists": (60_000, 4_000), "tasks": (12_000, 2_000), "latency": (1_000, 500)}
"""Messages of each shape: of oxbus, and of the SDK, which takes longer for each."""
ARROW_ROWS = 400_000
PROGRAM = Path(__file__).with_name("programs.py")
MODULES = {OURS: "oxbus", AZURE: "azure-servicebus"}
LEAST = 100


def case_of(shape: str) -> str:
    """The id of a shape."""
    return f"client_{shape}/1KiB/memory"


CASES = [case_of(shape) for shape in (*SHAPES, "arrow")]


def one_round(contender: str, group: Group, plan: Plan) -> Iterator[Found]:
    """Results of each case."""
    module = MODULES[contender]
    group.versions[contender] = version(module)
    with tempfile.TemporaryDirectory() as folder:
        server = Oxbus(Path(folder), Level.MEMORY)
        try:
            for shape, (ours, theirs) in SHAPES.items():
                if plan.wants("clients", case_of(shape)):
                    yield _run(contender, server, shape, plan.of(ours if contender == OURS else theirs, LEAST))
            if contender == OURS and plan.wants("clients", case_of("arrow")):
                yield _run(contender, server, "arrow", plan.of(ARROW_ROWS, LEAST))
        finally:
            server.close()


def _run(contender: str, server: Oxbus, shape: str, count: int) -> Found:
    name = "oxbus" if contender == OURS else "azure"
    before, client_before = go_client.server_seconds(server.pid), go_client.children_seconds()
    command = [sys.executable, str(PROGRAM), name, shape, server.connection_string, str(count)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    if shape == "latency":
        return Found(case_of(shape), contender, samples=answer)
    spent = go_client.children_seconds() - client_before
    shares = go_client.shares(go_client.server_seconds(server.pid) - before, spent, count)
    return Found(case_of(shape), contender, {RATE: answer, **shares})
