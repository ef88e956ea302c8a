# SPDX-License-Identifier: Apache-2.0
"""Deletion of idle entities (B-028, B-245, B-305, B-339, B-382 to B-388)."""

from __future__ import annotations

import time
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from oxbus.exceptions import MessagingEntityNotFoundError, ServiceBusError
from oxbus.management import SqlRuleFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

IDLE = timedelta(minutes=5)
NEARLY = IDLE.total_seconds() - 1
YEAR_1 = 1
LIVENESS_SECONDS = 60
"""How long a test waits before it considers something stuck; not a measure of speed."""


@pytest.fixture
def short_lived(make_queue: Callable[..., str]) -> str:
    """A queue that is deleted after five minutes without use."""
    return make_queue("short-lived", auto_delete_on_idle=IDLE)


def names(admin: ServiceBusAdministrationClient) -> list[str]:
    """Names of all queues."""
    return [queue.name for queue in admin.list_queues()]


@pytest.fixture
def used_by_waiting(admin: ServiceBusAdministrationClient, clock: ManualClock) -> Callable[[str], None]:
    """Let almost the idle time pass repeatedly, each time until a waiting call has counted as a use."""

    def used_by_waiting(name: str) -> None:
        for seconds in (1, *[NEARLY] * 5):
            clock.advance(seconds)
            end = time.monotonic() + LIVENESS_SECONDS
            while admin.get_queue_runtime_properties(name).accessed_at_utc != clock.now():
                assert time.monotonic() < end, "no receiver waits"

    return used_by_waiting


def test_an_unused_queue_is_deleted_with_its_messages(
    short_lived: str,
    queue_name: str,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
    make_queue: Callable[..., str],
) -> None:
    """After the idle time the queue is deleted; its handles fail, and a new one of its name is empty (B-382)."""
    sender, receiver = client.get_queue_sender(short_lived), client.get_queue_receiver(short_lived)
    sender.send_messages(ServiceBusMessage(b"x"))
    clock.advance(NEARLY)
    assert short_lived in names(admin)
    clock.advance(1)
    for call in (
        lambda: sender.send_messages(ServiceBusMessage(b"y")),
        lambda: receiver.receive_messages(max_wait_time=0),
        receiver.peek_messages,
        lambda: admin.get_queue(short_lived),
        lambda: admin.get_queue_runtime_properties(short_lived),
        lambda: admin.delete_queue(short_lived),
        lambda: client.get_queue_sender(short_lived).send_messages(ServiceBusMessage(b"y")),
    ):
        with pytest.raises(MessagingEntityNotFoundError, match=short_lived):
            call()
    assert names(admin) == [queue_name]
    make_queue(short_lived)
    assert admin.get_queue_runtime_properties(short_lived).total_message_count == 0


def test_never_is_the_default(queue_name: str, admin: ServiceBusAdministrationClient, clock: ManualClock) -> None:
    """A queue without the option is never deleted (B-022, B-382)."""
    clock.advance(10 * 365 * 86_400)
    assert names(admin) == [queue_name]


@pytest.mark.parametrize(
    "use",
    [
        lambda it: it.sender.send_messages(ServiceBusMessage(b"x")),
        lambda it: it.sender.send_messages([ServiceBusMessage(b"x")]),
        lambda it: it.receiver.receive_messages(max_wait_time=0),
        lambda it: it.receiver.peek_messages(),
        lambda it: it.admin.update_queue(it.admin.get_queue(it.name)),
        lambda it: it.admin.purge_messages(it.name),
        lambda it: it.admin.resubmit_dead_letters(it.name),
    ],
    ids=["send", "send a batch", "receive", "peek", "update", "purge", "resubmit"],
)
def test_uses_of_a_queue(
    short_lived: str,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
    use: Callable[..., object],
) -> None:
    """Each use restarts the idle time (B-305, B-383)."""
    with client.get_queue_sender(short_lived) as sender, client.get_queue_receiver(short_lived) as receiver:
        for _ in range(3):
            clock.advance(NEARLY)
            use(SimpleNamespace(sender=sender, receiver=receiver, admin=admin, name=short_lived))
        clock.advance(NEARLY)
        assert names(admin) == [short_lived]
        clock.advance(1)
        assert names(admin) == []


def test_reading_properties_is_not_a_use(
    short_lived: str, admin: ServiceBusAdministrationClient, clock: ManualClock
) -> None:
    """Reading options and counts does not count as a use (B-383)."""
    clock.advance(NEARLY)
    admin.get_queue(short_lived)
    admin.get_queue_runtime_properties(short_lived)
    assert names(admin) == [short_lived]
    clock.advance(1)
    assert names(admin) == []


def test_settling_and_renewing_are_uses(
    short_lived: str,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """Settlements and renewals count as uses, so a message in processing keeps its queue (B-383)."""
    with client.get_queue_sender(short_lived) as sender, client.get_queue_receiver(short_lived) as receiver:
        sender.send_messages(ServiceBusMessage(b"x"))
        message = receive_one(receiver)
        for _ in range(12):
            clock.advance(50)
            receiver.renew_message_lock(message)
        clock.advance(50)
        receiver.complete_message(message)
        clock.advance(NEARLY)
        assert names(admin) == [short_lived]
        clock.advance(1)
        assert names(admin) == []


@pytest.mark.parametrize("sub_queue", [None, "deadletter"])
def test_waiting_for_a_message_is_a_use(
    short_lived: str,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    used_by_waiting: Callable[[str], None],
    in_background: Callable[..., Any],
    sub_queue: str | None,
) -> None:
    """A waiting receiver keeps its queue, however long it waits (B-383)."""
    with client.get_queue_receiver(short_lived, sub_queue=sub_queue) as receiver:
        call = in_background(receiver.receive_messages, max_wait_time=60)
        used_by_waiting(short_lived)
        with client.get_queue_sender(short_lived) as sender, client.get_queue_receiver(short_lived) as other:
            sender.send_messages(ServiceBusMessage(b"x"))
            if sub_queue:
                (message,) = other.receive_messages(max_wait_time=60)
                other.dead_letter_message(message)
        assert [str(message) for message in call.result()] == ["x"]
    assert names(admin) == [short_lived]


def test_scheduled_messages_keep_their_queue(
    short_lived: str, client: ServiceBusClient, admin: ServiceBusAdministrationClient, clock: ManualClock
) -> None:
    """A queue with scheduled messages is not idle; once they are due it may be (B-245, B-383)."""
    with client.get_queue_sender(short_lived) as sender:
        sender.schedule_messages(ServiceBusMessage(b"x"), clock.now() + timedelta(hours=1))
    clock.advance(3599)
    assert names(admin) == [short_lived]
    clock.advance(1)
    assert admin.get_queue_runtime_properties(short_lived).active_message_count == 1
    clock.advance(NEARLY)
    assert names(admin) == [short_lived]
    clock.advance(1)
    assert names(admin) == []


def test_an_update_changes_the_idle_time(
    short_lived: str, admin: ServiceBusAdministrationClient, clock: ManualClock
) -> None:
    """The idle time can be set, changed and removed (B-028, B-382)."""
    queue = admin.get_queue(short_lived)
    queue.auto_delete_on_idle = timedelta(hours=1)
    admin.update_queue(queue)
    assert admin.get_queue(short_lived).auto_delete_on_idle == timedelta(hours=1)
    clock.advance(3599)
    queue.auto_delete_on_idle = timedelta.max
    admin.update_queue(queue)
    clock.advance(86_400)
    queue = admin.get_queue(short_lived)
    queue.auto_delete_on_idle = IDLE
    admin.update_queue(queue)
    clock.advance(NEARLY)
    assert names(admin) == [short_lived]
    clock.advance(1)
    assert names(admin) == []


@pytest.mark.parametrize("kind", ["queue", "topic", "subscription"])
@pytest.mark.parametrize(
    "value", [timedelta(0), timedelta(seconds=-1), timedelta(minutes=4, seconds=59, milliseconds=999)], ids=str
)
def test_less_than_five_minutes_is_refused(admin: ServiceBusAdministrationClient, kind: str, value: timedelta) -> None:
    """The shortest time is five minutes (B-028)."""
    admin.create_topic("t")
    create: Callable[..., object] = {
        "queue": lambda **options: admin.create_queue("x", **options),
        "topic": lambda **options: admin.create_topic("x", **options),
        "subscription": lambda **options: admin.create_subscription("t", "x", **options),
    }[kind]
    with pytest.raises((ServiceBusError, ValueError), match="auto_delete_on_idle"):
        create(auto_delete_on_idle=value)
    assert names(admin) == []
    assert [topic.name for topic in admin.list_topics()] == ["t"]
    assert list(admin.list_subscriptions("t")) == []
    create(auto_delete_on_idle=IDLE)


def test_a_source_of_forwarding_is_never_idle(
    make_queue: Callable[..., str], admin: ServiceBusAdministrationClient, clock: ManualClock
) -> None:
    """An entity that forwards its messages is not deleted (B-339, B-386)."""
    make_queue("target")
    make_queue("source", auto_delete_on_idle=IDLE, forward_to="target")
    clock.advance(86_400)
    assert sorted(names(admin)) == ["source", "target"]


def test_a_session_receiver_keeps_its_queue(
    make_queue: Callable[..., str],
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
    used_by_waiting: Callable[[str], None],
    in_background: Callable[..., Any],
) -> None:
    """Accepting, renewing and waiting for a session are uses (B-383)."""
    name = make_queue("talk", requires_session=True, auto_delete_on_idle=IDLE, lock_duration=timedelta(hours=1))
    with client.get_queue_receiver(name, session_id="a") as receiver:
        clock.advance(NEARLY)
        assert receiver.session is not None
        receiver.session.renew_lock()
        clock.advance(NEARLY)
        receiver.session.get_state()
        clock.advance(NEARLY - 1)
        assert names(admin) == [name]

    def next_session() -> str | None:
        with client.get_queue_receiver(name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=60) as receiver:
            assert receiver.session is not None
            return receiver.session.session_id

    with client.get_queue_sender(name) as sender:
        call = in_background(next_session)
        used_by_waiting(name)
        sender.send_messages(ServiceBusMessage(b"x", session_id="b"))
        assert call.result() == "b"
    clock.advance(IDLE.total_seconds())
    assert names(admin) == []


def subscriptions(admin: ServiceBusAdministrationClient) -> list[str]:
    """Names of the subscriptions of the topic `news`."""
    return [subscription.name for subscription in admin.list_subscriptions("news")]


def test_an_unused_subscription_is_deleted(
    topic: str,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
) -> None:
    """Sends to its topic do not count as uses of a subscription; topic and other subscriptions stay (B-385)."""
    subscribe("short", auto_delete_on_idle=IDLE)
    subscribe("long")
    clock.advance(NEARLY)
    publish("x")
    assert subscriptions(admin) == ["long", "short"]
    clock.advance(1)
    assert subscriptions(admin) == ["long"]
    publish("y")
    assert admin.get_subscription_runtime_properties(topic, "long").active_message_count == 2
    with pytest.raises(MessagingEntityNotFoundError):
        admin.get_subscription(topic, "short")


@pytest.mark.parametrize(
    "use",
    [
        lambda it: it.receiver.receive_messages(max_wait_time=0),
        lambda it: it.receiver.peek_messages(),
        lambda it: it.admin.update_subscription("news", it.admin.get_subscription("news", "all")),
        lambda it: it.admin.create_rule("news", "all", f"rule-{id(object())}", filter=SqlRuleFilter("a = 1")),
    ],
    ids=["receive", "peek", "update", "rule"],
)
def test_uses_of_a_subscription_are_uses_of_its_topic(
    make_topic: Callable[..., str],
    subscribe: Callable[..., str],
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
    use: Callable[..., object],
) -> None:
    """Receives, peeks, updates and new rules keep a subscription and its topic (B-384, B-385)."""
    topic = make_topic(auto_delete_on_idle=IDLE)
    subscribe(auto_delete_on_idle=IDLE)
    with client.get_subscription_receiver(topic, "all") as receiver:
        clock.advance(NEARLY)
        use(SimpleNamespace(receiver=receiver, admin=admin))
        clock.advance(NEARLY)
        assert subscriptions(admin) == ["all"]
        clock.advance(1)
        assert list(admin.list_topics()) == []
        with pytest.raises(MessagingEntityNotFoundError):
            receiver.receive_messages(max_wait_time=0)


@pytest.mark.parametrize(
    "use",
    [
        lambda it: it.sender.send_messages(ServiceBusMessage(b"x")),
        lambda it: it.admin.update_topic(it.admin.get_topic("news")),
    ],
    ids=["send", "update"],
)
def test_uses_of_a_topic(
    make_topic: Callable[..., str],
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
    use: Callable[..., object],
) -> None:
    """Sends and updates keep a topic; an idle one is deleted with its subscriptions (B-384)."""
    topic = make_topic(auto_delete_on_idle=IDLE)
    with client.get_topic_sender(topic) as sender:
        clock.advance(NEARLY)
        use(SimpleNamespace(sender=sender, admin=admin))
        clock.advance(NEARLY)
        assert [it.name for it in admin.list_topics()] == [topic]
        admin.create_subscription(topic, "s")
        clock.advance(IDLE.total_seconds())
        assert list(admin.list_topics()) == []
        with pytest.raises(MessagingEntityNotFoundError):
            sender.send_messages(ServiceBusMessage(b"x"))
    with pytest.raises(MessagingEntityNotFoundError):
        admin.get_subscription(topic, "s")


def test_scheduled_messages_keep_their_topic(
    make_topic: Callable[..., str], client: ServiceBusClient, admin: ServiceBusAdministrationClient, clock: ManualClock
) -> None:
    """A topic with scheduled messages is not idle (B-245, B-384)."""
    topic = make_topic(auto_delete_on_idle=IDLE)
    with client.get_topic_sender(topic) as sender:
        sender.schedule_messages(ServiceBusMessage(b"x"), clock.now() + timedelta(hours=1))
    clock.advance(3599)
    assert [it.name for it in admin.list_topics()] == [topic]


def test_time_of_the_last_use(
    queue_name: str,
    sender: ServiceBusSender,
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
) -> None:
    """It starts at year 1; a send and the opening of a receiver update it (B-388)."""
    assert admin.get_queue_runtime_properties(queue_name).accessed_at_utc.year == YEAR_1
    clock.advance(10)
    sender.send_messages(ServiceBusMessage(b"x"))
    assert admin.get_queue_runtime_properties(queue_name).accessed_at_utc == clock.now()
    clock.advance(10)
    receiver: ServiceBusReceiver
    with client.get_queue_receiver(queue_name) as receiver:
        receiver.receive_messages(max_wait_time=0)
        assert admin.get_queue_runtime_properties(queue_name).accessed_at_utc == clock.now()


def test_opening_a_subscription_receiver_accesses_the_topic(
    topic: str,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
) -> None:
    """Opening it updates the access time of the topic too; a send updates the topic's only (B-388)."""
    name = subscribe()
    publish("x")
    sent = clock.now()
    assert admin.get_topic_runtime_properties(topic).accessed_at_utc == sent
    assert admin.get_subscription_runtime_properties(topic, "all").accessed_at_utc.year == YEAR_1
    clock.advance(10)
    with client.get_subscription_receiver(topic, name) as receiver:
        receiver.receive_messages(max_wait_time=0)
    assert admin.get_topic_runtime_properties(topic).accessed_at_utc == clock.now()
    assert admin.get_subscription_runtime_properties(topic, name).accessed_at_utc == clock.now()
