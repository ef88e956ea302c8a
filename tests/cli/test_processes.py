# SPDX-License-Identifier: Apache-2.0
"""Commands as processes: closed pipes, Ctrl-C, a namespace in use by another process."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace, ServiceBusClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIVENESS_SECONDS = 60


@pytest.fixture
def queue(ox: Callable[..., Any]) -> str:
    """A queue with a thousand messages of one key."""
    ox("queue", "create", "orders")
    ox("send", "orders", stdin=b"".join(b"%06d" % number + b"x" * 1000 + b"\n" for number in range(1000)))
    return "orders"


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    """Wait for a process; return its exit code and output."""
    out, err = process.communicate(timeout=LIVENESS_SECONDS)
    return process.returncode, out, err


def test_reader_that_stops_ends_the_command(
    start: Callable[..., subprocess.Popen[bytes]], queue: str, ox: Callable[..., Any]
) -> None:
    """A reader like `head -1` causes no traceback, and unwritten messages are not lost."""
    process = start("receive", queue, "--all")
    assert process.stdout is not None
    first = process.stdout.readline()
    process.stdout.close()
    assert first.startswith(b"000000x")
    assert process.stderr is not None
    with process.stderr as err:
        assert err.read() == b""
    assert process.wait(LIVENESS_SECONDS) == 141
    left = ox("receive", queue, "--all").out.splitlines()
    assert left[-1].startswith("000999x")
    assert len(left) >= 800


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no full device")  # noqa: PTH110 (a device)
def test_full_disk_ends_the_command(queue: str, ox: Callable[..., Any]) -> None:
    """One line and exit code 1; unwritten messages are not completed."""
    command = [sys.executable, "-m", "oxbus.cli", "receive", queue, "--all"]
    with open("/dev/full", "wb") as full:  # noqa: PTH123 (a device)
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == 1
    assert "No space left" in line
    assert len(ox("receive", queue, "--all").out.splitlines()) == 1000


@pytest.mark.parametrize(
    ("command", "codes"),
    [(["--help"], {0, 141}), (["receive", "--help"], {0, 141}), (["queue", "create", "new"], {141})],
    ids=["help", "help of a command", "command"],
)
def test_output_to_a_closed_pipe(data: Path, command: list[str], codes: set[int]) -> None:
    """A short output meets the closed pipe only at the end, and this is no error either."""
    assert data.is_dir()
    reader, writer = os.pipe()
    os.close(reader)
    run = [sys.executable, "-m", "oxbus.cli", *command]
    with os.fdopen(writer, "wb") as nobody:
        done = subprocess.run(run, stdout=nobody, stderr=subprocess.PIPE, check=False)
    assert done.stderr == b""
    assert done.returncode in codes


@pytest.mark.parametrize(
    ("command", "printed"),
    [('"$@" queue list >&-', b""), ('"$@" send orders --json <&-', b'{"sent": 0}\n'), ('"$@" nonsense 2>&-', b"")],
    ids=["output", "input", "errors"],
)
def test_stream_that_is_closed(queue: str, command: str, printed: bytes) -> None:
    """A shell may start a command without one of the streams."""
    assert queue == "orders"
    run = ["sh", "-c", command, "sh", sys.executable, "-m", "oxbus.cli"]
    done = subprocess.run(run, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2 if "nonsense" in command else 0, printed, b"")


def test_interrupt_ends_the_command(start: Callable[..., subprocess.Popen[bytes]], queue: str, data: Path) -> None:
    """Ctrl-C during the wait: exit code 130, nothing on standard error, and the namespace is free."""
    process = start("receive", queue, "--all", "--wait", "1h")
    assert process.stdout is not None
    assert process.stdout.readline()
    # All messages have been written, so the command waits.
    for _ in range(999):
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert (code, err) == (130, b"")
    Namespace(data).close()


def test_namespace_that_is_in_use(start: Callable[..., subprocess.Popen[bytes]], queue: str, data: Path) -> None:
    """One line names the owner process, and no message changes."""
    with Namespace(data):
        code, out, err = ended(start("receive", queue))
    assert (code, out) == (1, b"")
    (line,) = err.decode().splitlines()
    assert str(os.getpid()) in line
    assert str(data) in line
    with Namespace(data) as namespace, ServiceBusClient(namespace) as client:
        assert len(client.get_queue_receiver(queue).peek_messages(1)) == 1


def test_lines_are_sent_as_they_are_typed(
    start: Callable[..., subprocess.Popen[bytes]], ox: Callable[..., Any], queue: str
) -> None:
    """A line is sent as soon as it is read, not at the end of the input: a killed command has sent it."""
    ox("queue", "create", "typed")
    process = start("send", "typed", "--json", stdin=subprocess.PIPE, env=os.environ | {"OXBUS_NO": queue})
    assert process.stdin is not None
    process.stdin.write(b"first\n")
    process.stdin.flush()
    process.stdin.write(b"second")
    code, out, err = ended(process)
    assert (code, out, err) == (0, b'{"sent": 2}\n', b"")
    assert sorted(ox("receive", "typed", "--all").out.splitlines()) == ["first", "second"]


def test_help_imports_no_more_than_it_needs() -> None:
    """The administration client and the demo's dependencies are loaded only by the commands that use them."""
    program = (
        "import sys; from oxbus.cli import main\ntry: main(['--help'])\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "deadletter" in done.stdout
    heavy = {"asyncio", "importlib.metadata", "numpy", "oxbus.demo", "oxbus.management", "pyarrow", "pyspark", "rich"}
    assert heavy & set(done.stderr.split()) == set()


@pytest.mark.parametrize("colour", [True, False])
def test_table_on_a_terminal(ox: Callable[..., Any], data: Path, colour: bool) -> None:
    """A table has borders, colours and bold text unless NO_COLOR is set; names are not interpreted as markup."""
    pytest.importorskip("rich")
    ox("queue", "create", "orders")
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"TERM": "xterm-256color", "OXBUS_DATA": str(data)} | ({} if colour else {"NO_COLOR": "1"})
    command = [sys.executable, "-m", "oxbus.cli", "queue", "list"]
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:
            break
    os.close(ours)
    assert ended(process)[0] == 0
    assert "│ orders" in shown.decode()
    assert (b"\x1b[3" in shown) is False
    assert (b"\x1b[1m" in shown) is True or not colour
