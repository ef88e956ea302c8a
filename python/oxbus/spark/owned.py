# SPDX-License-Identifier: Apache-2.0
"""A namespace in a directory, opened by a task for as long as it needs one of its partitions."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import oxbus
from oxbus._namespace_files import CATALOG, has_messages
from oxbus._oxbus import _shards_of
from oxbus.exceptions import NamespaceInUseError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.5


@contextlib.contextmanager
def owned_partition(
    path: str, partition: int, wait_time: float, durability: Literal["fsync", "os"] | None = None
) -> Iterator[oxbus.Namespace]:
    """Open a namespace with one partition, once nobody else has that.

    Raises:
        NamespaceInUseError: Another process has had the partition for `wait_time` seconds.
    """
    deadline = time.monotonic() + wait_time
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            # Messages stay on disk: a task reads each once, on its way out, or none.
            namespace = oxbus.Namespace._own(path, partition, durability)
            break
        except NamespaceInUseError:
            if time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    try:
        yield namespace
    finally:
        # A snapshot of all that is there, for each task that adds a little, would cost more than the rows do.
        namespace._close_as_it_is()


def check_namespace(path: str) -> None:
    """Refuse a directory that is no namespace.

    Raises:
        FileNotFoundError: It is none, or has lost its catalog; tasks make none.
    """
    if Path(path, CATALOG).exists():
        return
    if has_messages(Path(path)):
        advice = f"restore it from a copy, or copy the messages out by `oxbus salvage {path}`"
        raise FileNotFoundError(f"the catalog of the namespace is missing; {advice}: `{path}`")
    raise FileNotFoundError(f"the directory is no namespace; create it with oxbus.Namespace first: `{path}`")


def shards_of(path: str, entity_path: str) -> tuple[int, ...]:
    """Return the partitions of the namespace that the partitions of an entity are in: one, if it is not partitioned.

    Raises:
        FileNotFoundError: The directory is no namespace.
        MessagingEntityNotFoundError: The namespace has no such entity.
    """
    check_namespace(path)
    return tuple(_shards_of(path, entity_path))
