# SPDX-License-Identifier: Apache-2.0
"""One client's share of a round: every shape in turn, on a server of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import go_client
from amqp import compiled
from amqp.brokers import Oxbus
from metrics import RATE
from peers.contract import Level
from targets import AZURE, GO, OURS, PROTON
from turns import Found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from plan import Plan
    from turns import Group

SHAPES = {"single": (3_000, 1_000), "lists": (60_000, 4_000), "tasks": (12_000, 2_000), "latency": (1_000, 500)}
"""Messages of each shape: of oxbus, and of the SDK, which takes longer for each."""
ARROW_ROWS = 400_000
PROGRAM = Path(__file__).with_name("programs.py")
MODULES = {OURS: "oxbus", AZURE: "azure-servicebus"}
CLIENTS = (OURS, AZURE, GO, PROTON)
LEAST = 100
LIST = 100
OTHERS = {GO: {"single": (20_000, 1), "lists": (100_000, LIST)}, PROTON: {"lists": (20_000, LIST)}}
"""Messages of each shape of clients in other languages, and how many are on their way at once: they have no lists."""
GO_MODULE = "github.com/Azure/go-amqp"
PROTON_PROGRAM = Path(__file__).parents[1] / "amqp" / "python_clients.py"


def case_of(shape: str) -> str:
    """The id of a shape."""
    return f"client_{shape}/1KiB/memory"


CASES = [case_of(shape) for shape in (*SHAPES, "arrow")]


def one_round(contender: str, group: Group, plan: Plan) -> Iterator[Found]:
    """Results of each case."""
    group.versions[contender] = go_client.version_of(GO_MODULE) if contender == GO else version(_package(contender))
    with tempfile.TemporaryDirectory() as folder:
        server = Oxbus(Path(folder), Level.MEMORY)
        try:
            if contender not in MODULES:
                yield from _others(contender, server, plan)
                return
            for shape, (ours, theirs) in SHAPES.items():
                if plan.wants("clients", case_of(shape)):
                    yield _run(contender, server, shape, plan.of(ours if contender == OURS else theirs, LEAST))
            if contender == OURS and plan.wants("clients", case_of("arrow")):
                yield _run(contender, server, "arrow", plan.of(ARROW_ROWS, LEAST))
        finally:
            server.close()


def _package(contender: str) -> str:
    return "python-qpid-proton" if contender == PROTON else MODULES[contender]


def _others(contender: str, server: Oxbus, plan: Plan) -> Iterator[Found]:
    """Clients that know AMQP only, with the same server and the same confirmations."""
    for shape, (wanted, window) in OTHERS[contender].items():
        case, count = case_of(shape), plan.of(wanted, LEAST)
        if plan.wants("clients", case):
            run = partial(_go if contender == GO else _proton, server, count, window)
            answer, shares = _with_shares(server, count, run)
            yield Found(case, contender, {RATE: answer[RATE], **shares})


def _go(server: Oxbus, count: int, window: int) -> Any:
    options = {"told": "false", "durable": "false", "links": 1, "window": window, "ahead": window}
    return compiled.run(server.endpoint, "through", count=count, **options)


def _proton(server: Oxbus, count: int, _window: int) -> Any:
    return _python(PROTON_PROGRAM, "proton", json.dumps(asdict(server.endpoint)), str(count))


def _run(contender: str, server: Oxbus, shape: str, count: int) -> Found:
    name = "oxbus" if contender == OURS else "azure"
    run = partial(_python, PROGRAM, name, shape, server.connection_string, str(count))
    answer, shares = _with_shares(server, count, run)
    if shape == "latency":
        return Found(case_of(shape), contender, samples=answer)
    return Found(case_of(shape), contender, {RATE: answer, **shares})


def _python(program: Path, *arguments: str) -> Any:
    """The last line that a program prints, read as JSON."""
    done = subprocess.run([sys.executable, str(program), *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _with_shares(server: Oxbus, count: int, run: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What a client prints, and the processor time of both sides for each message."""
    before, client_before = go_client.server_seconds(server.pid), go_client.children_seconds()
    answer = run()
    spent = go_client.children_seconds() - client_before
    return answer, go_client.shares(go_client.server_seconds(server.pid) - before, spent, count)
