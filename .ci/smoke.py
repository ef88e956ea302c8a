# SPDX-License-Identifier: Apache-2.0
"""Does an installed wheel work? Messages through threads, asyncio, a directory, a server, and the command line."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from oxbus import Namespace, ServiceBusClient, ServiceBusMessage, aio
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve

MESSAGES = 1_000
THREADS = 4


def through(client: ServiceBusClient) -> int:
    """Send and receive in several threads at once; return how many messages were completed."""

    def send(first: int) -> None:
        with client.get_queue_sender("orders") as sender:
            for number in range(first, MESSAGES, THREADS):
                sender.send_messages(ServiceBusMessage(str(number)))

    def receive(_: int) -> list[int]:
        found = []
        with client.get_queue_receiver("orders", max_wait_time=2) as receiver:
            for message in receiver:
                found.append(int(str(message)))
                receiver.complete_message(message)
        return found

    with ThreadPoolExecutor(2 * THREADS) as pool:
        sending = [pool.submit(send, first) for first in range(THREADS)]
        receiving = [pool.submit(receive, number) for number in range(THREADS)]
        for future in sending:
            future.result()
        numbers = sorted(number for future in receiving for number in future.result())
    if numbers != list(range(MESSAGES)):
        raise SystemExit(f"{len(numbers)} messages came back, and not {MESSAGES}")
    return len(numbers)


async def through_asyncio(namespace: Namespace) -> int:
    """Wait for a message that is sent during the wait."""
    async with aio.ServiceBusClient(namespace) as client:
        sender, receiver = client.get_queue_sender("orders"), client.get_queue_receiver("orders")
        waiting = asyncio.ensure_future(receiver.receive_messages(max_wait_time=30))
        await asyncio.sleep(0.1)
        await sender.send_messages(ServiceBusMessage("waited for"))
        found = await waiting
        await receiver.complete_message(found[0])
        return len(found)


def main() -> None:
    """Run all of it."""
    with tempfile.TemporaryDirectory() as place:
        with Namespace(f"{place}/bus", partitions=2) as namespace:
            ServiceBusAdministrationClient(namespace).create_queue("orders", enable_partitioning=True)
            with ServiceBusClient(namespace) as client:
                print("threads", through(client))
            print("asyncio", asyncio.run(through_asyncio(namespace)))
            with (
                serve(namespace, amqp_port=0) as server,
                ServiceBusClient.from_connection_string(server.connection_string) as client,
            ):
                print("server", through(client))
        command = [sys.executable, "-m", "oxbus.cli", "stats", "--data", f"{place}/bus", "--json"]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
