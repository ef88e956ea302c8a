# SPDX-License-Identifier: Apache-2.0
"""Python levels select the log lines at any time; slow or failing handlers do not affect calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def names(lines: list[dict[str, Any]]) -> list[str]:
    """The events of some lines."""
    return [line["event"] for line in lines]


def test_fault_leaves_lines_with_partition_and_cause(lines_of: Callable[..., Any], tmp_path: Path) -> None:
    """`inject_fault(ns, 2, "eio-fsync")` with logging at DEBUG left no line at all."""
    program = """
        print_log()
        with Namespace(sys.argv[1], partitions=4) as namespace, ServiceBusClient(namespace) as client:
            ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
            inject_fault(namespace, 2, "eio-fsync")
            key = next(k for k in map(str, range(99)) if oxbus.partition_id(k, 4) == 2)
            try:
                client.get_queue_sender("q").send_messages(ServiceBusMessage("x", partition_key=key))
            except PartitionUnavailableError:
                heal(namespace, 2)
    """
    lines = lines_of(program, tmp_path / "bus")
    of_fault = [line for line in lines if line["event"] in {"fault.injected", "partition.fault", "partition.healed"}]
    assert names(of_fault) == ["fault.injected", "partition.fault", "partition.healed"]
    assert {line["partition"] for line in of_fault} == {"2"}
    assert "Input/output error" in of_fault[1]["cause"]


@pytest.mark.parametrize("path", [None, "bus"])
def test_level_that_is_set_after_the_import_applies(
    lines_of: Callable[..., Any], tmp_path: Path, path: str | None
) -> None:
    """A level set after the import, or changed later, applies."""
    program = """
        print_log(logging.CRITICAL)
        path = os.path.join(sys.argv[1], sys.argv[2]) if sys.argv[2] else None
        with Namespace(path, partitions=2) as namespace:
            inject_fault(namespace, 0, "busy")
            heal(namespace, 0)
            time.sleep(0.2)
            logging.getLogger("oxbus.broker").setLevel(logging.INFO)
            inject_fault(namespace, 1, "busy")
            heal(namespace, 1)
            from oxbus._oxbus import _flush_log
            assert _flush_log(60)
            logging.getLogger("oxbus.broker").setLevel(logging.CRITICAL)
            time.sleep(0.2)
            inject_fault(namespace, 0, "busy")
    """
    lines = lines_of(program, tmp_path, path or "")
    assert names(lines) == ["fault.injected", "partition.fault", "partition.healed"]
    assert {line["partition"] for line in lines} == {"1"}


def test_warnings_are_shown_without_a_configuration(run_program: Callable[..., Any]) -> None:
    """Python's handler of last resort writes them to standard error, even if `logging` was never imported."""
    program = """
        with Namespace(partitions=2) as namespace:
            inject_fault(namespace, 1, "busy")
            heal(namespace, 1)
    """
    shown = run_program(program).stderr.splitlines()
    assert [line.split()[0] for line in shown] == ["partition.fault", "partition.healed"]


def test_namespace_in_memory_starts_no_thread_without_a_log_handler(run_program: Callable[..., Any]) -> None:
    """A program that uses only memory can still fork."""
    program = """
        with Namespace(partitions=2) as namespace, ServiceBusClient(namespace) as client:
            ServiceBusAdministrationClient(namespace).create_queue("q")
            client.get_queue_sender("q").send_messages(ServiceBusMessage("x"))
        print(len(os.listdir("/proc/self/task")))
    """
    assert run_program(program).stdout.strip() == "1"


def test_handler_may_use_oxbus(lines_of: Callable[..., Any]) -> None:
    """A handler that sends each line to a queue, even if that send logs a line, does not loop for ever."""
    program = """
        print_log(logging.INFO)

        class ToQueue(logging.Handler):
            def emit(self, record):
                try:
                    sender.send_messages(ServiceBusMessage(record.getMessage()))
                except ServiceBusError:
                    pass

        namespace = Namespace(partitions=2, memory_limit_bytes=20_000)
        ServiceBusAdministrationClient(namespace).create_queue("lines")
        client = ServiceBusClient(namespace)
        sender = client.get_queue_sender("lines")
        logging.getLogger("oxbus").addHandler(ToQueue())
        for number in range(2):
            inject_fault(namespace, number, "busy")
            heal(namespace, number)
        from oxbus._oxbus import _flush_log
        assert _flush_log(60)
        bodies = [str(m) for m in client.get_queue_receiver("lines", max_wait_time=0)]
        assert "partition.healed partition=1" in bodies, bodies
        try:
            while True:
                sender.send_messages(ServiceBusMessage("x" * 1000))
        except ServiceBusQuotaExceededError:
            pass
        assert _flush_log(60)
    """
    lines = lines_of(program)
    assert "quota.exceeded" in names(lines)
    assert len(lines) < 40


def test_handler_that_raises_stops_no_other_work(run_program: Callable[..., Any]) -> None:
    """Its error is shown like an uncaught one, and later lines are handled."""
    program = """
        class Broken(logging.Handler):
            def handle(self, record):
                print(record.getMessage(), flush=True)
                raise RuntimeError("a broken handler")

        logging.getLogger("oxbus").addHandler(Broken())
        with Namespace(partitions=2) as namespace:
            inject_fault(namespace, 1, "busy")
            heal(namespace, 1)
    """
    done = run_program(program)
    assert done.stdout.splitlines()[1:] == ["partition.healed partition=1"]
    assert done.stderr.count("RuntimeError: a broken handler") == 2


def test_calls_do_not_wait_for_a_handler(run_program: Callable[..., Any]) -> None:
    """While a handler blocks, sends and faults continue."""
    program = """
        import threading
        entered, leave = threading.Event(), threading.Event()

        class Blocked(logging.Handler):
            def emit(self, record):
                entered.set()
                leave.wait()

        logging.getLogger("oxbus").addHandler(Blocked())
        with Namespace(partitions=2) as namespace, ServiceBusClient(namespace) as client:
            ServiceBusAdministrationClient(namespace).create_queue("q")
            inject_fault(namespace, 0, "busy")
            entered.wait()
            for _ in range(100):
                heal(namespace, 0)
                inject_fault(namespace, 0, "busy")
            heal(namespace, 0)
            client.get_queue_sender("q").send_messages(ServiceBusMessage("x"))
            assert len(client.get_queue_receiver("q").receive_messages(max_wait_time=0)) == 1
            leave.set()
        print("done")
    """
    assert run_program(program).stdout.strip() == "done"
