# SPDX-License-Identifier: Apache-2.0
"""Opening one partition of a namespace in a directory for the duration of a task."""

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
    """Open a namespace with one partition, waiting until no other process owns it.

    Raises:
        NamespaceInUseError: Another process has owned the partition for `wait_time` seconds.
    """
    deadline = time.monotonic() + wait_time
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            # Bodies stay on disk: a task reads each at most once.
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
        # A snapshot of the whole partition per task would cost more than the task's rows.
        namespace._close_as_it_is()


def check_namespace(path: str) -> None:
    """Reject a directory that is not a namespace.

    Raises:
        FileNotFoundError: It is not a namespace, or has lost its catalog; tasks create no namespace.
    """
    if Path(path, CATALOG).exists():
        return
    if has_messages(Path(path)):
        advice = f"restore it from a copy, or copy the messages out by `oxbus salvage {path}`"
        raise FileNotFoundError(f"the catalog of the namespace is missing; {advice}: `{path}`")
    raise FileNotFoundError(f"the directory is not a namespace; create it with oxbus.Namespace first: `{path}`")


def shards_of(path: str, entity_path: str) -> tuple[int, ...]:
    """Return the namespace partitions of an entity's partitions: a single one for an entity without partitioning.

    Raises:
        FileNotFoundError: The directory is not a namespace.
        MessagingEntityNotFoundError: The namespace has no such entity.
    """
    check_namespace(path)
    return tuple(_shards_of(path, entity_path))
