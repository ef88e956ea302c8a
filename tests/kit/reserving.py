# SPDX-License-Identifier: Apache-2.0
"""A consumer that reserves messages, driven by a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oxbus import Namespace

LOCK_SECONDS = 60.0
COUNTER_BITS = 48


def numbers_of(plan: dict[str, Any]) -> list[int]:
    """The sequence numbers of a plan."""
    runs = (run for part in plan["partitions"] for run in part["ranges"])
    return [number for low, high in runs for number in range(low, high + 1)]


def partition_of(number: int) -> int:
    """The partition of a sequence number."""
    return number >> COUNTER_BITS


class Consumer:
    """A program that acquired a consumer; a new one with the same name fences it."""

    def __init__(self, namespace: Namespace, entity: str, name: str = "c", start: str = "earliest") -> None:
        self.handle = namespace._reservations(entity)
        self.name = name
        acquired = self.handle.acquire(name, start)
        self.epoch, self.done = acquired["epoch"], acquired["done"]

    def reserve(
        self,
        n: int,
        messages: int = 1000,
        *,
        size: int = 1 << 30,
        lock: float = LOCK_SECONDS,
        wait: float = 0.0,
        upto: list[int] | None = None,
        sessions: int | None = None,
    ) -> dict[str, Any]:
        """Reserve messages under a number."""
        return self.handle.reserve(
            self.name,
            self.epoch,
            n,
            max_messages=messages,
            max_bytes=size,
            lock_duration=lock,
            max_wait_time=wait,
            upto=upto,
            max_sessions=sessions,
        )

    def plan(self, n: int, lock: float = LOCK_SECONDS) -> dict[str, Any]:
        """Return the plan of a number."""
        return self.handle.plan(self.name, self.epoch, n, lock_duration=lock)

    def renew(self, lock: float = LOCK_SECONDS) -> None:
        """Renew all reservations."""
        self.handle.renew(self.name, self.epoch, lock_duration=lock)

    def complete(self, n: int) -> tuple[int, int]:
        """Complete up to a number; return the number of completed messages and of those that others got."""
        done = self.handle.complete(self.name, self.epoch, n)
        return done["completed"], done["late"]

    def sessions(self, plan: dict[str, Any], **options: Any) -> dict[str, bytes | None]:
        """The sessions of a plan and their states."""
        found: dict[str, bytes | None] = {}
        for part in plan["partitions"]:
            found.update(self.handle.reserved_sessions(plan["id"], self.epoch, part["partition"], **options))
        return found

    def settle(self, plan: dict[str, Any], numbers: list[int], outcome: str, **why: Any) -> int:
        """Settle single messages."""
        return self.handle.settle_reserved(plan["id"], self.epoch, numbers, outcome, **why)

    def read(self, plan: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
        """Read all messages of a plan, page by page; needs pyarrow."""
        import pyarrow as pa  # noqa: PLC0415 -- most tests do without

        rows: list[dict[str, Any]] = []
        for part in plan["partitions"]:
            high = part["ranges"][-1][1]
            low: int | None = part["ranges"][0][0]
            while low is not None:
                page, low = self.handle.read(plan["id"], self.epoch, part["partition"], low, high, **options)
                table = pa.table(page)
                assert table.num_rows > 0 or low is None, "a page that is not the last one has a message"
                rows += table.to_pylist()
        return rows

    def bodies(self, plan: dict[str, Any]) -> list[str]:
        """The bodies of all messages of a plan, sorted."""
        return sorted(row["body"].decode() for row in self.read(plan))

    def listed(self) -> list[tuple[str, int, int, str]]:
        """Consumer, number, messages and state of all reservations of the entity."""
        shown = ("consumer", "n", "messages", "state")
        return [tuple(info[name] for name in shown) for info in self.handle.reservations()]


def names(count: int, first: int = 0) -> list[str]:
    """The bodies of the given number of messages."""
    return [f"{number:04}" for number in range(first, first + count)]
