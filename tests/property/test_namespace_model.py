# SPDX-License-Identifier: Apache-2.0
"""A namespace against a naive model of it, through the public API: in memory, and in a directory that is reopened.

The model is in `model/`, written from docs/behaviour.md. Bodies are unique, so that peek shows the state of each
message.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from oxbus import NEXT_AVAILABLE_SESSION, Namespace, ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from oxbus.exceptions import (
    InvalidOperationError,
    MessageLockLostError,
    MessageNotFoundError,
    MessagingEntityDisabledError,
    OperationTimeoutError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)
from oxbus.management import EntityStatus, ServiceBusAdministrationClient, SqlRuleFilter
from oxbus.testing import ManualClock

# The model is in its own directory, so that mypy finds it by its short names too.
sys.path.insert(0, str(Path(__file__).with_name("model")))

from model_entity import EXPIRED, Entity, Session
from model_message import Message
from model_world import TOPIC, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceivedMessage, ServiceBusReceiver

START = datetime(2026, 3, 1, tzinfo=UTC)
LOCK = timedelta(seconds=60)
PARTITIONS = 4
SESSIONS = ["", "a", "b"]
VERBS = ["complete", "abandon", "defer", "dead_letter"]
PATHS = ["queue", "sessions", "source", "t/Subscriptions/all", "t/Subscriptions/some"]
"""Entities that hold messages; `source` forwards to `queue`."""
TARGETS = ["queue", "sessions", "source", TOPIC]
STATUSES = [EntityStatus.ACTIVE, EntityStatus.DISABLED, EntityStatus.SEND_DISABLED, EntityStatus.RECEIVE_DISABLED]
RULES: dict[str, Callable[[Message], bool]] = {
    "n > 2": lambda it: it.properties.get("n", 0) > 2,  # type: ignore[operator]
    "color = 'red'": lambda it: it.properties.get("color") == "red",
    "n IS NULL OR color LIKE 'b%'": lambda it: "n" not in it.properties or it.properties.get("color") == "blue",
}


class NamespaceMachine(RuleBasedStateMachine):
    """Drives a namespace and the model with the same calls."""

    durable = False

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="oxbus-namespace-"))
        self.home = self.directory / "0"
        self.clock = ManualClock(START)
        self.world = World(START)
        self.received_messages: list[tuple[str, str | None, int, ServiceBusReceivedMessage]] = []
        self.accepted: list[tuple[str, ServiceBusReceiver]] = []
        self.last_body = 0
        self.open()

    def open(self) -> None:
        """Open the namespace."""
        storage = {"path": self.home, "durability": "os"} if self.durable else {}
        self.namespace = Namespace(clock=self.clock, partitions=PARTITIONS, **storage)  # type: ignore[arg-type]
        self.client = ServiceBusClient(self.namespace)
        self.admin = ServiceBusAdministrationClient(self.namespace)

    def teardown(self) -> None:
        """Close everything."""
        self.namespace.close()
        shutil.rmtree(self.directory)

    @initialize(partitioned=st.tuples(*[st.booleans()] * 4))
    def create(self, partitioned: tuple[bool, ...]) -> None:
        """Create the entities, each partitioned or not."""
        for path, is_partitioned in zip(["queue", "sessions", "source", TOPIC], partitioned, strict=True):
            self.create_one(path, is_partitioned=is_partitioned)

    def create_one(self, path: str, *, is_partitioned: bool) -> None:
        """Create an entity, the topic with its subscriptions."""
        partitions = PARTITIONS if is_partitioned else 0
        if path == TOPIC:
            self.admin.create_topic(TOPIC, enable_partitioning=is_partitioned)
            for name in ("all", "some"):
                self.admin.create_subscription(
                    TOPIC, name, max_delivery_count=3, lock_duration=LOCK, dead_lettering_on_message_expiration=True
                )
                entity = Entity(name, partitions, selects={"$Default": lambda _: True})
                self.world.entities[f"{TOPIC}/Subscriptions/{name}"] = entity
            return
        forward_to = "queue" if path == "source" else None
        self.admin.create_queue(
            path,
            enable_partitioning=is_partitioned,
            requires_session=path == "sessions",
            max_delivery_count=3,
            lock_duration=LOCK,
            dead_lettering_on_message_expiration=True,
            forward_to=forward_to,
        )
        entity = Entity(path, partitions, requires_session=path == "sessions", forward_to=forward_to)
        self.world.entities[path] = entity

    def receiver(self, path: str, sub_queue: str | None = None, **options: object) -> ServiceBusReceiver:
        """A receiver of an entity."""
        if path.startswith(f"{TOPIC}/"):
            name = path.rsplit("/", 1)[1]
            return self.client.get_subscription_receiver(TOPIC, name, sub_queue=sub_queue, **options)  # type: ignore[arg-type]
        return self.client.get_queue_receiver(path, sub_queue=sub_queue, **options)  # type: ignore[arg-type]

    def browse(self, path: str, sub_queue: str | None) -> dict[int, ServiceBusReceivedMessage]:
        """All messages that peek shows, by number."""
        shown: dict[int, ServiceBusReceivedMessage] = {}
        with self.receiver(path, sub_queue) as browser:
            while page := browser.peek_messages(250):
                shown |= {message.sequence_number: message for message in page}
        return shown

    @invariant()
    def contents_are_the_model(self) -> None:
        """Peek and the counts match the model in every entity (B-291, B-389)."""
        for path, entity in self.world.entities.items():
            main, dead = self.browse(path, None), self.browse(path, "deadletter")
            entity.learn(
                self.world.now,
                {number: str(message) for number, message in main.items()},
                {number: str(message) for number, message in dead.items()},
            )
            for shown, known in ((main, entity.main), (dead, entity.dead)):
                seen = {
                    number: (str(it), it.state.name, it.delivery_count, it.dead_letter_reason, it.session_id)
                    for number, it in shown.items()
                }
                states = {"ready": "ACTIVE", "deferred": "DEFERRED", "scheduled": "SCHEDULED"}
                assert seen == {
                    number: (it.body, states[it.state], it.count, it.reason, it.session) for number, it in known.items()
                }, path
            self.compare_counts(path, entity)

    def compare_counts(self, path: str, entity: Entity) -> None:
        """The counts of one entity."""
        if path.startswith(f"{TOPIC}/"):
            counts = self.admin.get_subscription_runtime_properties(TOPIC, path.rsplit("/", 1)[1])
        else:
            counts = self.admin.get_queue_runtime_properties(path)  # type: ignore[assignment]
        assert counts.dead_letter_message_count == len(entity.dead)
        assert counts.total_message_count == len(entity.main) + len(entity.dead)
        assert counts.locked_message_count == sum(it.holder is not None for it in entity.main.values())

    def target_accepts(self, path: str) -> bool:
        """Whether the status of a target allows sends."""
        return path == TOPIC or self.world.entities[path].is_sending

    def messages(self, count: int, owner: str | None, life: int | None, n: int | None, color: str) -> list[Message]:
        """New messages of the model."""
        properties = {"color": color} | ({} if n is None else {"n": n})
        made = []
        for _ in range(count):
            self.last_body += 1
            life_of = None if life is None else timedelta(seconds=life)
            made.append(Message(f"m{self.last_body}", session=owner, properties=dict(properties), life=life_of))
        return made

    def sent_as(self, message: Message) -> ServiceBusMessage:
        """The message for the SDK."""
        return ServiceBusMessage(
            message.body,
            session_id=message.session,
            application_properties=dict(message.properties),  # type: ignore[arg-type]
            time_to_live=message.life,
        )

    @rule(
        path=st.sampled_from(TARGETS),
        count=st.integers(1, 3),
        owner=st.sampled_from([None, *SESSIONS]),
        life=st.sampled_from([None, None, 30]),
        n=st.sampled_from([None, 1, 3]),
        color=st.sampled_from(["red", "blue"]),
    )
    def send(self, path: str, count: int, owner: str | None, life: int | None, n: int | None, color: str) -> None:
        """Send a batch; a queue with sessions refuses it without a session id, a disabled one always (B-184, B-397)."""
        messages = self.messages(count, owner, life, n, color)
        with self.client.get_queue_sender(path) if path != TOPIC else self.client.get_topic_sender(path) as sender:
            batch = [self.sent_as(message) for message in messages]
            if not self.target_accepts(path):
                with pytest.raises((MessagingEntityDisabledError, InvalidOperationError)):
                    sender.send_messages(batch)
                return
            if path == "sessions" and owner is None:
                with pytest.raises(InvalidOperationError):
                    sender.send_messages(batch)
                return
            sender.send_messages(batch)
        for message in messages:
            self.world.accept(path, message)

    @rule(path=st.sampled_from(TARGETS), owner=st.sampled_from(SESSIONS), seconds=st.integers(1, 60))
    def schedule(self, path: str, owner: str, seconds: int) -> None:
        """Schedule a message; it stays in a topic until due (B-232, B-241)."""
        if not self.target_accepts(path):
            return
        (message,) = self.messages(1, owner, None, 3, "red")
        due_at = self.world.now + timedelta(seconds=seconds)
        with self.client.get_queue_sender(path) if path != TOPIC else self.client.get_topic_sender(path) as sender:
            (number,) = sender.schedule_messages(self.sent_as(message), due_at)
        message.state, message.due_at = "scheduled", due_at
        if path == TOPIC:
            self.world.waiting[number] = message
        else:
            entity = self.world.entities[path]
            entity.take_number(number, owner)
            entity.main[number] = message

    @rule(path=st.sampled_from(TARGETS[:3]), data=st.data())
    def cancel(self, path: str, data: st.DataObject) -> None:
        """Cancel pending messages only (B-238)."""
        entity = self.world.entities[path]
        if not entity.main or not entity.is_sending:
            return
        number = data.draw(st.sampled_from(sorted(entity.main)))
        with self.client.get_queue_sender(path) as sender:
            if entity.main[number].state == "scheduled":
                sender.cancel_scheduled_messages(number)
                del entity.main[number]
            else:
                with pytest.raises(MessageNotFoundError):
                    sender.cancel_scheduled_messages(number)

    def lock(self, path: str, sub_queue: str | None, got: list[ServiceBusReceivedMessage], *, in_session: bool) -> None:
        """Record delivered messages, which are as stored (B-176)."""
        stream = self.world.entities[path].stream(sub_queue)
        for received in got:
            message = stream[received.sequence_number]
            assert (str(received), received.delivery_count) == (message.body, message.count)
            message.holder = received
            message.held_until = None if in_session else self.world.now + LOCK
            self.received_messages.append((path, sub_queue, received.sequence_number, received))

    @rule(
        path=st.sampled_from(PATHS),
        sub_queue=st.sampled_from([None, None, "deadletter"]),
        count=st.integers(1, 5),
        deletes=st.booleans(),
    )
    def receive(self, path: str, sub_queue: str | None, count: int, deletes: bool) -> None:
        """Receive ready messages, each partition in order; some if there are any (B-120, B-137, B-187)."""
        entity = self.world.entities[path]
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE if deletes else ServiceBusReceiveMode.PEEK_LOCK
        with self.receiver(path, sub_queue, receive_mode=mode) as receiver:
            if sub_queue is None and (entity.requires_session or entity.forward_to):
                with pytest.raises((InvalidOperationError, MessagingEntityDisabledError)):
                    receiver.receive_messages(count, max_wait_time=0)
                return
            if not entity.is_receiving:
                with pytest.raises(MessagingEntityDisabledError):
                    receiver.receive_messages(count, max_wait_time=0)
                return
            got = receiver.receive_messages(count, max_wait_time=0)
        ready = entity.ready(sub_queue, self.world.now)
        numbers = [message.sequence_number for message in got]
        assert len(numbers) <= count
        assert bool(numbers) == bool(ready)
        for partition in {number >> 48 for number in numbers}:
            own = [number for number in numbers if number >> 48 == partition]
            assert own == [number for number in ready if number >> 48 == partition][: len(own)]
        self.lock(path, sub_queue, got, in_session=False)
        if deletes:
            for number in numbers:
                del entity.stream(sub_queue)[number]

    @rule(session_id=st.sampled_from([None, *SESSIONS]))
    def accept(self, session_id: str | None) -> None:
        """Accept a session by id, or the next available one (B-193 to B-198)."""
        entity = self.world.entities["sessions"]
        if not entity.is_receiving:
            return
        taken = {it for it, session in entity.sessions.items() if session.holder is not None}
        available = {entity.main[number].session for number in entity.ready(None, self.world.now)} - taken
        wanted = NEXT_AVAILABLE_SESSION if session_id is None else session_id
        receiver = self.client.get_queue_receiver("sessions", session_id=wanted, max_wait_time=0)
        if session_id in taken or (session_id is None and not available):
            with pytest.raises((SessionCannotBeLockedError, OperationTimeoutError)):
                receiver.__enter__()
            return
        receiver.__enter__()
        assert receiver.session is not None
        got = receiver.session.session_id
        assert got is not None
        assert got in (available if session_id is None else {session_id})
        session = entity.sessions.setdefault(got, Session())
        session.holder, session.until = receiver, self.world.now + LOCK
        self.accepted.append((got, receiver))

    @rule(
        data=st.data(),
        count=st.integers(1, 3),
        verb=st.sampled_from(["receive", "receive", "renew", "state", "close"]),
        state=st.sampled_from([None, b"", b"s"]),
    )
    def use_session(self, data: st.DataObject, count: int, verb: str, state: bytes | None) -> None:
        """The holder receives in order, renews and sets the state; a former holder gets errors (B-203, B-207)."""
        entity = self.world.entities["sessions"]
        if not self.accepted or not entity.is_receiving:
            return
        position = data.draw(st.integers(0, len(self.accepted) - 1))
        session_id, receiver = self.accepted[position]
        session = entity.sessions.get(session_id)
        is_mine = session is not None and session.holder is receiver
        assert receiver.session is not None
        if verb == "close":
            receiver.close()
            del self.accepted[position]
            if is_mine:
                entity.end_session(session_id, counted=False)
            return
        calls: dict[str, Callable[[], object]] = {
            "receive": lambda: receiver.receive_messages(count, max_wait_time=0),
            "renew": receiver.session.renew_lock,
            "state": receiver.session.get_state,
        }
        if session is None or not is_mine:
            with pytest.raises(SessionLockLostError):
                calls[verb]()
        elif verb == "receive":
            got = receiver.receive_messages(count, max_wait_time=0)
            ready = entity.ready(None, self.world.now)
            own = [number for number in ready if entity.main[number].session == session_id]
            assert [message.sequence_number for message in got] == own[:count]
            self.lock("sessions", None, got, in_session=True)
        elif verb == "renew":
            session.until = receiver.session.renew_lock()
            assert session.until == self.world.now + LOCK
        else:
            assert receiver.session.get_state() == session.state
            receiver.session.set_state(state)
            session.state = state

    def settler(self, path: str, sub_queue: str | None, message: Message) -> ServiceBusReceiver | None:
        """A receiver that may settle a message: any one, or the holder of its session (B-158, B-203)."""
        if path == "sessions" and sub_queue is None:
            session = self.world.entities[path].sessions.get(message.session or "")
            return None if session is None else session.holder  # type: ignore[return-value]
        return self.receiver(path, sub_queue)

    @rule(data=st.data(), verb=st.sampled_from(VERBS), transaction=st.sampled_from(["no", "no", "commit", "roll back"]))
    def settle(self, data: st.DataObject, verb: str, transaction: str) -> None:
        """Settle a message, also in a transaction; an expired lock is lost (B-155, B-162, B-316)."""
        if not self.received_messages:
            return
        path, sub_queue, number, received = data.draw(st.sampled_from(self.received_messages[-8:]))
        entity = self.world.entities[path]
        message = entity.stream(sub_queue).get(number)
        is_locked = message is not None and message.holder is received
        if verb == "dead_letter" and sub_queue is not None:
            return
        known = message or Message("", session=received.session_id)
        receiver = self.settler(path, sub_queue, known)
        if receiver is None or received.lock_token is None:
            return
        options = {"reason": "tested"} if verb == "dead_letter" else {}
        call = getattr(receiver, f"{verb}_message")
        if not is_locked:
            with pytest.raises((MessageLockLostError, SessionLockLostError)):
                call(received, **options)
            return
        if transaction == "no":
            call(received, **options)
        else:
            work = self.client.transaction()
            call(received, transaction=work, **options)
            if transaction == "roll back":
                work.rollback()
                return
            work.commit()
        entity.settle(sub_queue, number, verb)
        self.world.forward(entity)

    @rule(data=st.data(), path=st.sampled_from(["queue", *PATHS[3:]]), sub_queue=st.sampled_from([None, "deadletter"]))
    def fetch(self, data: st.DataObject, path: str, sub_queue: str | None) -> None:
        """Fetch by number: a deferred message, which counts a delivery, or an error (B-276, B-281)."""
        entity = self.world.entities[path]
        stream = entity.stream(sub_queue)
        if not stream or not entity.is_receiving:
            return
        number = data.draw(st.sampled_from(sorted(stream)))
        message = stream[number]
        expires = sub_queue is None and message.is_over(self.world.now)
        with self.receiver(path, sub_queue) as receiver:
            if message.state != "deferred" or message.holder is not None or expires:
                with pytest.raises(MessageNotFoundError):
                    receiver.receive_deferred_messages(number)
                if message.state == "deferred" and message.holder is None:
                    entity.dead_letter(number, EXPIRED)  # B-255: the failed fetch removes it
                    self.world.forward(entity)
                return
            got = receiver.receive_deferred_messages(number)
        message.count += 1
        self.lock(path, sub_queue, got, in_session=False)

    @rule(owner=st.sampled_from(SESSIONS), count=st.integers(1, 3), ends=st.booleans())
    def send_in_transaction(self, owner: str, count: int, ends: bool) -> None:
        """Messages sent in a transaction are stored at its commit, and dropped by a rollback (B-315)."""
        if not self.world.entities["sessions"].is_sending:
            return
        messages = self.messages(count, owner, None, None, "red")
        work = self.client.transaction()
        with self.client.get_queue_sender("sessions") as sender:
            sender.send_messages([self.sent_as(message) for message in messages], transaction=work)
        if not ends:
            work.rollback()
            return
        work.commit()
        for message in messages:
            self.world.accept("sessions", message)

    def refusal(self, path: str, sub_queue: str | None) -> type[Exception] | tuple[type[Exception], ...] | None:
        """The error of a purge: that of a receive, but sessions are allowed (B-137, B-397)."""
        entity = self.world.entities[path]
        if sub_queue is None and entity.forward_to:
            return InvalidOperationError, MessagingEntityDisabledError
        return None if entity.is_receiving else MessagingEntityDisabledError

    @rule(path=st.sampled_from(PATHS), sub_queue=st.sampled_from([None, "deadletter"]), limit=st.sampled_from([1, 100]))
    def purge(self, path: str, sub_queue: str | None, limit: int) -> None:
        """Purge available messages, the lowest numbers of each partition first (B-402)."""
        entity = self.world.entities[path]
        ready = entity.ready(sub_queue, self.world.now)
        refusal = self.refusal(path, sub_queue)
        if refusal is not None:
            with pytest.raises(refusal):
                self.admin.purge_messages(path, sub_queue=sub_queue, limit=limit)
            return
        assert self.admin.purge_messages(path, sub_queue=sub_queue, limit=limit) == min(limit, len(ready))
        left = self.browse(path, sub_queue)
        for number in ready:
            if number not in left:
                del entity.stream(sub_queue)[number]

    @rule(path=st.sampled_from(PATHS))
    def resubmit(self, path: str) -> None:
        """Resubmit dead letters as new messages without reason; one without a session stays (B-270, B-272)."""
        entity = self.world.entities[path]
        ready = entity.ready("deadletter", self.world.now)
        if entity.requires_session:
            ready = [number for number in ready if entity.dead[number].session is not None]
        if not entity.is_sending or self.refusal(path, "deadletter") is not None:
            with pytest.raises(MessagingEntityDisabledError):
                self.admin.resubmit_dead_letters(path)
            return
        assert self.admin.resubmit_dead_letters(path) == len(ready)
        for number in ready:
            message = entity.dead.pop(number).copy()
            message.reason = None
            self.world.accept(path, message)

    @rule(path=st.sampled_from(TARGETS[:3]), status=st.sampled_from(STATUSES))
    def change_status(self, path: str, status: EntityStatus) -> None:
        """A status stops sends or receives (B-396, B-397)."""
        properties = self.admin.get_queue(path)
        properties.status = status
        self.admin.update_queue(properties)
        entity = self.world.entities[path]
        entity.is_sending = status in (EntityStatus.ACTIVE, EntityStatus.RECEIVE_DISABLED)
        entity.is_receiving = status in (EntityStatus.ACTIVE, EntityStatus.SEND_DISABLED)
        for source in self.world.entities.values():
            self.world.forward(source)

    @rule(name=st.sampled_from(["all", "some"]), which=st.sampled_from([*RULES, "$Default"]))
    def toggle_rule(self, name: str, which: str) -> None:
        """A rule applies to later messages; without rules nothing is selected (B-346, B-351)."""
        entity = self.world.entities[f"{TOPIC}/Subscriptions/{name}"]
        rule_name = which if which == "$Default" else f"r{list(RULES).index(which)}"
        if rule_name in entity.selects:
            self.admin.delete_rule(TOPIC, name, rule_name)
            del entity.selects[rule_name]
        elif which != "$Default":
            self.admin.create_rule(TOPIC, name, rule_name, filter=SqlRuleFilter(which))
            entity.selects[rule_name] = RULES[which]

    @rule(path=st.sampled_from(["source", "sessions", TOPIC]), is_partitioned=st.booleans())
    def recreate(self, path: str, is_partitioned: bool) -> None:
        """Delete and recreate an entity: it is empty, and its numbers restart (B-104)."""
        if path == TOPIC:
            self.admin.delete_topic(path)
            self.world.waiting.clear()
        else:
            self.admin.delete_queue(path)
        self.received_messages = [received for received in self.received_messages if not received[0].startswith(path)]
        if path == "sessions":
            self.accepted.clear()
        self.create_one(path, is_partitioned=is_partitioned)

    @rule(seconds=st.sampled_from([1, 20, 40, 61]))
    def advance(self, seconds: int) -> None:
        """Advance the time."""
        self.clock.advance(seconds)
        self.world.advance(timedelta(seconds=seconds))


class DurableNamespaceMachine(NamespaceMachine):
    """The same in a directory that is closed, or copied while open as after a crash, and reopened."""

    durable = True

    @rule(way=st.sampled_from(["close", "checkpoint", "crash"]))
    def reopen(self, way: str) -> None:
        """Acknowledged changes survive; locks do not (B-102, R-07)."""
        if way == "checkpoint":
            self.namespace.checkpoint()
        if way == "crash":
            left = self.directory / str(int(self.home.name) + 1)
            shutil.copytree(self.home, left)
            self.namespace.close()
            self.home = left
        else:
            self.namespace.close()
        self.received_messages.clear()
        self.accepted.clear()
        self.world.reopen(crashed=way == "crash")
        self.open()


BUDGET = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestNamespace = pytest.mark.timeout(900)(NamespaceMachine.TestCase)
TestNamespace.settings = BUDGET
TestDurableNamespace = pytest.mark.timeout(900)(DurableNamespaceMachine.TestCase)
TestDurableNamespace.settings = settings(BUDGET, max_examples=25)
