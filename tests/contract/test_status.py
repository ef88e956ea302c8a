# SPDX-License-Identifier: Apache-2.0
"""Operations that each status of an entity allows (B-396 to B-400)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from oxbus.exceptions import InvalidOperationError, MessagingEntityDisabledError
from oxbus.management import EntityStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

STATUSES = [EntityStatus.ACTIVE, EntityStatus.SEND_DISABLED, EntityStatus.RECEIVE_DISABLED, EntityStatus.DISABLED]
SENDS = {EntityStatus.ACTIVE, EntityStatus.RECEIVE_DISABLED}
RECEIVES = {EntityStatus.ACTIVE, EntityStatus.SEND_DISABLED}


@pytest.fixture
def set_status(admin: ServiceBusAdministrationClient) -> Callable[[str, EntityStatus], None]:
    """Set the status of a queue."""

    def set_status(queue_name: str, status: EntityStatus) -> None:
        queue = admin.get_queue(queue_name)
        queue.status = status
        admin.update_queue(queue)
        assert admin.get_queue(queue_name).status == status

    return set_status


def check(allowed: bool, call: Callable[[], object]) -> None:
    """Make a call; if it is not allowed, expect the service's error."""
    if allowed:
        call()
        return
    with pytest.raises(MessagingEntityDisabledError, match="status") as refusal:
        call()
    assert refusal.value.condition == "com.microsoft:entity-disabled"
    assert not refusal.value.is_transient


@pytest.mark.parametrize("status", STATUSES, ids=str)
def test_operations_that_send(
    client: ServiceBusClient,
    queue_name: str,
    clock: ManualClock,
    set_status: Callable[[str, EntityStatus], None],
    snapshot: Callable[[str], object],
    status: EntityStatus,
) -> None:
    """Send, batch, schedule, cancel and a transaction with a send are refused together (B-396, B-397)."""
    allowed = status in SENDS
    with client.get_queue_sender(queue_name) as sender:
        later = clock.now() + timedelta(hours=1)
        (number,) = sender.schedule_messages(ServiceBusMessage(b"later"), later)
        set_status(queue_name, status)
        before = snapshot(queue_name)

        def transact() -> None:
            with client.transaction() as transaction:
                message = ServiceBusMessage(b"x", partition_key="k")
                sender.send_messages(message, transaction=transaction)

        for call in (
            lambda: sender.send_messages(ServiceBusMessage(b"x")),
            lambda: sender.send_messages([ServiceBusMessage(b"x"), ServiceBusMessage(b"y")]),
            lambda: sender.schedule_messages(ServiceBusMessage(b"x"), later),
            lambda: sender.cancel_scheduled_messages(number),
            transact,
        ):
            check(allowed, call)
    assert (snapshot(queue_name) == before) is not allowed


@pytest.mark.parametrize("status", STATUSES, ids=str)
def test_operations_that_receive(
    client: ServiceBusClient,
    queue_name: str,
    set_status: Callable[[str, EntityStatus], None],
    snapshot: Callable[[str], object],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    status: EntityStatus,
) -> None:
    """Receives from the queue and its dead-letter queue are refused, also of deferred messages (B-396, B-397)."""
    allowed = status in RECEIVES
    with (
        client.get_queue_sender(queue_name) as sender,
        client.get_queue_receiver(queue_name) as receiver,
        client.get_queue_receiver(queue_name, sub_queue="deadletter") as dead,
    ):
        sender.send_messages([ServiceBusMessage(b"deferred"), ServiceBusMessage(b"dead"), ServiceBusMessage(b"x")])
        deferred, dead_lettered, back = drain(receiver)
        receiver.defer_message(deferred)
        receiver.dead_letter_message(dead_lettered)
        receiver.abandon_message(back)
        set_status(queue_name, status)
        before = snapshot(queue_name)
        for call in (
            lambda: receiver.receive_messages(max_wait_time=0),
            lambda: receiver.receive_arrow(max_message_count=1, max_wait_time=0),
            lambda: receiver.receive_deferred_messages(deferred.sequence_number),
            lambda: dead.receive_messages(max_wait_time=0),
        ):
            check(allowed, call)
    if not allowed:
        assert snapshot(queue_name) == before


@pytest.mark.parametrize("status", STATUSES, ids=str)
def test_settling_and_browsing_stay_allowed(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    set_status: Callable[[str, EntityStatus], None],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    status: EntityStatus,
) -> None:
    """Locked messages can be settled; peeking and management work (B-397)."""
    with client.get_queue_sender(queue_name) as sender, client.get_queue_receiver(queue_name) as receiver:
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(5)])
        renewed, completed, abandoned, deferred, dead_lettered = drain(receiver)
        set_status(queue_name, status)
        receiver.complete_message(completed)
        receiver.abandon_message(abandoned)
        receiver.defer_message(deferred)
        receiver.dead_letter_message(dead_lettered)
        clock.advance(30)
        assert receiver.renew_message_lock(renewed) == clock.now() + timedelta(minutes=1)
        assert len(receiver.peek_messages(max_message_count=10)) == 3
        counts = admin.get_queue_runtime_properties(queue_name)
        assert (counts.total_message_count, counts.dead_letter_message_count) == (4, 1)
        assert [queue.status for queue in admin.list_queues()] == [status]


def test_sessions(
    make_queue: Callable[..., str], client: ServiceBusClient, set_status: Callable[[str, EntityStatus], None]
) -> None:
    """No session can be accepted; a holder receives nothing but can use the state (B-203, B-397)."""
    name = make_queue("talks", requires_session=True)
    with client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage(b"x", session_id="a"))
        sender.send_messages(ServiceBusMessage(b"x", session_id="b"))
    with client.get_queue_receiver(name, session_id="a") as receiver:
        set_status(name, EntityStatus.RECEIVE_DISABLED)
        check(False, lambda: receiver.receive_messages(max_wait_time=0))
        assert receiver.session is not None
        receiver.session.set_state(b"kept")
        receiver.session.renew_lock()
        for session_id in ("b", NEXT_AVAILABLE_SESSION):

            def accept(session_id: Any = session_id) -> None:
                with client.get_queue_receiver(name, session_id=session_id, max_wait_time=0) as other:
                    other.receive_messages(max_wait_time=0)

            check(False, accept)
        set_status(name, EntityStatus.ACTIVE)
        assert len(receiver.receive_messages(max_wait_time=0)) == 1
        assert receiver.session.get_state() == b"kept"


@pytest.mark.parametrize("status", [EntityStatus.RECEIVE_DISABLED, EntityStatus.DISABLED], ids=str)
def test_a_waiting_receiver_fails(
    client: ServiceBusClient,
    queue_name: str,
    set_status: Callable[[str, EntityStatus], None],
    in_background: Callable[..., Any],
    status: EntityStatus,
) -> None:
    """A waiting receive fails at once when receiving is disabled (B-397)."""
    with client.get_queue_receiver(queue_name) as receiver:
        call = in_background(receiver.receive_messages, max_wait_time=3600)
        set_status(queue_name, status)
        with pytest.raises(MessagingEntityDisabledError):
            call.result()


def test_a_commit_after_disabling_is_refused(
    client: ServiceBusClient,
    queue_name: str,
    set_status: Callable[[str, EntityStatus], None],
    snapshot: Callable[[str], object],
) -> None:
    """A commit after the queue was disabled is refused and stores nothing (B-315, B-397)."""
    with client.get_queue_sender(queue_name) as sender:
        transaction = client.transaction()
        transaction.begin()
        sender.send_messages(ServiceBusMessage(b"x", partition_key="k"), transaction=transaction)
        set_status(queue_name, EntityStatus.SEND_DISABLED)
        before = snapshot(queue_name)
        check(False, transaction.commit)
        assert snapshot(queue_name) == before


@pytest.mark.parametrize("status", STATUSES, ids=str)
def test_schedules_and_locks_ignore_the_status(
    make_queue: Callable[..., str],
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
    set_status: Callable[[str, EntityStatus], None],
    receive_one: Callable[..., ServiceBusReceivedMessage],
    status: EntityStatus,
) -> None:
    """Scheduled messages become due and locks expire whatever the status (B-157, B-235, B-397)."""
    name = make_queue("timed")
    with client.get_queue_sender(name) as sender, client.get_queue_receiver(name) as receiver:
        sender.send_messages(ServiceBusMessage(b"x"))
        receive_one(receiver)
        sender.schedule_messages(ServiceBusMessage(b"later"), clock.now() + timedelta(hours=1))
        set_status(name, status)
        clock.advance(3600)
        counts = admin.get_queue_runtime_properties(name)
        assert (counts.active_message_count, counts.scheduled_message_count, counts.locked_message_count) == (2, 0, 0)
        set_status(name, EntityStatus.ACTIVE)
        assert {str(receive_one(receiver)), str(receive_one(receiver))} == {"x", "later"}


@pytest.mark.parametrize(
    ("status", "may_send"),
    [(EntityStatus.ACTIVE, True), (EntityStatus.SEND_DISABLED, False), (EntityStatus.DISABLED, False)],
    ids=str,
)
def test_topic(
    topic: str,
    subscribe: Callable[..., str],
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
    status: EntityStatus,
    may_send: bool,
) -> None:
    """A topic's status allows sends or not; receives from its subscriptions work (B-396, B-397)."""
    subscribe()
    with client.get_topic_sender(topic) as sender, client.get_subscription_receiver(topic, "all") as receiver:
        sender.send_messages(ServiceBusMessage(b"before"))
        properties = admin.get_topic(topic)
        properties.status = status
        admin.update_topic(properties)
        assert admin.get_topic(topic).status == status
        check(may_send, lambda: sender.send_messages(ServiceBusMessage(b"x")))
        check(may_send, lambda: sender.send_messages([ServiceBusMessage(b"x")]))
        check(may_send, lambda: sender.schedule_messages(ServiceBusMessage(b"x"), clock.now() + timedelta(hours=1)))
        assert len(receiver.receive_messages(max_message_count=1, max_wait_time=0)) == 1
    counts = admin.get_subscription_runtime_properties(topic, "all")
    assert counts.active_message_count == 1 + 2 * may_send


@pytest.mark.parametrize("status", [EntityStatus.DISABLED, EntityStatus.RECEIVE_DISABLED], ids=str)
def test_subscription(
    topic: str,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    status: EntityStatus,
) -> None:
    """A disabled subscription refuses receives and still gets copies (B-396, B-397, B-399)."""
    subscribe()
    properties = admin.get_subscription(topic, "all")
    properties.status = status
    admin.update_subscription(topic, properties)
    assert admin.get_subscription(topic, "all").status == status
    publish("x", "y")
    with client.get_subscription_receiver(topic, "all") as receiver:
        check(False, lambda: receiver.receive_messages(max_wait_time=0))
        properties.status = EntityStatus.ACTIVE
        admin.update_subscription(topic, properties)
        assert len(receiver.receive_messages(max_message_count=2, max_wait_time=0)) == 2


def test_statuses_that_an_entity_does_not_have(
    topic: str, subscribe: Callable[..., str], admin: ServiceBusAdministrationClient
) -> None:
    """Statuses for receiving from a topic or sending to a subscription are refused (B-396)."""
    subscribe()
    properties = admin.get_topic(topic)
    properties.status = EntityStatus.RECEIVE_DISABLED
    with pytest.raises(InvalidOperationError, match="status"):
        admin.update_topic(properties)
    assert admin.get_topic(topic).status == EntityStatus.ACTIVE
    subscription = admin.get_subscription(topic, "all")
    subscription.status = EntityStatus.SEND_DISABLED
    with pytest.raises(InvalidOperationError, match="status"):
        admin.update_subscription(topic, subscription)
    assert admin.get_subscription(topic, "all").status == EntityStatus.ACTIVE
    with pytest.raises(InvalidOperationError, match="status"):
        admin.create_topic("other", status=EntityStatus.RECEIVE_DISABLED)
    assert [it.name for it in admin.list_topics()] == [topic]


@pytest.mark.parametrize("status", STATUSES, ids=str)
def test_a_queue_may_begin_with_any_status(
    admin: ServiceBusAdministrationClient, client: ServiceBusClient, status: EntityStatus
) -> None:
    """The status may be given at creation and applies at once (B-396)."""
    assert admin.create_queue("q", status=status).status == status
    sender: ServiceBusSender
    receiver: ServiceBusReceiver
    with client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:
        check(status in SENDS, lambda: sender.send_messages(ServiceBusMessage(b"x")))
        check(status in RECEIVES, lambda: receiver.receive_messages(max_wait_time=0))


@pytest.mark.parametrize("status", ["Restoring", "Creating", "Deleting", "Renaming", "Unknown", "off", 0], ids=repr)
def test_other_statuses_are_refused(admin: ServiceBusAdministrationClient, status: Any) -> None:
    """Statuses of the system and unknown ones are refused and change nothing (B-396, B-398)."""
    queue = admin.create_queue("q")
    with pytest.raises((TypeError, ValueError), match=r"(?i)status"):
        admin.create_queue("other", status=status)
    queue.status = status
    with pytest.raises((TypeError, ValueError), match=r"(?i)status"):
        admin.update_queue(queue)
    assert [(it.name, it.status) for it in admin.list_queues()] == [("q", EntityStatus.ACTIVE)]


def test_disabled_forward_destination(
    make_queue: Callable[..., str],
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    set_status: Callable[[str, EntityStatus], None],
) -> None:
    """Messages forwarded to a disabled queue are dead-lettered at their source (B-335, B-400)."""
    make_queue("target")
    make_queue("source", forward_to="target")
    set_status("target", EntityStatus.SEND_DISABLED)
    with client.get_queue_sender("source") as sender:
        sender.send_messages(ServiceBusMessage(b"x"))
    assert admin.get_queue_runtime_properties("source").dead_letter_message_count == 1
    assert admin.get_queue_runtime_properties("target").total_message_count == 0


def test_disabled_source_of_forwarding(
    make_queue: Callable[..., str],
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    set_status: Callable[[str, EntityStatus], None],
) -> None:
    """A send-disabled source refuses sends; its messages are forwarded already (B-331, B-397)."""
    make_queue("target")
    make_queue("source", forward_to="target")
    with client.get_queue_sender("source") as sender:
        sender.send_messages(ServiceBusMessage(b"x"))
        set_status("source", EntityStatus.DISABLED)
        check(False, lambda: sender.send_messages(ServiceBusMessage(b"y")))
    assert admin.get_queue_runtime_properties("target").active_message_count == 1
