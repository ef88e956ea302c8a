# SPDX-License-Identifier: Apache-2.0
"""Threads and signals: waits release the interpreter lock and can be interrupted (B-132, R-21, R-30)."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import ServiceBusError
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace

OPEN = """
import oxbus
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient
namespace = oxbus.Namespace()
ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
client = ServiceBusClient(namespace)
receiver = client.get_queue_receiver("q")
"""

INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("waiting", flush=True)
    {wait}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    client.get_queue_sender("q").send_messages(ServiceBusMessage(b"after"))
    print(len(receiver.receive_messages(max_wait_time=5)), flush=True)
"""


def test_waiting_does_not_hold_the_interpreter(
    client: ServiceBusClient, queue_name: str, in_background: Callable[..., Any]
) -> None:
    """While many threads wait, Python code runs and can wake them (R-21)."""
    receivers = [client.get_queue_receiver(queue_name) for _ in range(16)]
    waiting = [in_background(receiver.receive_messages, max_wait_time=600) for receiver in receivers]
    assert sum(range(100_000)) == 4_999_950_000
    assert all(call.running for call in waiting)
    with client.get_queue_sender(queue_name) as sender:
        for _ in receivers:
            sender.send_messages(ServiceBusMessage(b"x"))
    assert [len(call.result()) for call in waiting] == [1] * 16


def test_iteration_in_a_thread_wakes(
    client: ServiceBusClient, queue_name: str, in_background: Callable[..., Any]
) -> None:
    """`for message in receiver` waits without limit by default and gets each message as it arrives (B-132)."""
    receiver = client.get_queue_receiver(queue_name)
    seen: list[str] = []

    def work() -> None:
        for message in receiver:
            receiver.complete_message(message)
            seen.append(str(message))
            if str(message) == "last":
                return

    worker = in_background(work)
    with client.get_queue_sender(queue_name) as sender:
        for number in range(50):
            sender.send_messages(ServiceBusMessage(str(number), partition_key="k"))
        sender.send_messages(ServiceBusMessage(b"last", partition_key="k"))
    worker.result()
    assert seen == [*map(str, range(50)), "last"]


def test_closing_the_namespace_ends_every_wait(
    open_namespace: Callable[..., Namespace], in_background: Callable[..., Any]
) -> None:
    """`Namespace.close` ends waiting receives and does not hang (R-30)."""
    namespace = open_namespace()
    ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
    client = ServiceBusClient(namespace)
    waiting = [in_background(client.get_queue_receiver("q").receive_messages, max_wait_time=600) for _ in range(4)]
    in_background(namespace.close).result()
    for call in waiting:
        with contextlib.suppress(ServiceBusError, ValueError):
            assert call.result() == []


def test_senders_of_many_threads(
    client: ServiceBusClient, queue_name: str, in_background: Callable[..., Any], drain: Callable[..., Any]
) -> None:
    """A sender used by many threads keeps each thread's order (B-076, B-122)."""
    with client.get_queue_sender(queue_name) as sender:
        barrier = threading.Barrier(4)

        def work(name: str) -> None:
            barrier.wait(10)
            for number in range(500):
                sender.send_messages(ServiceBusMessage(f"{number:03}", partition_key=name))

        for worker in [in_background(work, name) for name in "abcd"]:
            worker.result()
    with client.get_queue_receiver(queue_name) as receiver:
        messages = drain(receiver)
    for name in "abcd":
        assert [str(m) for m in messages if m.partition_key == name] == [f"{number:03}" for number in range(500)]


def output_after_signal(script: str, number: signal.Signals) -> list[str]:
    """Run a script after `OPEN`, send it a signal once it waits, and return its later output."""
    process = subprocess.Popen([sys.executable, "-c", OPEN + script], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        return output.split()
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
@pytest.mark.parametrize(
    "wait",
    [
        "receiver.receive_messages(max_wait_time=600)",
        "receiver.receive_messages()",
        "next(receiver)",
        "receiver.receive_arrow(max_message_count=10, max_wait_time=600)",
    ],
)
def test_control_c_ends_a_wait(wait: str) -> None:
    """Ctrl-C during a wait of the main thread raises KeyboardInterrupt, and the receiver stays usable (R-30)."""
    assert output_after_signal(INTERRUPTED.format(wait=wait), signal.SIGINT) == ["interrupted", "1"]


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_other_signal_handlers_run_while_waiting() -> None:
    """A Python signal handler runs during a wait, and the wait continues (R-30)."""
    script = """
import signal
def on_signal(*_):
    print("handled", flush=True)
    client.get_queue_sender("q").send_messages(ServiceBusMessage(b"x"))
signal.signal(signal.SIGUSR1, on_signal)
print("waiting", flush=True)
print(len(receiver.receive_messages(max_wait_time=600)), flush=True)
"""
    assert output_after_signal(script, signal.SIGUSR1) == ["handled", "1"]
