# SPDX-License-Identifier: Apache-2.0
"""One of sixteen partitions is out of service: what each operation does meanwhile, and that healing brings all back.

This is the matrix of docs/behaviour.md section 3.1. Each row is a generator: what it does before the outage, then what
must hold while partition 3 is down, then what must hold once it is healed.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from oxbus.exceptions import OperationTimeoutError, PartialSendError, PartitionUnavailableError
from oxbus.management import EntityAvailabilityStatus, ServiceBusAdministrationClient, SqlRuleFilter
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from oxbus import Namespace, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.testing import ManualClock

ALL = range(16)
BAD = 3
GOOD = [partition_id for partition_id in ALL if partition_id != BAD]
KEYS = {
    partition_id: next(key for key in (f"key-{n}" for n in range(10_000)) if oxbus.partition_id(key) == partition_id)
    for partition_id in ALL
}
"""One key for each partition."""

OUTAGES = {
    "memory": ("memory", "unavailable"),
    "durable": ("durable", "unavailable"),
    "durable, failed disk": ("durable", "eio-write"),
}
"""Where messages live, and what takes the partition out of service."""

EMPTY_RECEIVES = 3
LIMITED = EntityAvailabilityStatus.LIMITED
AVAILABLE = EntityAvailabilityStatus.AVAILABLE


def home_in(partition_id: int, *taken: str) -> str:
    """The name of a queue without partitions that lives in one partition."""
    names = (f"plain-{number}" for number in range(10_000))
    return next(name for name in names if name not in taken and oxbus.partition_id(name) == partition_id)


HOMED = home_in(BAD)
ELSEWHERE = home_in(GOOD[0])


class Scene:
    """A namespace with one entity of each kind, of which partition 3 can fail."""

    def __init__(self, namespace: Namespace, clock: ManualClock, fault: str) -> None:
        self.namespace = namespace
        self.clock = clock
        self.client = ServiceBusClient(namespace)
        self.admin = ServiceBusAdministrationClient(namespace)
        self._fault = fault
        self._receivers: dict[tuple[str, ...], ServiceBusReceiver] = {}
        self.admin.create_queue("q", enable_partitioning=True)
        self.admin.create_queue("ids", enable_partitioning=True, requires_duplicate_detection=True)
        self.admin.create_queue("sessions", enable_partitioning=True, requires_session=True)
        self.admin.create_queue(HOMED)
        self.admin.create_queue(ELSEWHERE)
        self.admin.create_topic("news", enable_partitioning=True)
        self.admin.create_subscription("news", "all")
        self.admin.create_subscription("news", "some")

    def fail(self, *partitions: int) -> None:
        """Take the partition out of service, or others."""
        for partition_id in partitions or (BAD,):
            inject_fault(self.namespace, partition_id, self._fault)
            # A disk that fails is noticed by the next who writes there.
            with pytest.raises(PartitionUnavailableError) as refusal:
                self.send("never acknowledged", partition_key=KEYS[partition_id])
            assert refusal.value.is_transient

    def heal(self, *partitions: int) -> None:
        """End the outage."""
        for partition_id in partitions or (BAD,):
            heal(self.namespace, partition_id)
        assert {entry.status for entry in self.namespace.partition_health()} == {"healthy"}

    def sender(self, entity: str = "q") -> ServiceBusSender:
        """A sender to a queue, or to the topic."""
        if entity == "news":
            return self.client.get_topic_sender(entity)
        return self.client.get_queue_sender(entity)

    def send(self, *texts: str, to: str = "q", **options: Any) -> None:
        """Send each text as a message of its own."""
        with self.sender(to) as sender:
            for text in texts:
                sender.send_messages(ServiceBusMessage(text, **options))

    def send_to_each(self, text: str, *, to: str = "q", partitions: Any = ALL) -> None:
        """Send a text to each partition, followed by its number."""
        for partition_id in partitions:
            self.send(f"{text} {partition_id}", to=to, partition_key=KEYS[partition_id])

    def receiver(self, *path: str, **options: Any) -> ServiceBusReceiver:
        """The one receiver of a queue, or of a subscription, that stays until the end; with options a new one."""
        get = self.client.get_queue_receiver if len(path) < 2 else self.client.get_subscription_receiver
        path = path or ("q",)
        if options:
            return get(*path, **options)
        return self._receivers.setdefault(path, get(*path))

    def take(self, *path: str, **options: Any) -> list[ServiceBusReceivedMessage]:
        """Receive all that can be received."""
        return drain(self.receiver(*path, **options))

    def take_from(self, partition_id: int, *path: str) -> ServiceBusReceivedMessage:
        """Receive all, and return the one message of a partition."""
        (message,) = (message for message in self.take(*path) if message.partition_id == partition_id)
        return message

    def peek(self, *path: str) -> list[str]:
        """The texts of all that can be browsed, sorted."""
        found: list[str] = []
        with self.receiver(*path, prefetch_count=0) as browser:
            while batch := browser.peek_messages(100):
                found += map(str, batch)
        return sorted(found)

    def accept(self, session_id: Any) -> ServiceBusReceiver:
        """Accept a session, without a wait for one."""
        return self.client.get_queue_receiver("sessions", session_id=session_id, max_wait_time=0).__enter__()


def drain(receiver: ServiceBusReceiver) -> list[ServiceBusReceivedMessage]:
    """Receive until several receives in a row come back empty, since one may come back short (B-135)."""
    messages: list[ServiceBusReceivedMessage] = []
    empty = 0
    while empty < EMPTY_RECEIVES:
        batch = receiver.receive_messages(max_message_count=100, max_wait_time=0)
        messages += batch
        empty = 0 if batch else empty + 1
    return messages


def id_of(receiver: ServiceBusReceiver) -> str | None:
    """The id of the session that a receiver has accepted."""
    assert receiver.session is not None
    return receiver.session.session_id


def texts(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies as texts, sorted."""
    return sorted(map(str, messages))


def each(text: str, partitions: Any) -> list[str]:
    """What `Scene.send_to_each` sent to some partitions."""
    return sorted(f"{text} {partition_id}" for partition_id in partitions)


def refused(*calls: Callable[[], Any]) -> None:
    """Each call says that the partition is out of service, and that it can be repeated."""
    for call in calls:
        with pytest.raises(PartitionUnavailableError) as refusal:
            call()
        assert refusal.value.is_transient


def send_keyed_to_the_partition(scene: Scene) -> Generator[None]:
    """Error at once; nothing of it is stored (B-074, B-090)."""
    yield
    with scene.sender() as sender:
        batch = sender.create_message_batch()
        batch.add_message(ServiceBusMessage("refused", partition_key=KEYS[BAD]))
        refused(
            lambda: scene.send("refused", partition_key=KEYS[BAD]),
            lambda: scene.send("refused", session_id=KEYS[BAD]),
            lambda: scene.send("refused", session_id=KEYS[BAD], partition_key=KEYS[BAD]),
            lambda: sender.send_messages([ServiceBusMessage("refused", partition_key=KEYS[BAD]) for _ in range(3)]),
            lambda: sender.send_messages(batch),
        )
    yield
    assert scene.peek() == []
    scene.send("stored", partition_key=KEYS[BAD])
    assert scene.take_from(BAD).partition_id == BAD


def send_keyed_to_other_partitions(scene: Scene) -> Generator[None]:
    """Success, in the partition of the key (B-099)."""
    yield
    scene.send_to_each("kept", partitions=GOOD)
    assert {str(message): message.partition_id for message in scene.take()} == {f"kept {it}": it for it in GOOD}
    yield
    assert scene.take() == []


def send_keyless(scene: Scene) -> Generator[None]:
    """Success, each message once in another partition (B-073, B-091)."""
    yield
    scene.send(*map(str, range(48)))
    messages = scene.take()
    assert texts(messages) == sorted(map(str, range(48)))
    assert {message.partition_id for message in messages} == set(GOOD)
    yield
    assert scene.take() == []
    scene.send(*map(str, range(48)))
    assert {message.partition_id for message in scene.take()} == set(ALL)


def send_a_keyless_batch(scene: Scene) -> Generator[None]:
    """Success, the whole batch in one other partition (B-081)."""
    yield
    with scene.sender() as sender:
        for number in range(32):
            sender.send_messages([ServiceBusMessage(f"{number}") for _ in range(3)])
    found = Counter((str(message), message.partition_id) for message in scene.take())
    assert set(found.values()) == {3}
    assert {partition_id for _, partition_id in found} == set(GOOD)
    assert len(found) == 32
    yield
    assert scene.take() == []


def send_a_table(scene: Scene) -> Generator[None]:
    """Rows with the partition's key are named as not stored; all others are stored, those without a key elsewhere."""
    pa = pytest.importorskip("pyarrow")
    yield
    keys = [KEYS[BAD], KEYS[GOOD[0]], None, None]
    table = pa.table({"body": [b"0", b"1", b"2", b"3"], "partition_key": keys})
    with scene.sender() as sender, pytest.raises(PartialSendError) as refusal:
        sender.send_arrow(table)
    assert refusal.value.rows == [0]
    assert texts(scene.take()) == ["1", "2", "3"]
    yield
    with scene.sender() as sender:
        sender.send_arrow(table.slice(0, 1))
    assert texts(scene.take()) == ["0"]


def send_with_a_message_id(scene: Scene) -> Generator[None]:
    """The id is the key under duplicate detection; a refused one is free, one that was taken stays so (B-219)."""
    scene.send("first", to="ids", message_id=KEYS[BAD])
    other = next(key for key in (f"id-{n}" for n in range(10_000)) if oxbus.partition_id(key) == BAD)
    yield
    refused(
        lambda: scene.send("copy", to="ids", message_id=KEYS[BAD]),
        lambda: scene.send("refused", to="ids", message_id=other),
    )
    scene.send("elsewhere", "copy", to="ids", message_id=KEYS[GOOD[0]])
    assert texts(scene.take("ids")) == ["elsewhere"]
    yield
    scene.send("copy", to="ids", message_id=KEYS[BAD])
    scene.send("second", "copy", to="ids", message_id=other)
    assert texts(scene.take("ids")) == ["first", "second"]


def schedule(scene: Scene) -> Generator[None]:
    """Keyed as a send, keyless elsewhere; what waits in the partition comes due once it is healed (B-237, B-238)."""
    soon = scene.clock.now() + timedelta(minutes=1)
    with scene.sender() as sender:
        sender.schedule_messages([ServiceBusMessage("due", partition_key=KEYS[BAD])], soon)
        sender.schedule_messages([ServiceBusMessage("due elsewhere", partition_key=KEYS[GOOD[0]])], soon)
        yield
        refused(lambda: sender.schedule_messages(ServiceBusMessage("refused", partition_key=KEYS[BAD]), soon))
        for number in range(16):
            (scheduled,) = sender.schedule_messages(ServiceBusMessage(f"keyless {number}"), soon)
            assert scheduled >> 48 != BAD
    scene.clock.advance(120)
    assert texts(scene.take()) == sorted(["due elsewhere", *(f"keyless {number}" for number in range(16))])
    yield
    (message,) = scene.take()
    assert (str(message), message.partition_id) == ("due", BAD)


def cancel_scheduled(scene: Scene) -> Generator[None]:
    """Error for the partition, success elsewhere (B-095)."""
    soon = scene.clock.now() + timedelta(minutes=1)
    with scene.sender() as sender:
        numbers = {
            partition_id: sender.schedule_messages(ServiceBusMessage("x", partition_key=KEYS[partition_id]), soon)
            for partition_id in ALL
        }
        yield
        refused(lambda: sender.cancel_scheduled_messages(numbers[BAD]))
        for partition_id in GOOD:
            sender.cancel_scheduled_messages(numbers[partition_id])
        yield
        sender.cancel_scheduled_messages(numbers[BAD])
    scene.clock.advance(120)
    assert scene.take() == []


def receive(scene: Scene) -> Generator[None]:
    """Messages of the other partitions; nothing when only the partition has some (B-093)."""
    scene.send_to_each("kept")
    yield
    messages = scene.take()
    assert texts(messages) == each("kept", GOOD)
    scene.receiver().complete_messages(messages)
    assert scene.take() == []
    with scene.receiver("q", max_wait_time=0) as receiver:
        assert list(receiver) == []
    yield
    (message,) = scene.take()
    assert (str(message), message.delivery_count) == (f"kept {BAD}", 0)


def receive_and_delete(scene: Scene) -> Generator[None]:
    """The same; what is in the partition stays (B-093)."""
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    scene.send_to_each("kept")
    yield
    assert texts(scene.take("q", receive_mode=mode)) == each("kept", GOOD)
    yield
    assert texts(scene.take("q", receive_mode=mode)) == [f"kept {BAD}"]


def receive_from_a_prefetch_cache(scene: Scene) -> Generator[None]:
    """A message of the partition that was prefetched is not handed out either, and is not lost (B-093, B-125)."""
    scene.send_to_each("kept")
    receiver = scene.receiver("q", prefetch_count=100)
    first = receiver.receive_messages(max_wait_time=0)
    yield
    messages = first + drain(receiver)
    assert {message.partition_id for message in messages} - {first[0].partition_id} == set(GOOD) - {
        first[0].partition_id
    }
    yield
    assert texts(messages + drain(receiver)) == each("kept", ALL)


def settle_and_renew(scene: Scene) -> Generator[None]:
    """Error for a message of the partition, success elsewhere; the lock holds until afterwards (B-095)."""
    for text in ("complete", "abandon", "defer", "dead-letter", "renew"):
        scene.send_to_each(text, partitions=(BAD, GOOD[0]))
    receiver = scene.receiver()
    held = {str(message): message for message in scene.take()}

    def calls(partition_id: int) -> list[Callable[[], Any]]:
        return [
            lambda: receiver.complete_message(held[f"complete {partition_id}"]),
            lambda: receiver.abandon_message(held[f"abandon {partition_id}"]),
            lambda: receiver.defer_message(held[f"defer {partition_id}"]),
            lambda: receiver.dead_letter_message(held[f"dead-letter {partition_id}"]),
            lambda: receiver.renew_message_lock(held[f"renew {partition_id}"]),
        ]

    yield
    refused(*calls(BAD))
    for call in calls(GOOD[0]):
        call()
    yield
    for call in calls(BAD):
        call()
    runtime = scene.admin.get_queue_runtime_properties("q")
    assert (runtime.active_message_count, runtime.dead_letter_message_count) == (6, 2)
    assert texts(scene.take()) == each("abandon", (BAD, GOOD[0]))


def settle_several(scene: Scene) -> Generator[None]:
    """A list with a message of the partition is refused as a whole, and can be settled afterwards (B-095)."""
    scene.send_to_each("kept")
    messages = scene.take()
    yield
    refused(lambda: scene.receiver().complete_messages(messages))
    yield
    scene.receiver().complete_messages(messages)
    assert scene.peek() == []


def locks_that_end_meanwhile(scene: Scene) -> Generator[None]:
    """The message is ready again, one delivery charged, once the partition is healed (B-095, B-160)."""
    scene.send("kept", partition_key=KEYS[BAD])
    scene.take_from(BAD)
    yield
    scene.clock.advance(300)
    assert scene.take() == []
    yield
    assert scene.take_from(BAD).delivery_count == 1


def peek(scene: Scene) -> Generator[None]:
    """Messages of the other partitions, also from a number of the partition on (B-093, B-297)."""
    scene.send_to_each("kept")
    with scene.receiver("q", prefetch_count=0) as browser:
        number = next(it.sequence_number for it in browser.peek_messages(16) if it.partition_id == BAD)
    yield
    assert scene.peek() == each("kept", GOOD)
    with scene.receiver("q", prefetch_count=0) as browser:
        assert {it.partition_id for it in browser.peek_messages(16, sequence_number=number)} <= set(GOOD)
    yield
    assert scene.peek() == each("kept", ALL)


def receive_deferred(scene: Scene) -> Generator[None]:
    """Error for a number of the partition, success elsewhere (B-095)."""
    scene.send_to_each("kept", partitions=(BAD, GOOD[0]))
    numbers = {}
    for message in scene.take():
        numbers[message.partition_id] = message.sequence_number
        scene.receiver().defer_message(message)
    yield
    refused(lambda: scene.receiver().receive_deferred_messages(numbers[BAD]))
    (message,) = scene.receiver().receive_deferred_messages(numbers[GOOD[0]])
    scene.receiver().complete_message(message)
    yield
    (message,) = scene.receiver().receive_deferred_messages(numbers[BAD])
    scene.receiver().complete_message(message)
    assert scene.peek() == []


def dead_letters(scene: Scene) -> Generator[None]:
    """The dead-letter queue has the same partitions: those of the others can be received (B-093)."""
    scene.send_to_each("kept")
    for message in scene.take():
        scene.receiver().dead_letter_message(message)
    yield
    assert texts(scene.take("q", sub_queue="deadletter")) == each("kept", GOOD)
    yield
    assert texts(scene.take("q", sub_queue="deadletter")) == [f"kept {BAD}"]


def accept_a_session_by_id(scene: Scene) -> Generator[None]:
    """Error for a session of the partition, also one without messages; success elsewhere (B-094)."""
    for partition_id in (BAD, GOOD[0]):
        scene.send("kept", to="sessions", session_id=KEYS[partition_id])
    empty = next(key for key in (f"empty-{n}" for n in range(10_000)) if oxbus.partition_id(key) == BAD)
    yield
    refused(
        lambda: scene.accept(KEYS[BAD]),
        lambda: scene.accept(empty),
        lambda: scene.send("refused", to="sessions", session_id=KEYS[BAD]),
    )
    with scene.accept(KEYS[GOOD[0]]) as receiver:
        assert texts(drain(receiver)) == ["kept"]
    yield
    with scene.accept(KEYS[BAD]) as receiver:
        assert texts(drain(receiver)) == ["kept"]
    scene.accept(empty).close()


def accept_the_next_session(scene: Scene) -> Generator[None]:
    """Only sessions of the other partitions; a timeout when there is none (B-094)."""
    for partition_id in ALL:
        scene.send("kept", to="sessions", session_id=KEYS[partition_id])
    yield
    held = [scene.accept(NEXT_AVAILABLE_SESSION) for _ in GOOD]
    assert {id_of(receiver) for receiver in held} == {KEYS[partition_id] for partition_id in GOOD}
    with pytest.raises(OperationTimeoutError):
        scene.accept(NEXT_AVAILABLE_SESSION)
    yield
    with scene.accept(NEXT_AVAILABLE_SESSION) as receiver:
        assert id_of(receiver) == KEYS[BAD]
    for receiver in held:
        receiver.close()


def hold_a_session(scene: Scene) -> Generator[None]:
    """Receive nothing, and errors for the rest; whoever holds the session goes on afterwards (B-095)."""
    scene.send("first", "second", to="sessions", session_id=KEYS[BAD])
    receiver = scene.accept(KEYS[BAD])
    session = receiver.session
    assert session is not None
    session.set_state(b"before")
    (message,) = receiver.receive_messages(1, max_wait_time=0)
    yield
    refused(
        lambda: receiver.complete_message(message),
        lambda: session.set_state(b"meanwhile"),
        session.get_state,
        session.renew_lock,
    )
    with suppress(PartitionUnavailableError):
        assert receiver.receive_messages(1, max_wait_time=0) == []
    yield
    receiver.complete_message(message)
    session.renew_lock()
    assert session.get_state() == b"before"
    assert texts(drain(receiver)) == ["second"]
    receiver.close()


def list_sessions(scene: Scene) -> Generator[None]:
    """The sessions of the other partitions (B-097, B-216)."""
    for partition_id in ALL:
        scene.send("kept", to="sessions", session_id=KEYS[partition_id])
    yield
    assert set(scene.client.list_queue_sessions("sessions")) == {KEYS[partition_id] for partition_id in GOOD}
    yield
    assert set(scene.client.list_queue_sessions("sessions")) == set(KEYS.values())


def commit_a_transaction(scene: Scene) -> Generator[None]:
    """Error and rollback in the partition: nothing of it happens; success elsewhere (B-306)."""
    scene.send_to_each("taken", partitions=(BAD, GOOD[0]))
    held = {message.partition_id: message for message in scene.take()}

    def move(partition_id: int) -> None:
        with scene.client.transaction() as transaction, scene.sender() as sender:
            message = ServiceBusMessage(f"made {partition_id}", partition_key=KEYS[partition_id])
            sender.send_messages(message, transaction=transaction)
            scene.receiver().complete_message(held[partition_id], transaction=transaction)

    yield
    refused(lambda: move(BAD))
    move(GOOD[0])
    assert scene.peek() == [f"made {GOOD[0]}"]
    yield
    assert scene.peek() == sorted([f"made {GOOD[0]}", f"taken {BAD}"])
    move(BAD)
    assert scene.peek() == each("made", (BAD, GOOD[0]))


def manage_entities(scene: Scene) -> Generator[None]:
    """Creating, updating and deleting fail, with nothing half done; reading works (B-096)."""
    queue, topic = scene.admin.get_queue("q"), scene.admin.get_topic("news")
    subscription = scene.admin.get_subscription("news", "all")
    rule = scene.admin.get_rule("news", "all", "$Default")
    queue.max_delivery_count = subscription.max_delivery_count = 3
    topic.user_metadata = "changed"
    before_filter = scene.admin.get_rule("news", "all", "$Default").filter
    rule.filter = SqlRuleFilter("1 = 0")
    calls: list[Callable[[], Any]] = [
        lambda: scene.admin.create_queue("new", enable_partitioning=True),
        lambda: scene.admin.update_queue(queue),
        lambda: scene.admin.delete_queue("ids"),
        lambda: scene.admin.create_topic("new topic".replace(" ", "-"), enable_partitioning=True),
        lambda: scene.admin.update_topic(topic),
        lambda: scene.admin.create_subscription("news", "new"),
        lambda: scene.admin.update_subscription("news", subscription),
        lambda: scene.admin.create_rule("news", "all", "new"),
        lambda: scene.admin.update_rule("news", "all", rule),
        lambda: scene.admin.delete_rule("news", "all", "new"),
        lambda: scene.admin.delete_subscription("news", "some"),
        lambda: scene.admin.delete_topic("news"),
    ]

    def names() -> list[list[str]]:
        return [
            sorted(it.name for it in scene.admin.list_queues()),
            sorted(it.name for it in scene.admin.list_topics()),
            sorted(it.name for it in scene.admin.list_subscriptions("news")),
            sorted(it.name for it in scene.admin.list_rules("news", "all")),
        ]

    before = names()
    yield
    refused(*calls)
    assert names() == before
    assert scene.admin.get_queue("q").max_delivery_count == 10
    assert scene.admin.get_subscription("news", "all").max_delivery_count == 10
    assert scene.admin.get_rule("news", "all", "$Default").filter == before_filter
    yield
    for call in calls:
        call()
    assert scene.admin.get_queue("q").max_delivery_count == 3
    assert sorted(it.name for it in scene.admin.list_topics()) == ["new-topic"]


def manage_entities_of_other_partitions(scene: Scene) -> Generator[None]:
    """A queue without partitions is one partition's business (B-096)."""
    name = home_in(GOOD[1])
    yield
    scene.admin.create_queue(name)
    scene.admin.delete_queue(name)
    refused(lambda: scene.admin.create_queue(home_in(BAD, HOMED)), lambda: scene.admin.delete_queue(HOMED))
    yield
    scene.admin.delete_queue(HOMED)


def count_messages(scene: Scene) -> Generator[None]:
    """Sums of the other partitions; `partitions` says which one is missing (B-097)."""
    scene.send_to_each("kept")
    yield
    runtime = scene.admin.get_queue_runtime_properties("q")
    assert runtime.total_message_count == len(GOOD)
    assert [partition.available for partition in runtime.partitions] == [it != BAD for it in ALL]
    yield
    runtime = scene.admin.get_queue_runtime_properties("q")
    assert runtime.total_message_count == len(ALL)
    assert all(partition.available for partition in runtime.partitions)


def availability(scene: Scene) -> Generator[None]:
    """Limited for what has the partition, with a reason in the health; Available for what has not (B-098)."""

    def statuses() -> list[Any]:
        return [
            scene.admin.get_queue("q").availability_status,
            scene.admin.get_queue_runtime_properties("q").availability_status,
            scene.admin.get_topic("news").availability_status,
            scene.admin.get_subscription("news", "all").availability_status,
            scene.admin.get_queue(HOMED).availability_status,
        ]

    def faulted() -> list[int]:
        health = scene.namespace.partition_health()
        assert [entry.reason is None for entry in health] == [entry.status == "healthy" for entry in health]
        return [entry.partition_id for entry in health if entry.status != "healthy"]

    assert set(statuses()) == {AVAILABLE}
    assert {status.name: status.value for status in EntityAvailabilityStatus} == {
        "UNKNOWN": "Unknown",
        "AVAILABLE": "Available",
        "LIMITED": "Limited",
        "RESTORING": "Restoring",
        "RENAMING": "Renaming",
    }
    yield
    assert set(statuses()) == {LIMITED}
    assert scene.admin.get_queue(ELSEWHERE).availability_status == AVAILABLE
    assert faulted() == [BAD]
    yield
    assert set(statuses()) == {AVAILABLE}
    assert faulted() == []


def publish_to_a_topic(scene: Scene) -> Generator[None]:
    """Keyed error, keyless elsewhere; each subscription gets each message once (B-073, B-343)."""
    scene.send_to_each("kept", to="news")
    yield
    refused(lambda: scene.send("refused", to="news", partition_key=KEYS[BAD]))
    scene.send(*(f"keyless {number}" for number in range(32)), to="news")
    expected = sorted(each("kept", GOOD) + [f"keyless {number}" for number in range(32)])
    for subscription in ("all", "some"):
        messages = scene.take("news", subscription)
        assert texts(messages) == expected
        scene.receiver("news", subscription).complete_messages(messages)
    yield
    for subscription in ("all", "some"):
        assert texts(scene.take("news", subscription)) == [f"kept {BAD}"]


def forward_to_the_partition(scene: Scene) -> Generator[None]:
    """What goes to a queue that lives there is held at its source and goes on afterwards (B-339)."""
    scene.admin.create_queue("source", enable_partitioning=True, forward_to=HOMED)
    yield
    for partition_id in GOOD:
        scene.send(f"kept {partition_id}", to="source", partition_key=KEYS[partition_id])
    runtime = scene.admin.get_queue_runtime_properties("source")
    assert (runtime.dead_letter_message_count, runtime.transfer_dead_letter_message_count) == (0, 0)
    yield
    assert texts(scene.take(HOMED)) == each("kept", GOOD)


def use_a_queue_that_lives_there(scene: Scene) -> Generator[None]:
    """A queue without partitions is out of service as a whole; one that lives elsewhere notices nothing (B-099)."""
    scene.send("kept", to=HOMED)
    yield
    refused(lambda: scene.send("refused", to=HOMED), lambda: scene.send("refused", to=HOMED, session_id="s"))
    assert scene.take(HOMED) == []
    assert scene.peek(HOMED) == []
    scene.send("kept", to=ELSEWHERE)
    assert texts(scene.take(ELSEWHERE)) == ["kept"]
    yield
    scene.send("after", to=HOMED)
    assert texts(scene.take(HOMED)) == ["after", "kept"]


def lose_all_partitions(scene: Scene) -> Generator[None]:
    """Keyless sends are refused, receives and browsing find nothing, the queue reads Limited (B-073, B-098)."""
    scene.send_to_each("kept")
    yield
    scene.fail(*GOOD)
    refused(lambda: scene.send("refused"), lambda: scene.send("refused", partition_key="k"))
    assert scene.take() == []
    assert scene.peek() == []
    assert scene.admin.get_queue("q").availability_status == LIMITED
    assert scene.admin.get_queue_runtime_properties("q").total_message_count == 0
    scene.heal(*ALL)
    yield
    assert texts(scene.take()) == each("kept", ALL)


OPERATIONS = [
    send_keyed_to_the_partition,
    send_keyed_to_other_partitions,
    send_keyless,
    send_a_keyless_batch,
    send_a_table,
    send_with_a_message_id,
    schedule,
    cancel_scheduled,
    receive,
    receive_and_delete,
    receive_from_a_prefetch_cache,
    settle_and_renew,
    settle_several,
    locks_that_end_meanwhile,
    peek,
    receive_deferred,
    dead_letters,
    accept_a_session_by_id,
    accept_the_next_session,
    hold_a_session,
    list_sessions,
    commit_a_transaction,
    manage_entities,
    manage_entities_of_other_partitions,
    count_messages,
    availability,
    publish_to_a_topic,
    forward_to_the_partition,
    use_a_queue_that_lives_there,
    lose_all_partitions,
]


@pytest.fixture(params=OUTAGES)
def outage(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Where messages live, and what takes the partition out of service."""
    return OUTAGES[request.param]


@pytest.fixture
def store(outage: tuple[str, str]) -> str:
    """Where messages live."""
    return outage[0]


@pytest.fixture
def scene(namespace: Namespace, clock: ManualClock, outage: tuple[str, str]) -> Iterator[Scene]:
    """A namespace with one entity of each kind."""
    scene = Scene(namespace, clock, outage[1])
    yield scene
    scene.client.close()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda it: it.__name__)
def test_matrix(scene: Scene, operation: Callable[[Scene], Generator[None]]) -> None:
    """Each row holds before, during and after the outage, and the partition works again in the end (B-090 to B-099)."""
    story = operation(scene)
    next(story)
    scene.fail()
    next(story)
    if any(entry.status != "healthy" for entry in scene.namespace.partition_health()):
        scene.heal()
    with pytest.raises(StopIteration):
        next(story)
    scene.send("alive", partition_key=KEYS[BAD])
    found = scene.peek()
    assert "alive" in found
    assert "never acknowledged" not in found
