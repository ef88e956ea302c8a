# SPDX-License-Identifier: Apache-2.0
"""A forked child neither keeps its parent's directory in use nor can use the parent's handles.

Each test runs a script in its own process, because forking a process with threads disturbs pytest.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

OPEN = """
import select, subprocess

LIVENESS_SECONDS = 60
path = sys.argv[1]
namespace = Namespace(path, partitions=4)
admin = ServiceBusAdministrationClient(namespace)
admin.create_queue("q", enable_partitioning=True)
client = ServiceBusClient(namespace)
sender, receiver = client.get_queue_sender("q"), client.get_queue_receiver("q")
sender.send_messages(ServiceBusMessage(b"before"))

def bodies(namespace):
    with ServiceBusClient(namespace).get_queue_receiver("q") as browser:
        return sorted(str(message) for message in browser.peek_messages(max_message_count=100))

def refused(call, error):
    try:
        call()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")

class Child:
    '''A forked child that works, reports this, waits for a signal, and ends with 0 if its work did not fail.'''
    def __init__(self, work):
        ready, say_ready = os.pipe()
        wait, self.let_go = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 99
            try:
                work()
                code = 0
            except BaseException as error:
                print("child:", repr(error), flush=True)
            os.write(say_ready, b"x")
            select.select([wait], [], [], LIVENESS_SECONDS)
            os._exit(code)
        assert select.select([ready], [], [], LIVENESS_SECONDS)[0], "the child hangs"
    def end(self):
        os.write(self.let_go, b"x")
        end = time.monotonic() + LIVENESS_SECONDS
        while time.monotonic() < end:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                assert os.waitstatus_to_exitcode(status) == 0, "the child failed"
                return
            time.sleep(0.01)
        raise AssertionError("the child does not end")

def in_use_elsewhere():
    '''Whether a process that has nothing to do with this one finds the directory in use.'''
    script = "import sys, oxbus; oxbus.Namespace(sys.argv[1])"
    result = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, timeout=120)
    if result.returncode:
        assert "NamespaceInUseError" in result.stderr, result.stderr
    return result.returncode != 0
"""


@pytest.fixture
def run_forking(run_python: Callable[..., str], tmp_path: Path) -> Callable[[str], None]:
    """Run a script after `OPEN`, with a namespace in a directory of the test."""

    def run(script: str) -> None:
        lines = script.splitlines()
        indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
        run_python(OPEN + "\n".join(line[indent:] for line in lines), tmp_path / "bus")

    return run


def test_child_does_not_keep_the_directory(run_forking: Callable[[str], None]) -> None:
    """After the parent closed, the directory is free although the child lives and still has its handles (B-102)."""
    run_forking("""
        child = Child(lambda: None)
        assert in_use_elsewhere()
        namespace.close()
        assert not in_use_elsewhere()
        with Namespace(path) as again:
            assert bodies(again) == ["before"]
        child.end()
    """)


def test_child_that_ends_does_not_free_the_directory(run_forking: Callable[[str], None]) -> None:
    """The end of a child, or its close of the inherited handle, leaves the lock with the parent (one writer)."""
    run_forking("""
        def close_inherited():
            try:
                namespace.close()
            except ForkedProcessError:
                pass
        for work in (lambda: None, close_inherited):
            Child(work).end()
            assert in_use_elsewhere()
        sender.send_messages(ServiceBusMessage(b"parent"))
        namespace.close()
        assert not in_use_elsewhere()
        with Namespace(path) as again:
            assert bodies(again) == ["before", "parent"]
    """)


def test_child_cannot_use_the_handles(run_forking: Callable[[str], None]) -> None:
    """Every call of the child on inherited handles fails, and nothing of it reaches the journal (B-162)."""
    run_forking("""
        (message,) = receiver.receive_messages(max_wait_time=5)
        def work():
            for call in (
                lambda: sender.send_messages(ServiceBusMessage(b"child")),
                lambda: receiver.receive_messages(max_wait_time=600),
                lambda: receiver.complete_message(message),
                lambda: receiver.peek_messages(),
                lambda: admin.create_queue("r"),
                lambda: namespace.checkpoint(),
            ):
                refused(call, ForkedProcessError)
        Child(work).end()
        receiver.abandon_message(message)
        namespace.close()
        with Namespace(path) as again:
            assert bodies(again) == ["before"]
            assert [queue.name for queue in ServiceBusAdministrationClient(again).list_queues()] == ["q"]
    """)


def test_child_cannot_open_what_its_parent_has_open(run_forking: Callable[[str], None]) -> None:
    """The child is another process: its open fails while the parent is the owner, and works afterwards (one writer)."""
    run_forking("""
        Child(lambda: refused(lambda: Namespace(path), NamespaceInUseError)).end()
        namespace.close()
        def work():
            with Namespace(path) as own:
                assert bodies(own) == ["before"]
                with ServiceBusClient(own).get_queue_sender("q") as own_sender:
                    own_sender.send_messages(ServiceBusMessage(b"child"))
        Child(work).end()
        with Namespace(path) as again:
            assert bodies(again) == ["before", "child"]
    """)


def test_fork_in_the_middle_of_traffic(run_forking: Callable[[str], None]) -> None:
    """Children forked while threads send harm neither the parent nor its stored messages (B-103)."""
    run_forking("""
        stop = threading.Event()
        acknowledged = []
        def work(thread):
            with client.get_queue_sender("q") as own:
                number = 0
                while not stop.is_set():
                    own.send_messages(ServiceBusMessage(f"{thread}.{number}"))
                    acknowledged.append(f"{thread}.{number}")
                    number += 1
        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            Child(lambda: refused(lambda: sender.send_messages(ServiceBusMessage(b"x")), ForkedProcessError)).end()
        stop.set()
        for thread in threads:
            thread.join(LIVENESS_SECONDS)
            assert not thread.is_alive()
        namespace.close()
        with Namespace(path) as again:
            with ServiceBusClient(again).get_queue_receiver("q") as browser:
                found = []
                while batch := browser.peek_messages(max_message_count=250):
                    found += [str(message) for message in batch]
        assert sorted(found) == sorted([*acknowledged, "before"])
    """)


def test_multiprocessing_by_fork(run_forking: Callable[[str], None]) -> None:
    """Workers of a forked pool hold nothing of the parent's namespace and cannot use it (one writer)."""
    run_forking("""
        import multiprocessing
        def work(number):
            try:
                sender.send_messages(ServiceBusMessage(b"x"))
            except ForkedProcessError:
                return "refused"
            return "sent"
        with multiprocessing.get_context("fork").Pool(2) as pool:
            answers = pool.map_async(work, range(4)).get(timeout=LIVENESS_SECONDS)
            assert answers == ["refused"] * 4, answers
            assert in_use_elsewhere()
            namespace.close()
            assert not in_use_elsewhere()
            with Namespace(path) as again:
                assert bodies(again) == ["before"]
    """)
