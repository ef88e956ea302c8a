# SPDX-License-Identifier: Apache-2.0
"""`oxbus copy`: everything arrives once, between directories and servers, also when the command is killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import EntityStatus, RuleProperties, ServiceBusAdministrationClient, SqlRuleAction, SqlRuleFilter
from oxbus.server import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from oxbus import ServiceBusReceiver

PARTITIONS = 4
SUBSCRIPTIONS = [("news", "all"), ("news", "red")]
DUE = datetime(2099, 1, 1, tzinfo=UTC)
KILLS = 12


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Callable[[str, str], str]]:
    """Make a namespace, and return how a command names it: a directory, or a server of a namespace in memory."""
    with ExitStack() as opened:

        def place(kind: str, name: str) -> str:
            if kind == "directory":
                Namespace(tmp_path / name, partitions=PARTITIONS).close()
                return str(tmp_path / name)
            namespace = opened.enter_context(Namespace(partitions=PARTITIONS))
            server = opened.enter_context(serve(namespace, certificate_out=tmp_path / f"{name}.pem"))
            return server.connection_string

        yield place


class Sides:
    """Clients of a namespace that a command names."""

    def __init__(self, place: str) -> None:
        text = place if "://" in place else f"Endpoint=file://{place}"
        self.admin = ServiceBusAdministrationClient.from_connection_string(text)
        self.client = ServiceBusClient.from_connection_string(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.admin.close()

    def send(self, entity: str, *messages: ServiceBusMessage) -> None:
        """Send messages, each for itself."""
        with self.client.get_queue_sender(entity) as sender:
            for message in messages:
                sender.send_messages(message)

    def receiver(self, *entity: str, **options: Any) -> ServiceBusReceiver:
        """A receiver of a queue or a subscription."""
        get = self.client.get_queue_receiver if len(entity) == 1 else self.client.get_subscription_receiver
        receiver: ServiceBusReceiver = get(*entity, max_wait_time=5, **options)
        return receiver

    def messages(self, *entity: str, sub_queue: str | None = None) -> list[tuple[Any, ...]]:
        """What a queue or a subscription contains, sorted."""
        found = []
        with self.receiver(*entity, sub_queue=sub_queue) as receiver:
            while page := receiver.peek_messages(100):
                for message in page:
                    properties = dict(message.application_properties or {})
                    found.append(
                        (
                            str(message),
                            message.message_id,
                            message.session_id,
                            message.partition_key,
                            message.subject,
                            message.scheduled_enqueue_time_utc,
                            tuple(sorted(properties.items())),
                            message.dead_letter_reason,
                            message.dead_letter_error_description,
                        )
                    )
        return sorted(found, key=repr)


def fill(side: Sides) -> None:
    """Make entities of every kind, with messages in every state."""
    admin, client = side.admin, side.client
    admin.create_queue(
        "plain", max_delivery_count=3, user_metadata="ours", default_message_time_to_live=timedelta(days=9)
    )
    admin.create_queue("sessions", requires_session=True, enable_partitioning=True)
    admin.create_queue("once", requires_duplicate_detection=True)
    admin.create_queue("forwards", forward_dead_lettered_messages_to="plain", status=EntityStatus.DISABLED)
    admin.create_queue("empty", forward_to="plain", lock_duration=timedelta(seconds=33))
    side.send("plain", *(ServiceBusMessage(f"p{number}", subject="s") for number in range(8)))
    side.send("plain", ServiceBusMessage("same", message_id="same"), ServiceBusMessage("same", message_id="same"))
    side.send(
        "plain",
        ServiceBusMessage("later", scheduled_enqueue_time_utc=DUE),
        ServiceBusMessage("typed", application_properties={"i": 7, "f": 1.5, "b": True, "s": "x", "y": b"z", "t": DUE}),
        ServiceBusMessage("short", time_to_live=timedelta(hours=1), correlation_id="c", reply_to="r", to="t"),
    )
    with side.receiver("plain") as receiver:
        for message, outcome in zip(receiver.receive_messages(4), ["dead", "plain", "defer", "keep"], strict=True):
            if outcome == "dead":
                receiver.dead_letter_message(message, reason="bad", error_description="very bad")
            elif outcome == "plain":
                receiver.dead_letter_message(message)
            elif outcome == "defer":
                receiver.defer_message(message)
    for session in "abc":
        side.send("sessions", *(ServiceBusMessage(f"{session}{number}", session_id=session) for number in range(5)))
        with side.receiver("sessions", session_id=session) as receiver:
            assert receiver.session is not None
            receiver.session.set_state(f"state of {session}".encode())
            (message,) = receiver.receive_messages()
            receiver.dead_letter_message(message, reason=session)
    admin.update_queue(admin.get_queue("sessions"), status=EntityStatus.SEND_DISABLED)
    side.send("once", *(ServiceBusMessage(f"o{number}", message_id=str(number)) for number in range(5)))
    admin.create_topic("news", enable_partitioning=True, requires_duplicate_detection=False)
    admin.create_subscription("news", "all", forward_to=None)
    red = RuleProperties(
        "red", filter=SqlRuleFilter("colour = 'red'"), action=SqlRuleAction("SET seen = 'yes'"), created_at_utc=None
    )
    admin.create_subscription("news", "red", rule=red)
    admin.create_rule("news", "red", "also", filter=SqlRuleFilter("colour = 'pink'"))
    with client.get_topic_sender("news") as sender:
        for number, colour in enumerate(["red", "blue", "pink", "red", "green"]):
            sender.send_messages(ServiceBusMessage(f"n{number}", application_properties={"colour": colour}))
    with side.receiver("news", "red") as receiver:
        (message,) = receiver.receive_messages()
        receiver.dead_letter_message(message, reason="old news")


def contents(side: Sides) -> dict[str, Any]:
    """All entities, and all that they contain."""
    # A server does not tell the last two.
    left_out = {
        "max_message_size_in_kilobytes",
        "size_in_bytes",
        "expire_whole_sessions",
        "total_max_size_in_megabytes",
    }
    values: dict[str, Any] = {}

    def add(path: tuple[str, ...], properties: Any) -> None:
        values[repr(path)] = {name: value for name, value in properties.items() if name not in left_out}
        for sub_queue in (None, "deadletter"):
            values[f"{path} {sub_queue}"] = side.messages(*path, sub_queue=sub_queue)

    for queue in side.admin.list_queues():
        add((queue.name,), queue)
    for topic in side.admin.list_topics():
        values[topic.name] = {name: value for name, value in topic.items() if name not in left_out}
        for subscription in side.admin.list_subscriptions(topic.name):
            add((topic.name, subscription.name), subscription)
            rules = side.admin.list_rules(topic.name, subscription.name)
            values[f"rules {subscription.name}"] = sorted(
                (rule.name, repr(rule.filter), repr(rule.action)) for rule in rules
            )
    for session in "abc":
        with side.receiver("sessions", session_id=session) as receiver:
            assert receiver.session is not None
            values[f"state {session}"] = receiver.session.get_state()
    return values


@pytest.mark.parametrize(
    ("source", "target"),
    [("directory", "directory"), ("directory", "server"), ("server", "directory"), ("server", "server")],
)
def test_everything_is_copied(
    source: str, target: str, place: Callable[[str, str], str], run: Callable[..., Any]
) -> None:
    """Entities with their options and rules, messages in every state, dead letters, states of sessions."""
    places = place(source, "source"), place(target, "target")
    with Sides(places[0]) as side:
        fill(side)
        before = contents(side)
    done = run("copy", *places, "--json").json
    assert done["plain"] == {
        "messages": 11,
        "dead_letters": 2,
        "session_states": 0,
        "expired": 0,
        "were_deferred": 1,
        "left": 0,
    }
    assert (done["sessions"]["session_states"], done["sessions"]["dead_letters"]) == (3, 3)
    with Sides(places[0]) as side:
        assert contents(side) == before
    with Sides(places[1]) as side:
        after = contents(side)
        for key, value in before.items():
            assert after[key] == value, key
        assert after.keys() == before.keys()
        # What was deferred can be received.
        with side.receiver("plain") as receiver:
            assert {str(message) for message in receiver.receive_messages(20)} >= {"p2", "p3", "p7"}
        # Subscriptions deliver by their rules again.
        with side.client.get_topic_sender("news") as sender:
            sender.send_messages(ServiceBusMessage("new", application_properties={"colour": "red"}))
        with side.receiver("news", "red") as receiver:
            texts: list[str] = []
            while "new" not in texts:
                texts += map(str, receiver.receive_messages(10))
        assert texts.count("new") == 1
    again = run("copy", *places)
    assert again.code == 1
    assert "the target already has empty, forwards" in again.err


def test_messages_with_one_id_are_copied(place: Callable[[str, str], str], run: Callable[..., Any]) -> None:
    """A queue that detects duplicates may hold two messages with one id, sent at different times."""
    places = place("directory", "source"), place("directory", "target")
    with Sides(places[0]) as side:
        side.admin.create_queue(
            "once", requires_duplicate_detection=True, duplicate_detection_history_time_window=timedelta(seconds=1)
        )
        side.send("once", ServiceBusMessage("1", message_id="same"))
        time.sleep(1.5)
        side.send("once", ServiceBusMessage("2", message_id="same"))
        # Its subscriptions have messages with one id, too.
        side.admin.create_topic("news", requires_duplicate_detection=True)
        for name in ("a", "b"):
            side.admin.create_subscription("news", name)
        with side.client.get_topic_sender("news") as sender:
            sender.send_messages(ServiceBusMessage("3", message_id="same"))
    assert run("copy", *places, "--json").json["once"]["messages"] == 2
    with Sides(places[1]) as side:
        assert [entry[0] for entry in side.messages("once")] == ["1", "2"]
        for name in ("a", "b"):
            assert [entry[0] for entry in side.messages("news", name)] == ["3"]
        window = side.admin.get_queue("once").duplicate_detection_history_time_window
        assert window == timedelta(seconds=1)


@pytest.mark.parametrize("target", ["directory", "server"])
def test_a_copy_that_is_killed_goes_on(target: str, place: Callable[[str, str], str], run: Callable[..., Any]) -> None:
    """However often and wherever it is killed: nothing is lost, nothing is there twice."""
    places = place("directory", "source"), place(target, "target")
    with Sides(places[0]) as side:
        fill(side)
        with side.client.get_queue_sender("plain") as sender:
            for number in range(0, 3_000, 100):
                sender.send_messages([ServiceBusMessage(f"many {number + index}") for index in range(100)])
        with side.receiver("plain", sub_queue=None) as receiver:
            for message in receiver.receive_messages(300):
                receiver.dead_letter_message(message, reason="many")
        before = contents(side)
    chance = random.Random(7)
    is_killed = False
    for _ in range(KILLS):
        process = subprocess.Popen([sys.executable, "-m", "oxbus.cli", "copy", *places], stderr=subprocess.PIPE)
        try:
            process.communicate(timeout=chance.uniform(0.15, 1.2))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            is_killed = True
    assert is_killed
    done = run("copy", *places)
    # The last kill may have come between the last step and the exit.
    assert done.code == 0 or "the target already has" in done.err
    with Sides(places[1]) as side:
        after = contents(side)
        for key, value in before.items():
            assert after[key] == value, (key, set(after[key]) ^ set(value) if isinstance(value, list) else None)
    assert run("copy", *places).code == 1


def test_time_to_live_goes_on(place: Callable[[str, str], str], run: Callable[..., Any]) -> None:
    """A copy expires when its message would have: by its own time to live, or by that of its queue."""
    places = place("directory", "source"), place("directory", "target")
    with Sides(places[0]) as side:
        side.admin.create_queue("orders", default_message_time_to_live=timedelta(hours=5))
        side.admin.create_queue("forever")
        own = timedelta(hours=1)
        side.send("orders", ServiceBusMessage("default"), ServiceBusMessage("own", time_to_live=own))
        side.send("orders", ServiceBusMessage("expired", time_to_live=timedelta(milliseconds=1)))
        side.send("forever", ServiceBusMessage("never"))
    run("copy", *places)
    with Sides(places[1]) as side:
        for name, hours in (("orders", {"default": 5.0, "own": 1.0}), ("forever", {"never": None})):
            with side.receiver(name) as receiver:
                found = {str(message): message for message in receiver.peek_messages(10)}
            assert found.keys() == hours.keys()
            for text, wanted in hours.items():
                end = found[text].expires_at_utc
                if wanted is None or end is None:
                    assert (wanted, end) == (None, None)
                else:
                    assert abs((end - datetime.now(UTC)).total_seconds() / 3600 - wanted) < 0.05


def test_chosen_entities(place: Callable[[str, str], str], run: Callable[..., Any]) -> None:
    """Only these, and later the others."""
    places = place("directory", "source"), place("directory", "target")
    with Sides(places[0]) as side:
        for name in ("a", "b", "c"):
            side.admin.create_queue(name)
            side.send(name, ServiceBusMessage(name))
    assert run("copy", *places, "--entity", "a", "--entity", "c", "--json").json.keys() == {"a", "c"}
    missing = run("copy", *places, "--entity", "d")
    assert (missing.code, missing.err) == (1, "oxbus: the source has no queue or topic `d`; check the name\n")
    table = run("copy", *places, "--entity", "b")
    assert table.code == 0
    assert "b" in table.out


def test_scheduled_messages_of_a_topic_are_told(place: Callable[[str, str], str], run: Callable[..., Any]) -> None:
    """Nobody can read them before they are due, so they stay."""
    places = place("directory", "source"), place("directory", "target")
    with Sides(places[0]) as side:
        side.admin.create_topic("news")
        with side.client.get_topic_sender("news") as sender:
            sender.schedule_messages(ServiceBusMessage("later"), DUE)
    assert run("copy", *places, "--json").json["news"]["left"] == 1


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        ("{a}", "{a}", "the same namespace"),
        ("{a}", "{a}/nowhere", "there is no namespace in"),
        ("memory://x", "{a}", "a namespace inside one process"),
        ("Endpoint=sb://", "{a}", "Endpoint"),
    ],
)
def test_refusals(
    source: str, target: str, text: str, place: Callable[[str, str], str], run: Callable[..., Any]
) -> None:
    """A wrong place is explained."""
    a = place("directory", "a")
    done = run("copy", source.format(a=a), target.format(a=a))
    assert done.code != 0
    assert text in done.err
