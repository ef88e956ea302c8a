# SPDX-License-Identifier: Apache-2.0
"""Provokes one event of the log, with secrets in all data that may hold one; run as a script.

    provoke.py EVENT DIRECTORY

Each function causes its event as a program would. The script prints its log (`printed_log`).
"""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from console_http import Console
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus._oxbus import _BulkLoad
from oxbus.backups import backup
from oxbus.exceptions import ServiceBusError
from oxbus.management import AuthorizationRule, ServiceBusAdministrationClient, SqlRuleFilter
from oxbus.server import replace_authorization_rules, serve
from oxbus.testing import ManualClock, heal, inject_fault
from plain_http import Http
from printed_log import PrintedLog, print_log
from secret_words import BODY, KEY, PROPERTY, SESSION, SUBJECT, partition_key
from stored_files import flip_bit, frames, journals, shard

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 4
BAD = 2

PROVOKES: dict[str, Callable[[PrintedLog, Path], None]] = {}


def provokes(*events: str) -> Callable[[Callable[[PrintedLog, Path], None]], Callable[[PrintedLog, Path], None]]:
    """Register a function that provokes some events."""

    def register(provoke: Callable[[PrintedLog, Path], None]) -> Callable[[PrintedLog, Path], None]:
        PROVOKES.update(dict.fromkeys(events, provoke))
        return provoke

    return register


def message(partition_id: int = BAD, **more: Any) -> ServiceBusMessage:
    """A message to a partition with a secret in each field."""
    return ServiceBusMessage(
        BODY,
        partition_key=partition_key(partition_id, PARTITIONS),
        subject=SUBJECT,
        application_properties={PROPERTY: PROPERTY},
        **more,
    )


@contextlib.contextmanager
def bus(path: Path | None = None, *, clock: ManualClock | None = None, queue: Any = None, **options: Any) -> Any:
    """A namespace with a partitioned queue `orders`: the namespace, its administration and its client."""
    with Namespace(path, partitions=PARTITIONS, clock=clock, **options) as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        if not any(it.name == "orders" for it in admin.list_queues()):
            admin.create_queue("orders", enable_partitioning=True, **(queue or {}))
        with ServiceBusClient(namespace) as client:
            yield namespace, admin, client


def send(client: ServiceBusClient, *messages: ServiceBusMessage, to: str = "orders") -> None:
    """Send one by one; ignore errors, since the event is about them."""
    with client.get_queue_sender(to) as sender:
        for one in messages:
            with contextlib.suppress(ServiceBusError):
                sender.send_messages(one)


@provokes("namespace.opened", "namespace.closed", "partition.opened", "snapshot.written")
def open_and_close(_: PrintedLog, path: Path) -> None:
    """Open, write, checkpoint, close."""
    with bus(path) as (namespace, _, client):
        send(client, message())
        namespace.checkpoint()


@provokes("backup.begun")
def back_up(_: PrintedLog, path: Path) -> None:
    """Back up an open namespace."""
    with bus(path) as (namespace, _, client):
        send(client, message())
        backup(namespace, path.with_name("backups"))


@provokes("fault.injected", "partition.fault", "partition.healed")
def failing_disk(_: PrintedLog, path: Path) -> None:
    """A sync fails, and the partition is healed."""
    with bus(path) as (namespace, _, client):
        inject_fault(namespace, BAD, "eio-fsync")
        send(client, message())
        heal(namespace, BAD)


@provokes("partition.heal_failed")
def failing_heal(log: PrintedLog, path: Path) -> None:
    """The disk still fails when the partition is healed."""
    with bus(path) as (namespace, _, client):
        inject_fault(namespace, BAD, "eio-write")
        send(client, message())
        log.until("partition.heal_failed")


@provokes("snapshot.failed")
def failing_snapshot(_: PrintedLog, path: Path) -> None:
    """Renaming a snapshot fails."""
    with bus(path) as (namespace, _, client):
        send(client, message())
        inject_fault(namespace, BAD, "eio-rename")
        with contextlib.suppress(ServiceBusError):
            namespace.checkpoint()
        heal(namespace, BAD)


@provokes("disk.stalled", "disk.answers")
def hanging_disk(log: PrintedLog, path: Path) -> None:
    """A disk is unresponsive for a while."""
    with bus(path) as (namespace, _, client):
        send(client, message())
        inject_fault(namespace, BAD, "stall")
        sending = threading.Thread(target=send, args=(client, message()))
        sending.start()
        log.until("disk.stalled")
        heal(namespace, BAD)
        sending.join()
        log.until("disk.answers")


@provokes("namespace.lost", "namespace.taken")
def stored_namespace_taken_over(log: PrintedLog, path: Path) -> None:
    """A namespace in a store is taken over from an owner that lives."""
    url = f"objects://{path.absolute()}"
    with Namespace(url, partitions=PARTITIONS), Namespace(url, take_over=True):
        log.until("namespace.lost")


@provokes("store.trouble", "store.answers")
def store_away(log: PrintedLog, path: Path) -> None:
    """The objects of a namespace are away for a while."""
    away = path.with_name("away")
    with Namespace(f"objects://{path.absolute()}", partitions=PARTITIONS):
        path.rename(away)
        path.touch()
        log.until("store.trouble")
        path.unlink()
        away.rename(path)
        log.until("store.answers")


@provokes("call.slow")
def slow_disk(_: PrintedLog, path: Path) -> None:
    """A disk is slow."""
    with bus(path, slow_call_seconds=0.05) as (namespace, _, client):
        inject_fault(namespace, BAD, "latency:0.2")
        send(client, message())


@provokes("disk.full", "disk.free")
def full_disk(log: PrintedLog, path: Path) -> None:
    """A file system without space, in the mount namespace of this process (see `main`)."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", path.parent], check=True)
    with bus(path, durability="os") as (_, _, client):
        with client.get_queue_sender("orders") as sender:
            try:
                while True:
                    sender.send_messages(ServiceBusMessage(BODY * 5_000))
            except ServiceBusError:
                log.until("disk.full")
        with client.get_queue_receiver("orders", receive_mode="receiveanddelete", max_wait_time=1) as receiver:
            for _ in receiver:
                pass
        log.until("disk.free")


@provokes("recovery.cut")
def torn_tail(__: PrintedLog, path: Path) -> None:
    """A process ended during a write."""
    child = os.fork()
    if child == 0:
        with bus(path, durability="os") as (_, _, client):
            send(client, message())
            os._exit(0)
    os.waitpid(child, 0)
    (segment,) = journals(shard(path, BAD))
    _, end = frames(segment)[-1]
    with segment.open("r+b") as file:
        file.seek(end - 8)
        file.write(bytes(8))
    with bus(path):
        pass


@provokes("load.taken_over", "load.waiting")
def bulk_loads(_: PrintedLog, path: Path) -> None:
    """Rows of one partition are taken over, and those of another are damaged."""
    with bus(path):
        pass
    loading = _BulkLoad(path, "orders", "job", durability="os")
    for partition_id in (1, BAD):
        rows = [f"{BODY} {number}".encode() + bytes(10_000) for number in range(100)]
        keys = [partition_key(partition_id, PARTITIONS)] * len(rows)
        loading.push(pa.table({"body": rows, "partition_key": keys}))
    loading.finish(0)
    (file,) = (path / f"shard-{BAD:02}" / "attached").glob("*.stage")
    flip_bit(file, file.stat().st_size // 2)
    with bus(path):
        pass


@provokes("quota.exceeded")
def quotas(_: PrintedLog, __: Path) -> None:
    """More messages than the memory limit allows."""
    with bus(memory_limit_bytes=2_000) as (_, _, client):
        send(client, *(message() for _ in range(100)))


@provokes("lock.lost", "message.dead_lettered")
def lost_lock(_: PrintedLog, __: Path) -> None:
    """A lock expires before its message is settled, on the last delivery."""
    clock = ManualClock()
    with bus(clock=clock, queue={"max_delivery_count": 1}) as (_, _, client):
        send(client, message())
        with client.get_queue_receiver("orders") as receiver:
            (received,) = receiver.receive_messages(max_wait_time=0)
            clock.advance(3_600)
            with contextlib.suppress(ServiceBusError):
                receiver.complete_message(received)
        client.get_queue_receiver("orders").receive_messages(max_wait_time=0)


@provokes("session.lost")
def lost_session(_: PrintedLog, __: Path) -> None:
    """The lock of a session expires while a receiver holds it."""
    clock = ManualClock()
    with bus(clock=clock) as (_, admin, client):
        admin.create_queue("sessions", requires_session=True)
        send(client, ServiceBusMessage(BODY, session_id=SESSION), to="sessions")
        with client.get_queue_receiver("sessions", session_id=SESSION) as receiver:
            receiver.session.set_state(BODY)
            clock.advance(3_600)
            with contextlib.suppress(ServiceBusError):
                receiver.session.renew_lock()


@provokes("forward.blocked")
def blocked_forward(_: PrintedLog, __: Path) -> None:
    """The destination of a forward is out of service."""
    with bus() as (namespace, admin, client):
        admin.create_queue("source", forward_to="orders", enable_partitioning=False)
        for partition_id in range(PARTITIONS):
            key = partition_key(partition_id, PARTITIONS)
            inject_fault(namespace, partition_id, "busy")
            send(client, ServiceBusMessage(BODY, partition_key=key, subject=SUBJECT), to="source")
            heal(namespace, partition_id)


@provokes(
    *("server.starting", "server.ready", "server.draining", "server.stopped", "rules.replaced"),
    *("client.refused", "connection.opened", "connection.closed", "connection.failed"),
)
def server(log: PrintedLog, __: Path) -> None:
    """A server with a client that has the right key and others that do not."""
    rules = [AuthorizationRule(key_name="app", primary_key=KEY, rights=["Send"])]
    with bus() as (namespace, _, _), serve(namespace, rules=rules) as served:
        for key in (KEY, KEY + "x"):
            connection = Http(served, name="app", key=key)
            for path in ("orders", "missing"):
                connection("POST", f"/{path}/messages", BODY, BrokerProperties=f'{{"SessionId": "{SESSION}"}}')
            connection.connection.close()
        replace_authorization_rules(served, [AuthorizationRule(key_name="app", primary_key=KEY + "y", rights=["Send"])])
        with socket.create_connection((served.host, served.port)) as raw:
            text = b"this is no handshake, it is " + BODY.encode()
            raw.sendall(b"\x16\x03\x01" + len(text).to_bytes(2, "big") + text)
            raw.recv(100)
        log.until("connection.failed")


@provokes("spans.lost")
def spans(log: PrintedLog, __: Path) -> None:
    """A program takes records for spans, and then none while the server does more than it keeps."""
    requests = b"GET /$health/live HTTP/1.1\r\nHost: x\r\n\r\n" * 100
    with bus() as (namespace, _, _), serve(namespace) as served:
        served._take_spans(0)
        with socket.create_connection((served.host, served.port)) as raw:
            for _ in range(90):
                raw.sendall(requests)
                answers = bytearray()
                while answers.count(b"HTTP/1.1 ") < 100:
                    answers += raw.recv(1 << 16)
        served._take_spans(0)
        log.until("spans.lost")


@provokes("console.signed_in", "console.changed")
def console(_: PrintedLog, __: Path) -> None:
    """Somebody signs in to the console, sends a message and purges dead letters."""
    with bus() as (namespace, _, _), serve(namespace, console=True) as served:
        browser = Console(served)
        browser.sign_in()
        browser.post("send", path="orders", body=base64.b64encode(BODY.encode()).decode(), subject=SUBJECT)
        browser.post("purge", path="orders/$deadletterqueue", confirmation="orders")


@provokes("log.lines_lost")
def flood(log: PrintedLog, __: Path) -> None:
    """A handler blocks while events arrive."""
    entered, leave = threading.Event(), threading.Event()

    def block(record: Any) -> bool:
        entered.set()
        leave.wait()
        return bool(record)

    with Namespace(partitions=64, clock=(clock := ManualClock(datetime(2100, 1, 1, tzinfo=UTC)))) as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        log.addFilter(block)
        for name in ("orders", "bills", "returns"):
            admin.create_queue(name, enable_partitioning=True, max_delivery_count=1, lock_duration=timedelta(minutes=1))
        with ServiceBusClient(namespace) as client:
            inject_fault(namespace, 0, "busy")
            entered.wait()
            for partition_id in range(64):
                inject_fault(namespace, partition_id, "busy")
                heal(namespace, partition_id)
            for name in ("orders", "bills", "returns"):
                messages = [ServiceBusMessage(BODY, partition_key=partition_key(it, 64)) for it in range(64)]
                send(client, *messages, to=name)
                with client.get_queue_receiver(name) as receiver:
                    received = receiver.receive_messages(64, max_wait_time=0)
                    clock.advance(3_600)
                    for one in received:
                        with contextlib.suppress(ServiceBusError):
                            receiver.complete_message(one)
                    receiver.receive_messages(max_wait_time=0)
            leave.set()
            log.until("log.lines_lost")


@provokes("message.dead_lettered/filter")
def failing_filter(_: PrintedLog, __: Path) -> None:
    """A rule that cannot be evaluated, with the message's values in its error."""
    with bus() as (_, admin, client):
        admin.create_topic("news")
        admin.create_subscription("news", "all", dead_lettering_on_filter_evaluation_exceptions=True)
        admin.delete_rule("news", "all", "$Default")
        admin.create_rule("news", "all", "bad", filter=SqlRuleFilter(f"{PROPERTY} / 0 = 1"))
        with client.get_topic_sender("news") as sender:
            sender.send_messages(ServiceBusMessage(BODY, subject=SUBJECT, application_properties={PROPERTY: 7}))


def main(event: str, directory: str) -> None:
    """Provoke an event."""
    log = print_log()
    PROVOKES[event](log, Path(directory) / "bus")


if __name__ == "__main__":
    main(*sys.argv[1:])
