# SPDX-License-Identifier: Apache-2.0
"""Interpreter exit: two hundred starts and exits with open handles and waiting threads, no hang, no abort (R-30)."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice

import pytest

STARTS = 200
AT_ONCE = 4

OPEN = """
import contextlib, sys, threading, time
import oxbus
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient
namespace = oxbus.Namespace()
ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
client = ServiceBusClient(namespace)
receiver = client.get_queue_receiver("q", prefetch_count=10)
sender = client.get_queue_sender("q")
def wait():
    with contextlib.suppress(ValueError, oxbus.exceptions.ServiceBusError):
        client.get_queue_receiver("q").receive_messages(max_wait_time=600)
def wait_for_ever():
    receiver = client.get_queue_receiver("q")
    while True:
        receiver.receive_messages(max_wait_time=600)
def iterate():
    for _ in client.get_queue_receiver("q"):
        pass
def send():
    while True:
        sender.send_messages([ServiceBusMessage(b"x") for _ in range(10)])
        client.get_queue_receiver("q", receive_mode="receiveanddelete").receive_messages(10, max_wait_time=0)
def start(work, daemon):
    thread = threading.Thread(target=work, daemon=daemon)
    thread.start()
    return thread
"""

ENDINGS = {
    "open handles": "sender.send_messages(ServiceBusMessage(b'x')); receiver.receive_messages(max_wait_time=5)",
    "daemon waits": "start(wait, True)",
    "daemon waits, thread settled": "start(wait, True); time.sleep(0.02)",
    "daemon waits for ever": "[start(wait_for_ever, True) for _ in range(3)]",
    "daemon iterates": "start(iterate, True); time.sleep(0.02)",
    "daemon sends": "start(send, True); time.sleep(0.02)",
    "thread waits": "start(wait, False)",
    "thread waits, settled": "[start(wait, False) for _ in range(3)]; time.sleep(0.02)",
    "closed while waiting": "start(wait, True); time.sleep(0.02); namespace.close()",
    "cycle": "box = [receiver, sender, namespace]; box.append(box)",
}


def start_and_exit(name: str) -> tuple[str, int | str, str]:
    """Start an interpreter that exits in the given way, and return its result."""
    try:
        result = subprocess.run(
            [sys.executable, "-c", OPEN + ENDINGS[name]], capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        return name, "hang", ""
    return name, result.returncode, result.stderr


@pytest.mark.timeout(900)
def test_no_exit_hangs_or_aborts() -> None:
    """Each of two hundred interpreters ends without a kill, with code 0 and nothing on stderr (R-30)."""
    names = list(islice(cycle(ENDINGS), STARTS))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        endings = list(pool.map(start_and_exit, names))
    assert len(endings) == STARTS
    assert [ending for ending in endings if ending[1:] != (0, "")] == []


def test_exit_code_is_the_programs() -> None:
    """Waiting threads do not change the exit code (R-30)."""
    for code in (0, 3):
        script = f"{OPEN}\nstart(wait, True)\nstart(wait, False)\nsys.exit({code})"
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120, check=False)
        assert result.returncode == code


def test_uncaught_error_ends_the_program() -> None:
    """A program that fails with waiting threads ends with its traceback (R-30)."""
    script = f"{OPEN}\nstart(wait, False)\nraise RuntimeError('the program failed')"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 1
    assert "the program failed" in result.stderr


def test_lock_renewer_does_not_keep_the_program_alive() -> None:
    """A renewer that was never closed does not stop the exit (R-30)."""
    script = f"""{OPEN}
sender.send_messages(ServiceBusMessage(b"x"))
renewer = oxbus.AutoLockRenewer()
(message,) = receiver.receive_messages(max_wait_time=5)
renewer.register(receiver, message)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_exit_with_executor_threads_waiting() -> None:
    """Thread pool workers that wait in a receive do not keep the program alive (R-30)."""
    script = f"""{OPEN}
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(3)
for _ in range(3):
    pool.submit(wait)
time.sleep(0.05)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stderr) == (0, "")
