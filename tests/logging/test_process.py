# SPDX-License-Identifier: Apache-2.0
"""Each process has one log: it is flushed at exit, and a fork starts another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_lines_at_exit_are_written(lines_of: Callable[..., Any], tmp_path: Path) -> None:
    """A script that forgets to close its namespace still logs the close, as the last line."""
    program = """
        print_log(logging.INFO)
        namespace = Namespace(sys.argv[1], partitions=2)
        inject_fault(namespace, 1, "busy")
    """
    lines = lines_of(program, tmp_path / "bus")
    assert [line["event"] for line in lines] == [
        "namespace.opened",
        "fault.injected",
        "partition.fault",
        "namespace.closed",
    ]


def test_forked_child_logs_for_itself(run_program: Callable[..., Any], tmp_path: Path) -> None:
    """Another thread writes its lines, and only the parent writes those of the parent."""
    program = """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        from printed_log import print_log
        log = print_log(logging.INFO)
        parent = Namespace(sys.argv[1], partitions=2)
        log.until("namespace.opened")
        child = os.fork()
        if child == 0:
            with Namespace(partitions=2) as namespace:
                inject_fault(namespace, 1, "busy")
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        parent.close()
    """
    done = run_program(program, tmp_path / "bus")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    (first, *_) = lines
    of_parent = [line["event"] for line in lines if line["process"] == first["process"]]
    of_child = [line["event"] for line in lines if line["process"] != first["process"]]
    assert of_parent == ["namespace.opened", "namespace.closed"]
    assert of_child == ["namespace.opened", "fault.injected", "partition.fault", "namespace.closed"]


def test_many_forks_while_lines_are_written(run_program: Callable[..., Any]) -> None:
    """A thread of the parent may hold the buffer's lock at the fork; no child waits for it."""
    program = """
        import threading, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        logging.getLogger("oxbus").addHandler(logging.NullHandler())
        logging.getLogger("oxbus").setLevel(logging.DEBUG)
        namespace, over = Namespace(partitions=64), threading.Event()

        def toggle():
            while not over.is_set():
                for number in range(64):
                    inject_fault(namespace, number, "busy")
                    heal(namespace, number)

        thread = threading.Thread(target=toggle)
        thread.start()
        for _ in range(30):
            child = os.fork()
            if child == 0:
                with Namespace(partitions=1) as own:
                    inject_fault(own, 0, "busy")
                from oxbus._oxbus import _end_log
                _end_log()
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        over.set()
        thread.join()
    """
    run_program(program)
