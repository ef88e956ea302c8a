# SPDX-License-Identifier: Apache-2.0
"""Event loops that watch no sockets, as the usual one of Windows: waits work, and leave no thread behind."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, NoReturn

from oxbus import Namespace, ServiceBusMessage
from oxbus.aio import ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient

THREAD = "oxbus-wake-ups"
SECONDS = 30


class LoopWithoutReaders(asyncio.SelectorEventLoop):
    """Refuses to watch sockets, as a proactor loop does."""

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> NoReturn:  # type: ignore[override]
        """Refuse."""
        raise NotImplementedError(fd, callback, args)


def watching() -> int:
    """The threads that watch sockets."""
    return sum(thread.name == THREAD for thread in threading.enumerate())


def test_a_wait_ends_with_a_message_and_a_closed_loop_with_its_thread() -> None:
    """Ten messages, each sent while the receiver waits for it."""
    with Namespace() as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("orders")

        async def work() -> list[str]:
            found = []
            async with ServiceBusClient(namespace) as client:
                sender, receiver = client.get_queue_sender("orders"), client.get_queue_receiver("orders")
                for number in range(10):
                    waiting = asyncio.ensure_future(receiver.receive_messages(max_wait_time=SECONDS))
                    await asyncio.sleep(0.01)
                    await sender.send_messages(ServiceBusMessage(str(number)))
                    for message in await waiting:
                        found.append(str(message))
                        await receiver.complete_message(message)
            assert watching() == 1
            return found

        with asyncio.Runner(loop_factory=LoopWithoutReaders) as runner:
            assert runner.run(work()) == [str(number) for number in range(10)]
    deadline = time.monotonic() + SECONDS
    while watching() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not watching()
