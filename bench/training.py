# SPDX-License-Identifier: Apache-2.0
"""The workload that release builds are optimised for: each hot path of the engine for a moment.

`make profile` runs it on a build that counts; nothing here is measured.
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import oxbus
import pyarrow as pa
from bodies import UNREAD, bodies_of, read_column, read_message
from cases.arrow import keyed_batch, keyless_batch
from cases.bus import BATCH, QUEUE
from cases.case import expect, seconds_of_one_round
from durable.recovery import reopen
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve
from plan import WHOLE
from proton import Message
from proton.utils import BlockingConnection
from suites.core import CASES

MESSAGES = 20_000
BODY_BYTES = 1024
MESSAGES_BY_AMQP = 4_000
LISTS = 200
WAIT_SECONDS = 30


def in_memory() -> None:
    """Every case of the suite `core` twice, but for sweeps and those that leave bodies unread, as no user does."""
    for cases in CASES.values():
        for case in cases(WHOLE):
            if not case.id.endswith(UNREAD):
                seconds_of_one_round(case)
                seconds_of_one_round(case)


def on_disk() -> None:
    """Messages one by one, by the hundred and as columns through a journal, which is opened again half way."""
    with tempfile.TemporaryDirectory() as directory:
        with oxbus.Namespace(directory, durability="os") as namespace:
            ServiceBusAdministrationClient(namespace).create_queue(QUEUE, enable_partitioning=True)
            with ServiceBusClient(namespace).get_queue_sender(QUEUE) as sender:
                bodies = bodies_of(BODY_BYTES, MESSAGES)
                for body in bodies[: MESSAGES // 2]:
                    sender.send_messages(ServiceBusMessage(body))
                for start in range(MESSAGES // 2, MESSAGES, BATCH):
                    sender.send_messages([ServiceBusMessage(body) for body in bodies[start : start + BATCH]])
                for columns in (keyless_batch(BODY_BYTES), keyed_batch(BODY_BYTES)):
                    sender.send_arrow(columns)
        expected = MESSAGES + keyless_batch(BODY_BYTES).num_rows + keyed_batch(BODY_BYTES).num_rows
        with oxbus.Namespace(directory, durability="os") as namespace:
            expect("messages that came back", _drain(namespace), expected)


def _drain(namespace: oxbus.Namespace) -> int:
    count = 0
    with ServiceBusClient(namespace).get_queue_receiver(QUEUE) as receiver:
        for _ in range(MESSAGES // 4):
            (message,) = receiver.receive_messages(max_wait_time=0)
            read_message(message, BODY_BYTES)
            receiver.complete_message(message)
            count += 1
        while messages := receiver.receive_messages(BATCH, max_wait_time=0):
            for message in messages:
                read_message(message, BODY_BYTES)
            receiver.complete_messages(messages)
            count += len(messages)
            if count > MESSAGES // 2:
                break
        while (table := pa.table(receiver.receive_arrow(4096, max_wait_time=0))).num_rows:
            read_column(table["body"], BODY_BYTES)
            receiver.settle_arrow(table, "complete")
            count += table.num_rows
    return count


def by_threads_and_synced() -> None:
    """Four threads whose lists share their syncs."""
    with tempfile.TemporaryDirectory() as directory, oxbus.Namespace(directory) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue(QUEUE, enable_partitioning=True)
        client = ServiceBusClient(namespace)
        bodies = bodies_of(300, BATCH)

        def send() -> None:
            with client.get_queue_sender(QUEUE) as sender:
                for _ in range(LISTS):
                    sender.send_messages([ServiceBusMessage(body) for body in bodies])

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with client.get_queue_receiver(QUEUE) as receiver:
            for _ in range(LISTS):
                messages = receiver.receive_messages(BATCH, max_wait_time=0)
                for message in messages:
                    read_message(message, len(bodies[0]))
                receiver.complete_messages(messages)
        namespace.checkpoint()


def after_a_kill() -> None:
    """Journals that were not closed."""
    with tempfile.TemporaryDirectory() as directory:
        reopen(Path(directory), 200_000, 100)
        reopen(Path(directory), 50_000, 1024)


def by_amqp() -> None:
    """Messages from and to a client behind the network."""
    with oxbus.Namespace() as namespace, serve(namespace) as server:
        ServiceBusAdministrationClient(namespace).create_queue(QUEUE, enable_partitioning=True)
        url = f"amqp://RootManageSharedAccessKey:SAS_KEY_VALUE@{server.host}:{server.port}"
        connection = BlockingConnection(url, timeout=WAIT_SECONDS, allow_insecure_mechs=True, allowed_mechs="PLAIN")
        sender = connection.create_sender(QUEUE)
        for body in bodies_of(1024, MESSAGES_BY_AMQP):
            sender.send(Message(body=body, inferred=True))
        receiver = connection.create_receiver(QUEUE, credit=100)
        for _ in range(MESSAGES_BY_AMQP):
            receiver.receive()
            receiver.accept()
        connection.close()


if __name__ == "__main__":
    in_memory()
    on_disk()
    by_threads_and_synced()
    after_a_kill()
    by_amqp()
