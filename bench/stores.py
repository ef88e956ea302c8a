# SPDX-License-Identifier: Apache-2.0
"""How fast a namespace in a store is, beside one in a directory: `python bench/stores.py`.

Every message is made in the loop, every body is read, and every settlement is confirmed. The bare creation of an object
of the same size, in the same run, shows what the store takes.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/stored/kit"))

import engines
from stored_server import StoredPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BODY = bytes(range(256)) * 4
LIST = 100


@contextlib.contextmanager
def directory() -> Iterator[StoredPlace]:
    """A directory on the disk."""
    with tempfile.TemporaryDirectory(prefix="oxbus-bench-", dir=Path.home()) as path:
        yield StoredPlace(f"{path}/bus")


PLACES: dict[str, Callable[[], contextlib.AbstractContextManager[StoredPlace]]] = {
    "directory, fsync": directory,
    "PostgreSQL": engines.ENGINES["postgres"].run,
    "Azurite": engines.ENGINES["azurite"].run,
}


def open_at(place: StoredPlace) -> Namespace:
    """Open the namespace of a place."""
    options = place.options if "://" in place.url else None
    return Namespace(place.url, partitions=4, storage_options=options)


def one_at_a_time(client: ServiceBusClient, seconds: float) -> tuple[float, float]:
    """Median and 99th percentile of a send, in milliseconds."""
    took = []
    with client.get_queue_sender("q") as sender:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.perf_counter()
            sender.send_messages(ServiceBusMessage(BODY))
            took.append((time.perf_counter() - began) * 1e3)
    cuts = statistics.quantiles(took, n=100)
    return cuts[49], cuts[98]


def in_lists(client: ServiceBusClient, threads: int, seconds: float) -> float:
    """Messages sent per second, in lists of 100."""
    counts = [0] * threads

    def send(thread: int) -> None:
        with client.get_queue_sender("q") as sender:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                sender.send_messages([ServiceBusMessage(BODY) for _ in range(LIST)])
                counts[thread] += LIST

    return _rate(send, threads, counts)


def received(client: ServiceBusClient, threads: int, seconds: float) -> float:
    """Messages received, read and completed per second, in lists of 100."""
    counts = [0] * threads

    def receive(thread: int) -> None:
        with client.get_queue_receiver("q") as receiver:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                messages = receiver.receive_messages(LIST, max_wait_time=0)
                if not messages:
                    return
                assert all(len(bytes(message)) == len(BODY) for message in messages)
                receiver.complete_messages(messages)
                counts[thread] += len(messages)

    return _rate(receive, threads, counts)


def _rate(work: Callable[[int], None], threads: int, counts: list[int]) -> float:
    running = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    began = time.perf_counter()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(counts) / (time.perf_counter() - began)


@contextlib.contextmanager
def _client(place: StoredPlace) -> Iterator[ServiceBusClient]:
    with open_at(place) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
        with ServiceBusClient(namespace) as client:
            yield client


def of_single_sends(place: StoredPlace, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The time of a send."""
    with _client(place) as client:
        half, most = one_at_a_time(client, options.seconds)
        yield "one send, p50 / p99, ms", f"{half:.2f} / {most:.2f}"


def of_lists(place: StoredPlace, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Messages per second in lists."""
    with _client(place) as client:
        for threads in (1, 4):
            yield f"lists of 100, {threads} threads, messages/s", f"{in_lists(client, threads, options.seconds):,.0f}"
        yield "received and completed, 4 threads, messages/s", f"{received(client, 4, options.seconds):,.0f}"


def of_opening(place: StoredPlace, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """How long an open takes."""
    with _client(place) as client, client.get_queue_sender("q") as sender:
        for _ in range(options.stored // 1000):
            sender.send_messages([ServiceBusMessage(BODY) for _ in range(1000)])
    began = time.perf_counter()
    with open_at(place):
        yield f"open with {options.stored:,} messages, s", f"{time.perf_counter() - began:.2f}"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--stored", type=int, default=100_000)
    parser.add_argument("--place", choices=PLACES, action="append")
    options = parser.parse_args()
    for name in options.place or PLACES:
        # Each in a new place: some stores become slow with what they hold.
        for measure in (of_single_sends, of_lists, of_opening):
            with PLACES[name]() as place:
                for what, figure in measure(place, options):
                    print(f"{name} | {what} | {figure}", flush=True)


if __name__ == "__main__":
    main()
