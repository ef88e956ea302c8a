# SPDX-License-Identifier: Apache-2.0
"""Who takes part: each peer's module is imported only here, so that one that is missing is a line and not an error."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from cases.case import WrongAnswerError
from durable.contenders import Contender, LineUp, rehearse
from peers.contract import BenchQueue, Level, UnavailableError
from targets import CEILING, OURS

if TYPE_CHECKING:
    from pathlib import Path

PEERS = (
    ("oxbus_queue", "OxbusQueue"),
    ("in_process", "Ceiling"),
    ("in_process", "SimpleQueue"),
    ("in_process", "PeekLock"),
    ("lmdb_queue", "LmdbQueue"),
    ("sqlite_wal", "SqliteQueue"),
    ("persist_queue", "PersistQueue"),
    ("lite_queue", "LiteQueuePeer"),
    ("local_queue", "LocalQueuePeer"),
    ("honker_queue", "HonkerQueue"),
    ("redis_streams", "RedisStreams"),
    ("rabbit_mq", "RabbitMq"),
    ("nats_jetstream", "NatsJetStream"),
    ("kafka_share", "KafkaShareGroup"),
)
ALWAYS = (OURS, CEILING)
WEAKEST_FIRST = (Level.MEMORY, Level.OS, Level.FSYNC)


def weakest(queue: type[BenchQueue]) -> Level:
    """The level at which it promises least, which is where it is quickest."""
    return next(level for level in WEAKEST_FIRST if level in queue.levels)


def line_up(directory: Path, level: Level, only: str = "") -> LineUp:
    """Rehearse everyone, or ours and the peers whose name has `only`.

    In memory means at the weakest level that a peer offers.
    """
    found = LineUp([], {}, {})
    for module, name in PEERS:
        try:
            queue = load(module, name)
        except ImportError as error:
            if only.lower() in module:
                found.unavailable[module] = f"{error}; `make bench-peers` installs the packages"
            continue
        if only.lower() not in queue.name.lower() and queue.name not in ALWAYS:
            continue
        if level is Level.FSYNC and Level.FSYNC not in queue.levels:
            found.unavailable[queue.name] = "it has no level that survives power loss"
            continue
        contender = Contender(queue, Level.FSYNC if level is Level.FSYNC else weakest(queue))
        try:
            found.versions[queue.name] = rehearse(contender, directory)
            found.ready.append(contender)
        except (UnavailableError, WrongAnswerError) as error:
            found.unavailable[queue.name] = str(error)
        except Exception as error:  # noqa: BLE001 -- a peer of another version may fail in any way, and is left out
            found.unavailable[queue.name] = f"{type(error).__name__}: {error}"
    for name, reason in found.unavailable.items():
        print(f"not available here: {name}: {reason}", flush=True)
    return found


def load(module: str, name: str) -> type[BenchQueue]:
    """A contender's class."""
    queue: type[BenchQueue] = getattr(importlib.import_module(f"peers.{module}"), name)
    return queue
