# SPDX-License-Identifier: Apache-2.0
"""The queues that the suite compares: ours in each place, in this program and behind a server, and three brokers."""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from peers.cluster import ClusterQueue
from peers.contract import BenchQueue, Level, UnavailableError
from peers.line_up import load
from targets import OURS

from stored.places import PLACES, Place, empty_folder
from stored.queues import behind_a_server, in_this_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager


CLUSTERS = (
    ("rabbit_cluster", "RabbitCluster", "RabbitMQ, 3 nodes"),
    ("nats_cluster", "NatsCluster", "NATS JetStream, 3 nodes"),
    ("kafka_cluster", "KafkaCluster", "Kafka, share group, 3 nodes"),
)
"""The module, the class and the name of each: a module is imported only when its turn comes, as a package may be
missing."""


@dataclass(frozen=True)
class Contender:
    """A queue that can be opened fresh, as often as there are figures."""

    name: str
    level: Level
    open: Callable[[], AbstractContextManager[BenchQueue]]
    place: Place | None = None
    """Where ours keeps its messages."""
    is_beside_bare: bool = False
    """Whether its rates are compared with bare creations in the place."""


def name_of(place: Place) -> str:
    """Ours in this program."""
    return f"{OURS}, {place.name}"


def served_name_of(place: Place) -> str:
    """Ours behind its server."""
    return f"{OURS} serve, {place.name}"


@contextlib.contextmanager
def _of_place(place: Place, behind: Callable[..., AbstractContextManager[BenchQueue]]) -> Iterator[BenchQueue]:
    with place.run() as found, behind(found) as queue:
        yield queue


@contextlib.contextmanager
def cluster(module: str, name: str) -> Iterator[ClusterQueue]:
    """A broker of three nodes, in an empty directory."""
    try:
        importlib.import_module(f"peers.{module}")
    except ImportError as error:
        raise UnavailableError(f"{error}; `make bench SUITE=stored` installs the packages") from error
    with empty_folder() as folder:
        kind = load(module, name)
        assert issubclass(kind, ClusterQueue)
        queue = kind(folder, kind.levels[0])
        try:
            yield queue
        finally:
            queue.close()


def contenders() -> Iterator[Contender]:
    """All of them."""
    for place in PLACES:
        run = partial(_of_place, place, in_this_program)
        yield Contender(name_of(place), place.level, run, place, is_beside_bare=place.is_store)
    for place in PLACES:
        yield Contender(served_name_of(place), place.level, partial(_of_place, place, behind_a_server), place)
    for module, name, shown in CLUSTERS:
        level = Level.OS if module == "kafka_cluster" else Level.FSYNC
        yield Contender(shown, level, partial(cluster, module, name))
