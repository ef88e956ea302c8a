# SPDX-License-Identifier: Apache-2.0
"""A peer as three nodes on this machine, of which the one that leads the queue can be killed."""

from __future__ import annotations

from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

from peers.contract import BenchQueue

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    class Stoppable(Protocol):
        """What can be stopped."""

        def stop(self) -> None:
            """Stop it."""

    Node = TypeVar("Node", bound=Stoppable)

NODES = 3


class ClusterQueue(BenchQueue):
    """A queue with a copy on each of three nodes. A client's thread is connected to the node that leads."""

    @abstractmethod
    def kill_leader(self) -> float:
        """Kill the node that leads the queue, with SIGKILL; return the moment."""

    @abstractmethod
    def send_once(self, body: bytes) -> None:
        """Send a message with a short patience; raise any exception if it is not acknowledged."""

    @abstractmethod
    def reconnect(self) -> None:
        """Connect the calling thread again, to a node that lives; raise any exception if there is none yet."""


def start_nodes(directory: Path, start: Callable[[int, Path], Node]) -> list[Node]:
    """Start the nodes at once, each in a directory of its own. If one does not start, none goes on."""

    def start_one(number: int) -> Node:
        folder = directory / f"node{number + 1}"
        folder.mkdir(exist_ok=True)
        return start(number, folder)

    with ThreadPoolExecutor(NODES) as pool:
        starting = [pool.submit(start_one, number) for number in range(NODES)]
    failed = [error for one in starting if (error := one.exception()) is not None]
    if failed:
        for one in starting:
            if one.exception() is None:
                one.result().stop()
        raise failed[0]
    return [one.result() for one in starting]
