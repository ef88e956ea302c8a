# SPDX-License-Identifier: Apache-2.0
"""Fork: a child gets an error from inherited handles, never a hang (R-30).

Each test runs a script in a new process, because pytest does not survive a fork with threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not available")

OPEN = """
import os, sys, threading, time
import oxbus
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import ForkedProcessError, ServiceBusError
from oxbus.management import ServiceBusAdministrationClient

namespace = oxbus.Namespace()
admin = ServiceBusAdministrationClient(namespace)
admin.create_queue("q", enable_partitioning=True)
client = ServiceBusClient(namespace)
sender = client.get_queue_sender("q")
receiver = client.get_queue_receiver("q")
sender.send_messages(ServiceBusMessage(b"before"))

def in_child(work):
    '''Run `work` in a forked child and return its exit code; -1 means that it hung.'''
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            work()
            code = 0
        except BaseException as error:
            print("child:", repr(error), flush=True)
        finally:
            sys.stdout.flush()
            os._exit(code)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return -1

def refused(call):
    try:
        call()
    except ForkedProcessError as error:
        assert isinstance(error, ServiceBusError)
        assert "namespace" in str(error).lower(), str(error)
    else:
        raise AssertionError("no ForkedProcessError")
"""


def run(script: str) -> None:
    """Run a script after `OPEN`, and show its output if it fails."""
    result = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", OPEN + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


CALLS = {
    "send": 'sender.send_messages(ServiceBusMessage(b"x"))',
    "send batch": 'sender.send_messages([ServiceBusMessage(b"x")])',
    "receive": "receiver.receive_messages(max_wait_time=600)",
    "receive without waiting": "receiver.receive_messages(max_wait_time=0)",
    "iterate": "next(receiver)",
    "peek": "receiver.peek_messages()",
    "complete": "receiver.complete_message(message)",
    "renew": "receiver.renew_message_lock(message)",
    "create queue": 'admin.create_queue("r")',
    "get queue": 'admin.get_queue("q")',
    "list queues": "list(admin.list_queues())",
    "counts": 'admin.get_queue_runtime_properties("q")',
    "new sender": 'client.get_queue_sender("q").send_messages(ServiceBusMessage(b"x"))',
    "new receiver": 'client.get_queue_receiver("q").receive_messages(max_wait_time=600)',
}


@pytest.mark.parametrize("name", CALLS)
def test_inherited_handle_is_refused_in_the_child(name: str) -> None:
    """Every call on a handle from before the fork raises ForkedProcessError at once (R-30)."""
    run(f"""
        (message,) = receiver.receive_messages(max_wait_time=5)
        assert in_child(lambda: refused(lambda: {CALLS[name]})) == 0
        receiver.complete_message(message)
        assert admin.get_queue_runtime_properties("q").total_message_count == 0
    """)


def test_fork_while_threads_work() -> None:
    """After a fork during traffic, calls in the child fail and the parent continues (R-30)."""
    run("""
        stop = threading.Event()
        def work():
            with client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:
                while not stop.is_set():
                    sender.send_messages([ServiceBusMessage(b"x") for _ in range(10)])
                    receiver.complete_messages(receiver.receive_messages(max_message_count=10, max_wait_time=0))
        threads = [threading.Thread(target=work) for _ in range(3)]
        threads += [threading.Thread(target=lambda: receiver.receive_messages(max_wait_time=5)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            assert in_child(lambda: refused(lambda: sender.send_messages(ServiceBusMessage(b"x")))) == 0
        stop.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        sender.send_messages(ServiceBusMessage(b"after"))
    """)


def test_child_may_open_its_own_namespace() -> None:
    """A new namespace of the child works fully, waiting included (R-30)."""
    run("""
        def work():
            own = oxbus.Namespace()
            ServiceBusAdministrationClient(own).create_queue("own", enable_partitioning=True)
            client = ServiceBusClient(own)
            sender, receiver = client.get_queue_sender("own"), client.get_queue_receiver("own")
            seen = []
            thread = threading.Thread(target=lambda: seen.extend(receiver.receive_messages(max_wait_time=8)))
            thread.start()
            sender.send_messages(ServiceBusMessage(b"child"))
            thread.join(8)
            assert [str(message) for message in seen] == ["child"]
            own.close()
        assert in_child(work) == 0
        (message,) = receiver.receive_messages(max_wait_time=5)
        assert str(message) == "before"
    """)


def test_grandchild_is_refused_too() -> None:
    """Handles stay unusable after several forks, and the child's namespace is refused in its own child (R-30)."""
    run("""
        def work():
            own = oxbus.Namespace()
            ServiceBusAdministrationClient(own).create_queue("own")
            own_sender = ServiceBusClient(own).get_queue_sender("own")
            def inner():
                refused(lambda: sender.send_messages(ServiceBusMessage(b"x")))
                refused(lambda: own_sender.send_messages(ServiceBusMessage(b"x")))
            assert in_child(inner) == 0
            own_sender.send_messages(ServiceBusMessage(b"x"))
        assert in_child(work) == 0
    """)


def test_child_may_close_and_drop_inherited_handles() -> None:
    """Closing or dropping handles in the child neither hangs nor affects the parent (R-30)."""
    run("""
        (message,) = receiver.receive_messages(max_wait_time=5)
        def work():
            global client, sender, receiver, namespace, admin, message
            for handle in (sender, receiver, client, namespace):
                try:
                    handle.close()
                except ForkedProcessError:
                    pass
            client = sender = receiver = namespace = admin = message = None
            import gc
            gc.collect()
        assert in_child(work) == 0
        receiver.complete_message(message)
    """)


def test_child_ends_cleanly() -> None:
    """A child that exits the interpreter normally ends with code 0 (R-30)."""
    run("""
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                sys.exit(0)
            end = time.monotonic() + 60
            done = 0
            while not done and time.monotonic() < end:
                done, status = os.waitpid(pid, os.WNOHANG)
                time.sleep(0.01)
            assert done and os.waitstatus_to_exitcode(status) == 0, "the child hung or failed"
    """)


def test_multiprocessing_fork() -> None:
    """Workers of a forked process pool can use their own namespaces and get an error for the parent's (R-30)."""
    run("""
        import multiprocessing
        def work(number):
            try:
                sender.send_messages(ServiceBusMessage(b"x"))
            except ForkedProcessError:
                return number, "refused"
            return number, "sent"
        with multiprocessing.get_context("fork").Pool(2) as pool:
            answers = pool.map_async(work, range(4)).get(timeout=120)
        assert answers == [(number, "refused") for number in range(4)], answers
        assert admin.get_queue_runtime_properties("q").total_message_count == 1
    """)


def test_fork_before_the_first_namespace() -> None:
    """A child can use oxbus that was imported before the fork (R-30)."""
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent("""
                import os, oxbus
                from oxbus.management import ServiceBusAdministrationClient
                pid = os.fork()
                ServiceBusAdministrationClient(oxbus.Namespace()).create_queue("q")
                if pid:
                    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            """),
        ],
        timeout=120,
        check=False,
    )
    assert result.returncode == 0
