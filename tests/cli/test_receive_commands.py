# SPDX-License-Identifier: Apache-2.0
"""`oxbus receive` and `oxbus peek`."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import pytest
from oxbus.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(params=[["--partitioned"], []], ids=["partitioned", "plain"])
def queue(ox: Callable[..., Any], request: pytest.FixtureRequest) -> str:
    """A queue, partitioned or not."""
    ox("queue", "create", "orders", *request.param)
    return "orders"


@pytest.fixture
def three(ox: Callable[..., Any], queue: str) -> str:
    """The same queue with three messages of one key."""
    ox("send", queue, "--partition-key", "k", stdin=b"one\ntwo\nthree\n")
    return queue


def remaining(ox: Callable[..., Any], queue: str, *options: str) -> list[tuple[str, int]]:
    """Bodies and delivery counts of all messages."""
    found = ox("peek", queue, "--all", "--json", *options).json_lines
    return [(message["body"], message["delivery_count"]) for message in found]


def test_received_messages_are_completed(ox: Callable[..., Any], three: str) -> None:
    """One by default, the oldest first (B-162)."""
    assert ox("receive", three).out == "one\n"
    assert remaining(ox, three) == [("two", 0), ("three", 0)]
    assert ox("receive", three, "--count", 5).out == "two\nthree\n"
    assert remaining(ox, three) == []


def test_nothing_to_receive_is_no_failure(ox: Callable[..., Any], queue: str) -> None:
    """An empty queue prints nothing."""
    assert ox("receive", queue, "--all").out == ""
    assert ox("receive", queue, "--wait", "10ms", "--json").out == ""


@pytest.mark.parametrize(
    ("option", "rest"),
    [
        ("--complete", [("two", 0), ("three", 0)]),
        ("--delete", [("two", 0), ("three", 0)]),
        ("--abandon", [("one", 1), ("two", 0), ("three", 0)]),
        ("--keep", [("one", 1), ("two", 0), ("three", 0)]),
        ("--dead-letter", [("two", 0), ("three", 0)]),
    ],
)
def test_outcome_is_chosen(ox: Callable[..., Any], three: str, option: str, rest: list[tuple[str, int]]) -> None:
    """Received messages are removed, or delivered again with one more delivery (B-162 to B-166)."""
    assert ox("receive", three, option).out == "one\n"
    assert remaining(ox, three) == rest


def test_deferred_message_stays_in_the_queue(ox: Callable[..., Any], three: str) -> None:
    """A deferred message stays in the queue and is not received again (B-164)."""
    ox("receive", three, "--defer")
    assert [message["state"] for message in ox("peek", three, "--json").json_lines] == ["deferred", "active", "active"]
    assert ox("receive", three, "--all").out == "two\nthree\n"


def test_abandoned_messages_are_not_received_twice(ox: Callable[..., Any], three: str) -> None:
    """The command abandons messages only after all are written."""
    assert ox("receive", three, "--all", "--abandon").out == "one\ntwo\nthree\n"


def test_reason_of_a_dead_letter(ox: Callable[..., Any], three: str) -> None:
    """A receive from the dead-letter queue shows the reason (B-165)."""
    ox("receive", three, "--dead-letter", "--reason", "bad")
    (message,) = ox("receive", three, "--sub-queue", "deadletter", "--json").json_lines
    assert (message["body"], message["dead_letter_reason"]) == ("one", "bad")
    assert remaining(ox, three, "--sub-queue", "deadletter") == []


@pytest.mark.parametrize(
    ("option", "written"), [([], b"\x00a\xff\n"), (["--null"], b"\x00a\xff\0"), (["--raw"], b"\x00a\xff")]
)
def test_body_is_written_as_it_is(
    ox: Callable[..., Any], queue: str, monkeypatch: pytest.MonkeyPatch, option: list[str], written: bytes
) -> None:
    """Bytes that are not text are written unchanged unless to a terminal."""
    ox("send", queue, "--file", "-", stdin=b"\x00a\xff")
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output))
    assert main(["receive", queue, *option]) == 0
    assert output.getvalue() == written


def test_terminal_gets_no_control_sequences(
    ox: Callable[..., Any], queue: str, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body cannot move the cursor or set colours of the terminal that shows it."""
    ox("send", queue, "--file", "-", stdin=b"a\x1b[31mred\n\xffb")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    assert run("receive", queue).out == "a\\x1b[31mred\n\\xffb\n"


def test_messages_that_cannot_be_written_are_delivered_again(
    ox: Callable[..., Any], three: str, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that cannot be written is not completed."""

    class Gone(io.TextIOWrapper):
        def flush(self) -> None:
            raise BrokenPipeError

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Gone(io.BytesIO()))
        assert main(["receive", three, "--all"]) == 141
    assert ox("receive", three, "--all").out == "one\ntwo\nthree\n"
    assert run("receive", three).out == ""


def test_session_is_named_or_the_next_one(ox: Callable[..., Any]) -> None:
    """One session by its id, or any available one (B-192 to B-196)."""
    ox("queue", "create", "steps", "--requires-session", "--partitioned")
    for session in ("a", "b"):
        ox("send", "steps", "--session-id", session, stdin=b"1\n2\n")
    assert {line["session_id"] for line in ox("receive", "steps", "--session", "b", "--all", "--json").json_lines} == {
        "b"
    }
    found = ox("receive", "steps", "--next-session", "--all", "--json").json_lines
    assert [(line["session_id"], line["body"]) for line in found] == [("a", "1"), ("a", "2")]
    assert ox("receive", "steps", "--next-session").out == ""
    assert ox("receive", "steps", "--session", "a").out == ""


def test_session_queue_needs_a_session(ox: Callable[..., Any], run: Callable[..., Any]) -> None:
    """The error is one line (B-187)."""
    ox("queue", "create", "steps", "--requires-session")
    refused = run("receive", "steps")
    assert refused.code == 1
    assert "session" in refused.err


def test_one_partition_is_received_from(ox: Callable[..., Any], key_in: Callable[..., str]) -> None:
    """Messages of the other partitions stay."""
    ox("queue", "create", "spread", "--partitioned")
    for partition in (2, 3):
        ox("send", "spread", str(partition), "--partition-key", key_in(partition, 4))
    assert ox("receive", "spread", "--all", "--partition", 3).out == "3\n"
    assert remaining(ox, "spread") == [("2", 0)]


def test_peek_changes_nothing(ox: Callable[..., Any], three: str) -> None:
    """The output is a table of numbers, partitions, times and the beginning of the body (B-290)."""
    for _ in range(2):
        heading, *lines = ox("peek", three).out.splitlines()
        assert " ".join(heading.split()) == "SEQUENCE NUMBER PARTITION ENQUEUED STATE SESSION MESSAGE ID BYTES BODY"
        assert [line.split()[-1] for line in lines] == ["one", "two", "three"]
    assert remaining(ox, three) == [("one", 0), ("two", 0), ("three", 0)]


def test_peek_begins_at_a_number(ox: Callable[..., Any], three: str) -> None:
    """Peek starts at the number and continues to the end (B-294)."""
    numbers = [message["sequence_number"] for message in ox("peek", three, "--json").json_lines]
    found = ox("peek", three, "--from", numbers[1], "--json").json_lines
    assert [message["sequence_number"] for message in found] == numbers[1:]
    assert len(ox("peek", three, "--count", 2, "--json").json_lines) == 2


def test_peek_shows_all_of_many(ox: Callable[..., Any], queue: str) -> None:
    """More messages than one call returns, each once."""
    lines = [f"{number:04}" for number in range(600)]
    ox("send", queue, stdin="\n".join(lines).encode())
    assert sorted(body for body, _ in remaining(ox, queue)) == lines


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"a\nb\x1b[0m", "a\\nb\\x1b[0m"),
        (b"\xff\x00", "\\xff\\x00"),
        (b"x" * 41, "x" * 40 + "…"),
        (b"x" * 40, "x" * 40),
    ],
)
def test_preview_is_one_line(ox: Callable[..., Any], queue: str, body: bytes, shown: str) -> None:
    """Bytes that are not text are escaped, and long bodies are cut."""
    ox("send", queue, "--file", "-", stdin=body)
    assert ox("peek", queue).out.splitlines()[1].split()[-1] == shown
