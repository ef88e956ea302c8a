# SPDX-License-Identifier: Apache-2.0
"""`oxbus send`: the body from the command line, a file or lines, and message properties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ANY_BYTES = bytes(range(256))


@pytest.fixture(params=[["--partitioned"], []], ids=["partitioned", "plain"])
def queue(ox: Callable[..., Any], request: pytest.FixtureRequest) -> str:
    """A queue, partitioned or not."""
    ox("queue", "create", "orders", *request.param)
    return "orders"


def test_body_is_the_argument(ox: Callable[..., Any], queue: str) -> None:
    """One message is sent, and the output shows the number."""
    assert ox("send", queue, "hello").out == "1 message sent\n"
    assert ox("send", queue, "", "--json").json == {"sent": 1}
    bodies = [message["body"] for message in ox("peek", queue, "--json").json_lines]
    assert sorted(bodies) == ["", "hello"]


@pytest.mark.parametrize("source", ["file", "input"])
def test_body_is_a_file(ox: Callable[..., Any], queue: str, tmp_path: Path, source: str) -> None:
    """Any bytes, line ends included, are one message."""
    file = tmp_path / "body"
    file.write_bytes(ANY_BYTES)
    ox("send", queue, "--file", file if source == "file" else "-", stdin=ANY_BYTES)
    (message,) = ox("peek", queue, "--json").json_lines
    assert message["body_base64"].startswith("AAECAwQF")
    assert "body" not in message


def test_each_line_is_a_message(ox: Callable[..., Any], queue: str) -> None:
    """Without its line end, in order; also empty lines and a last line without an end."""
    assert ox("send", queue, "--partition-key", "k", stdin=b"one\r\n\ntwo \xff\nthree").out == "4 messages sent\n"
    assert ox("receive", queue, "--all", "--json").json_lines[2]["body_base64"] == "dHdvIP8="


def test_no_lines_send_nothing(ox: Callable[..., Any], queue: str) -> None:
    """An empty input sends no message."""
    assert ox("send", queue, "--json", stdin=b"").json == {"sent": 0}


def test_many_lines_arrive_once_each(ox: Callable[..., Any], queue: str) -> None:
    """More lines than fit into one batch."""
    lines = [f"{number:06}-{'x' * 300}" for number in range(5000)]
    assert ox("send", queue, "--json", stdin="\n".join(lines).encode()).json == {"sent": 5000}
    assert sorted(ox("receive", queue, "--all").out.splitlines()) == lines


def test_properties_go_with_the_message(ox: Callable[..., Any], queue: str) -> None:
    """System properties by their names, and application properties with their types."""
    texts = {
        "message_id": "m",
        "session_id": "s",
        "partition_key": "s",
        "subject": "about",
        "correlation_id": "c",
        "content_type": "text/plain",
        "to": "there",
        "reply_to": "here",
        "reply_to_session_id": "rs",
    }
    options = [part for name, text in texts.items() for part in ("--" + name.replace("_", "-"), text)]
    values = ["text=a=b", "n:int=-5", "f:float=0.5", "yes:bool=true", "at:datetime=2026-03-01T12:00", "a:b=c"]
    values += ["id:uuid=12345678-1234-5678-1234-567812345678", "wait:duration=1h30m"]
    properties = [part for value in values for part in ("--property", value)]
    ox("send", queue, "hello", *options, *properties, "--time-to-live", "1h")
    (message,) = ox("peek", queue, "--json").json_lines
    assert {name: message[name] for name in texts} == texts
    assert message["time_to_live"] == "PT3600S"
    assert message["application_properties"] == {
        "text": "a=b",
        "n": -5,
        "f": 0.5,
        "yes": True,
        "at": "2026-03-01T12:00:00+00:00",
        "a:b": "c",
        "id": "12345678-1234-5678-1234-567812345678",
        "wait": "PT5400S",
    }


@pytest.mark.parametrize("when", ["2100-03-01T12:00", "2100-03-01T12:00:00+00:00", "5000d"])
def test_scheduled_message_waits(ox: Callable[..., Any], queue: str, when: str) -> None:
    """A time in UTC, or a duration from now (B-232)."""
    ox("send", queue, "later", "--scheduled", when)
    (message,) = ox("peek", queue, "--json").json_lines
    assert message["state"] == "scheduled"
    assert ox("receive", queue).out == ""


def test_message_goes_to_the_subscriptions_of_a_topic(ox: Callable[..., Any]) -> None:
    """The command names a topic like a queue."""
    ox("topic", "create", "news")
    ox("subscription", "create", "news", "all")
    ox("send", "news", "hello")
    assert ox("receive", "news", "--subscription", "all").out == "hello\n"


def test_an_id_names_one_message(ox: Callable[..., Any], run: Callable[..., Any], queue: str) -> None:
    """Lines with one id would be duplicates of each other."""
    refused = run("send", queue, "--message-id", "m", stdin=b"one\ntwo\n")
    assert refused.code == 2
    assert ox("peek", queue, "--json").json_lines == []


def test_rejected_message_is_reported(ox: Callable[..., Any], run: Callable[..., Any], queue: str) -> None:
    """Different keys are an error, and nothing is stored (B-064)."""
    refused = run("send", queue, "--session-id", "s", "--partition-key", "p", stdin=b"one\n")
    assert (refused.code, refused.out) == (1, "")
    assert "partition_key" in refused.err
    assert ox("peek", queue, "--json").json_lines == []


def test_large_line_is_a_message(ox: Callable[..., Any], queue: str) -> None:
    """A line larger than a batch is sent alone, in order."""
    lines = [b"small", b"x" * 3_000_000, b"last"]
    assert ox("send", queue, "--partition-key", "k", "--json", stdin=b"\n".join(lines)).json == {"sent": 3}
    assert ox("receive", queue, "--all").out.encode().splitlines() == lines


def test_failure_reports_the_number_sent_before(ox: Callable[..., Any], run: Callable[..., Any], queue: str) -> None:
    """The lines before the rejected one are stored."""
    ox("queue", "update", queue, "--max-message-size-in-kilobytes", 1024)
    refused = run("send", queue, stdin=b"one\ntwo\n" + b"x" * 3_000_000)
    assert (refused.code, refused.out) == (1, "")
    assert "(sent before that: 2)" in refused.err
    assert ox("receive", queue, "--all").out == "one\ntwo\n"


def test_unknown_entity_is_reported(run: Callable[..., Any], queue: str) -> None:
    """One line with the name."""
    refused = run("send", f"{queue}-2", "hello")
    assert (refused.code, refused.out) == (1, "")
    assert f"{queue}-2" in refused.err
    assert len(refused.err.splitlines()) == 1


@pytest.mark.parametrize(
    "wrong", ["novalue", "=x", "n:int=five", "b:bool=1", "at:datetime=soon", "id:uuid=1", "w:duration=long"]
)
def test_property_that_cannot_be_read_is_wrong_usage(run: Callable[..., Any], queue: str, wrong: str) -> None:
    """The error shows the syntax of a property."""
    refused = run("send", queue, "hello", "--property", wrong)
    assert refused.code == 2
    assert "--property" in refused.err
