# SPDX-License-Identifier: Apache-2.0
"""One measurement of one client, a program of its own, so that its processor time is measured apart from the server's.

    python bench/client/programs.py oxbus single 'Endpoint=sb://…' 2000

Message objects are made in the loop, each body is read as bytes, and each settlement is confirmed before the next step.
Prints a line of JSON with the rate, and with the latencies of `latency`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import threading
import time
from typing import Any

QUEUE = "bench"
BODY = b"0123456789abcdef" * 64
LIST = 100
ROWS = 4096
TASKS = 64
WAIT_SECONDS = 30


def _module(client: str) -> Any:
    return importlib.import_module("oxbus" if client == "oxbus" else "azure.servicebus")


def _complete(client: str, receiver: Any, messages: list[Any]) -> None:
    if client == "oxbus":
        receiver.complete_messages(messages)
        return
    for message in messages:
        receiver.complete_message(message)


def single(client: str, string: str, count: int) -> float:
    """One message at a time: send, receive, read, complete."""
    module = _module(client)
    with (
        module.ServiceBusClient.from_connection_string(string) as opened,
        opened.get_queue_sender(QUEUE) as sender,
        opened.get_queue_receiver(QUEUE) as receiver,
    ):

        def cycle() -> None:
            sender.send_messages(module.ServiceBusMessage(BODY))
            (message,) = receiver.receive_messages(max_message_count=1, max_wait_time=WAIT_SECONDS)
            if b"".join(message.body) != BODY:
                raise SystemExit("a body came back changed")
            receiver.complete_message(message)

        cycle()
        began = time.perf_counter()
        for _ in range(count):
            cycle()
        return count / (time.perf_counter() - began)


def lists(client: str, string: str, count: int) -> float:
    """Lists of 100: send, receive up to 100, read, complete all."""
    module = _module(client)
    with (
        module.ServiceBusClient.from_connection_string(string) as opened,
        opened.get_queue_sender(QUEUE) as sender,
        opened.get_queue_receiver(QUEUE) as receiver,
    ):
        began, done = time.perf_counter(), 0
        while done < count:
            sender.send_messages([module.ServiceBusMessage(BODY) for _ in range(LIST)])
            left = LIST
            while left:
                messages = receiver.receive_messages(max_message_count=left, max_wait_time=WAIT_SECONDS)
                for message in messages:
                    if b"".join(message.body) != BODY:
                        raise SystemExit("a body came back changed")
                _complete(client, receiver, messages)
                left -= len(messages)
            done += LIST
        return done / (time.perf_counter() - began)


def tasks(client: str, string: str, count: int) -> float:
    """64 receivers of one event loop receive and complete one message at a time; the queue is filled before."""
    module = _module(client)
    with module.ServiceBusClient.from_connection_string(string) as opened, opened.get_queue_sender(QUEUE) as sender:
        for _ in range(0, count, LIST):
            sender.send_messages([module.ServiceBusMessage(BODY) for _ in range(LIST)])
    aio = importlib.import_module(f"{module.__name__}.aio")

    async def main() -> float:
        left = count
        async with aio.ServiceBusClient.from_connection_string(string) as opened:
            receivers = [opened.get_queue_receiver(QUEUE) for _ in range(TASKS)]

            async def work(receiver: Any) -> None:
                nonlocal left
                while left > 0:
                    for message in await receiver.receive_messages(max_message_count=1, max_wait_time=1):
                        if b"".join(message.body) != BODY:
                            raise SystemExit("a body came back changed")
                        await receiver.complete_message(message)
                        left -= 1

            await asyncio.gather(*(receiver.__aenter__() for receiver in receivers))
            began = time.perf_counter()
            await asyncio.gather(*map(work, receivers))
            return count / (time.perf_counter() - began)

    return asyncio.run(main())


def arrow(client: str, string: str, count: int) -> float:
    """Tables: send, receive, settle."""
    import pyarrow as pa  # noqa: PLC0415 -- only here

    module = _module(client)
    table = pa.table({"body": pa.array([BODY] * ROWS, pa.binary())})
    with (
        module.ServiceBusClient.from_connection_string(string) as opened,
        opened.get_queue_sender(QUEUE) as sender,
        opened.get_queue_receiver(QUEUE) as receiver,
    ):
        began, done = time.perf_counter(), 0
        while done < count:
            sender.send_arrow(table)
            left = ROWS
            while left:
                received = receiver.receive_arrow(left, max_wait_time=WAIT_SECONDS)
                receiver.settle_arrow(received, "complete")
                left -= pa.table(received).num_rows
            done += ROWS
        return done / (time.perf_counter() - began)


def latency(client: str, string: str, count: int) -> list[float]:
    """Microseconds from a send until another thread has the body."""
    module = _module(client)
    arrived: list[float] = []
    ready = threading.Semaphore(0)

    def receive() -> None:
        with (
            module.ServiceBusClient.from_connection_string(string) as opened,
            opened.get_queue_receiver(QUEUE) as receiver,
        ):
            for _ in range(count):
                (message,) = receiver.receive_messages(max_message_count=1, max_wait_time=WAIT_SECONDS)
                b"".join(message.body)
                arrived.append(time.perf_counter())
                receiver.complete_message(message)
                ready.release()

    thread = threading.Thread(target=receive)
    thread.start()
    sent = []
    with module.ServiceBusClient.from_connection_string(string) as opened, opened.get_queue_sender(QUEUE) as sender:
        for _ in range(count):
            # The receiver waits again by then.
            time.sleep(0.002)
            sent.append(time.perf_counter())
            sender.send_messages(module.ServiceBusMessage(BODY))
            ready.acquire()
    thread.join()
    return [(end - begin) * 1e6 for begin, end in zip(sent, arrived, strict=True)]


if __name__ == "__main__":
    name, what, text, number = sys.argv[1:]
    measured = {"single": single, "lists": lists, "tasks": tasks, "arrow": arrow, "latency": latency}[what]
    found = measured(name, text, int(number))
    print(json.dumps(found))
