# SPDX-License-Identifier: Apache-2.0
"""Auto-forwarding: messages of a queue or subscription move to another entity (B-331 to B-342, B-086, B-113, B-137)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import ServiceBusMessage
from oxbus.exceptions import ServiceBusError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

    Take = Callable[..., list[ServiceBusReceivedMessage]]

pytestmark = pytest.mark.filterwarnings("error")
BOTH = pytest.mark.parametrize("partitioned_source", [True, False], ids=["from partitioned", "from plain"])


def texts(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies as texts."""
    return [str(message) for message in messages]


@pytest.fixture
def chain(admin: ServiceBusAdministrationClient, partitioned: bool) -> Callable[[int], list[str]]:
    """Create queues `q0`, `q1`, … of which each but the last forwards to the next."""

    def chain(length: int) -> list[str]:
        names = [f"q{number}" for number in range(length)]
        for name, following in reversed(list(zip(names, [*names[1:], None], strict=True))):
            admin.create_queue(name, enable_partitioning=partitioned, forward_to=following)
        return names

    return chain


def set_forward(admin: ServiceBusAdministrationClient, queue: str, to: str | None) -> None:
    """Change the destination of a queue."""
    changed = admin.get_queue(queue)
    changed.forward_to = to
    admin.update_queue(changed)


def test_message_moves_to_the_destination(
    make_queue: Callable[..., str],
    send_to: Callable[..., None],
    take_from: Take,
    admin: ServiceBusAdministrationClient,
    clock: ManualClock,
) -> None:
    """It gets a new number and delivery count, keeps the first number, and leaves the source empty (B-331, B-338)."""
    make_queue("to")
    send_to("to", "direct", partition_key="k")
    make_queue("from", forward_to="to")
    clock.advance(5)
    send_to("from", "x", partition_key="k", message_id="id", application_properties={"a": 1})
    direct, moved = take_from("to")
    assert (str(direct), str(moved)) == ("direct", "x")
    assert moved.sequence_number == direct.sequence_number + 1
    assert moved.enqueued_time_utc == clock.now()
    assert moved.enqueued_sequence_number == direct.sequence_number
    assert (moved.message_id, moved.partition_key, moved.delivery_count) == ("id", "k", 0)
    assert moved.application_properties == {"a": 1}
    assert moved.dead_letter_source is None
    assert admin.get_queue_runtime_properties("from").total_message_count == 0


@BOTH
def test_order_of_a_key_is_kept(
    admin: ServiceBusAdministrationClient,
    make_queue: Callable[..., str],
    send_to: Callable[..., None],
    take_from: Take,
    partitioned: bool,
    partitioned_source: bool,
) -> None:
    """Between partitioned and plain queues, messages of a key stay in order and in its partition (B-124, B-336)."""
    make_queue("to")
    admin.create_queue("from", enable_partitioning=partitioned_source, forward_to="to")
    keys = [f"key {number}" for number in range(40)]
    for number in range(3):
        for key in keys:
            send_to("from", f"{number}", partition_key=key)
    messages = take_from("to")
    for key in keys:
        of_key = [message for message in messages if message.partition_key == key]
        assert texts(of_key) == ["0", "1", "2"]
        place = oxbus.partition_id(key, 16) if partitioned else None
        assert {message.partition_id for message in of_key} == {place}


@BOTH
def test_keyless_messages_arrive(
    admin: ServiceBusAdministrationClient,
    make_queue: Callable[..., str],
    send_to: Callable[..., None],
    take_from: Take,
    partitioned_source: bool,
) -> None:
    """Keyless messages each arrive once (B-336)."""
    make_queue("to")
    admin.create_queue("from", enable_partitioning=partitioned_source, forward_to="to")
    send_to("from", *map(str, range(100)))
    assert sorted(texts(take_from("to")), key=int) == [str(number) for number in range(100)]


@pytest.mark.parametrize("detects", [(True, False), (False, True)], ids=["at the source", "at the destination"])
def test_message_id_that_is_the_key(
    admin: ServiceBusAdministrationClient, send_to: Callable[..., None], take_from: Take, detects: tuple[bool, bool]
) -> None:
    """A message id that is the key at the source or the destination selects the partition (B-063, B-086)."""
    for name, detecting, to in (("to", detects[1], None), ("from", detects[0], "to")):
        admin.create_queue(name, enable_partitioning=True, requires_duplicate_detection=detecting, forward_to=to)
    ids = [f"id {number}" for number in range(60)]
    for each in ids:
        send_to("from", "x", message_id=each)
    found = {message.message_id: message.partition_id for message in take_from("to")}
    assert found == {each: oxbus.partition_id(each, 16) for each in ids}


def test_four_hops_and_no_more(
    chain: Callable[[int], list[str]], send_to: Callable[..., None], take_from: Take
) -> None:
    """A message makes four hops; instead of a fifth it is dead-lettered (B-334)."""
    chain(6)
    send_to("q1", "near", partition_key="k")
    send_to("q0", "far", partition_key="k")
    assert texts(take_from("q5")) == ["near"]
    (dead,) = take_from("q4", "deadletter")
    assert (str(dead), dead.dead_letter_reason) == ("far", "MaxTransferHopCountExceeded")
    assert dead.enqueued_sequence_number is not None
    assert dead.dead_letter_source is None


def test_circle(
    chain: Callable[[int], list[str]],
    admin: ServiceBusAdministrationClient,
    send_to: Callable[..., None],
    take_from: Take,
) -> None:
    """Queues that forward to each other move a message until its hops are used up (B-334)."""
    chain(3)
    set_forward(admin, "q2", "q0")
    send_to("q0", *map(str, range(20)), partition_key="k")
    assert texts(take_from("q1", "deadletter")) == [str(number) for number in range(20)]
    assert [admin.get_queue_runtime_properties(f"q{n}").total_message_count for n in range(3)] == [0, 0, 0]


def test_source_is_not_received_from(
    chain: Callable[[int], list[str]], client: ServiceBusClient, send_to: Callable[..., None]
) -> None:
    """Receiving is refused with the service's text; browsing is allowed (B-137, B-341)."""
    chain(2)
    words = "Cannot create a message receiver on an entity with auto-forwarding enabled"
    with client.get_queue_receiver("q0") as receiver:
        with pytest.raises(ServiceBusError, match=words):
            receiver.receive_messages(max_wait_time=0)
        with pytest.raises(ServiceBusError, match=words):
            receiver.receive_deferred_messages(1)
        assert receiver.peek_messages() == []
    with client.get_queue_receiver("q0", sub_queue="deadletter") as receiver:
        assert receiver.receive_messages(max_wait_time=0) == []
    send_to("q0", "still open to senders")


def test_entity_that_forwards_to_itself(
    make_queue: Callable[..., str], admin: ServiceBusAdministrationClient, send_to: Callable[..., None], take_from: Take
) -> None:
    """It is a valid destination, and moves a message until its hops are used up (B-033, B-334)."""
    make_queue("q", forward_to="q")
    assert (admin.get_queue("q").forward_to or "").rpartition("/")[2] == "q"
    send_to("q", *map(str, range(20)), partition_key="k")
    send_to("q", "keyless")
    dead = take_from("q", "deadletter")
    assert sorted(texts(dead), key=str) == sorted([*map(str, range(20)), "keyless"])
    assert {message.dead_letter_reason for message in dead} == {"MaxTransferHopCountExceeded"}
    set_forward(admin, "q", None)
    assert take_from("q") == []
    send_to("q", "stays")
    set_forward(admin, "q", "Q")
    assert texts(take_from("q", "deadletter")) == ["stays"]


def test_dead_letters_that_are_forwarded_to_their_entity(
    make_queue: Callable[..., str],
    admin: ServiceBusAdministrationClient,
    client: ServiceBusClient,
    send_to: Callable[..., None],
) -> None:
    """They return four times, and then stay in the dead-letter queue (B-033, B-269, B-334)."""
    make_queue("q", forward_dead_lettered_messages_to="q")
    send_to("q", "body", partition_key="k")
    with client.get_queue_receiver("q") as receiver:
        for _ in range(4):
            (message,) = receiver.receive_messages(max_wait_time=0)
            receiver.dead_letter_message(message, reason="why")
        (message,) = receiver.receive_messages(max_wait_time=0)
        receiver.dead_letter_message(message, reason="at last")
        assert receiver.receive_messages(max_wait_time=0) == []
    assert admin.get_queue_runtime_properties("q").dead_letter_message_count == 1
    changed = admin.get_queue("q")
    changed.forward_dead_lettered_messages_to = None
    admin.update_queue(changed)
    with client.get_queue_receiver("q", sub_queue="deadletter") as receiver:
        (dead,) = receiver.receive_messages(max_wait_time=0)
        assert (str(dead), dead.dead_letter_reason) == ("body", "at last")


@pytest.mark.parametrize("option", ["forward_to", "forward_dead_lettered_messages_to"])
def test_destination_must_be_there(
    admin: ServiceBusAdministrationClient,
    make_queue: Callable[..., str],
    snapshot: Callable[[str], object],
    option: str,
) -> None:
    """An unknown destination or a subscription is refused, and nothing changes (B-332)."""
    make_queue("from")
    admin.create_topic("news")
    admin.create_subscription("news", "all")
    before = snapshot("from")
    for path in ("nobody", "news/Subscriptions/all"):
        queue = admin.get_queue("from")
        setattr(queue, option, path)
        with pytest.raises(ServiceBusError, match="destination entity doesn't exist"):
            admin.update_queue(queue)
        options: Any = {option: path}
        with pytest.raises(ServiceBusError, match="destination entity doesn't exist"):
            admin.create_queue("new", **options)
    assert getattr(admin.get_queue("from"), option) is None
    assert snapshot("from") == before
    assert [queue.name for queue in admin.list_queues()] == ["from"]


def test_sessions_are_forwarded(
    make_queue: Callable[..., str], client: ServiceBusClient, send_to: Callable[..., None], take_from: Take
) -> None:
    """A source that requires sessions forwards all messages, each session in order (B-137, B-333)."""
    make_queue("to")
    make_queue("from", requires_session=True, forward_to="to")
    for number in range(10):
        send_to("from", f"a{number}", session_id="a")
        send_to("from", f"b{number}", session_id="b")
    found = texts(take_from("to"))
    for session in "ab":
        assert [text for text in found if text[0] == session] == [f"{session}{number}" for number in range(10)]
    for wanted in ("a", oxbus.NEXT_AVAILABLE_SESSION):
        with (
            pytest.raises(ServiceBusError, match="Cannot create a message receiver on an entity with auto-forwarding"),
            client.get_queue_receiver("from", session_id=wanted) as receiver,
        ):
            receiver.receive_messages(max_wait_time=0)
    with pytest.raises(ServiceBusError, match="SessionId was not set"):
        send_to("from", "no session")


def test_forwarding_can_be_set_and_cleared_on_a_session_queue(
    admin: ServiceBusAdministrationClient,
    make_queue: Callable[..., str],
    client: ServiceBusClient,
    send_to: Callable[..., None],
    take_from: Take,
) -> None:
    """Setting it forwards waiting messages at once and received ones on release; clearing it stops that (B-333)."""
    make_queue("to", requires_session=True)
    make_queue("from", requires_session=True)
    for session in "ab":
        send_to("from", *(f"{session}{number}" for number in range(3)), session_id=session)
    with client.get_queue_receiver("from", session_id="a") as holder:
        (first,) = holder.receive_messages(max_wait_time=0)
        assert str(first) == "a0"
        set_forward(admin, "from", "to")
        assert texts(take_from("to", session_id="a")) == ["a1", "a2"]
        assert texts(take_from("to", session_id="b")) == ["b0", "b1", "b2"]
    assert texts(take_from("to", session_id="a")) == ["a0"]
    set_forward(admin, "from", None)
    send_to("from", "a3", session_id="a")
    assert texts(take_from("from", session_id="a")) == ["a3"]


def test_subscriptions_with_sessions_are_forwarded(
    admin: ServiceBusAdministrationClient, make_queue: Callable[..., str], send_to: Callable[..., None], take_from: Take
) -> None:
    """A subscription forwards its sessions; a copy without a session is still dead-lettered (B-272, B-333)."""
    make_queue("to")
    admin.create_topic("news")
    admin.create_subscription("news", "all", requires_session=True, forward_to="to")
    send_to("news", "1", "2", session_id="s")
    send_to("news", "no session")
    assert texts(take_from("to")) == ["1", "2"]
    counts = admin.get_subscription_runtime_properties("news", "all")
    assert (counts.dead_letter_message_count, counts.total_message_count) == (1, 1)


def test_backlog_moves_in_order_and_stops(
    admin: ServiceBusAdministrationClient, make_queue: Callable[..., str], send_to: Callable[..., None], take_from: Take
) -> None:
    """Setting forwarding moves existing messages first; after clearing it later messages stay (B-331)."""
    make_queue("to")
    make_queue("from")
    send_to("from", *map(str, range(300)), partition_key="k")
    set_forward(admin, "from", "to")
    send_to("from", "300", partition_key="k")
    assert texts(take_from("to")) == [str(number) for number in range(301)]
    set_forward(admin, "from", None)
    send_to("from", "stays", partition_key="k")
    assert take_from("to") == []
    assert texts(take_from("from")) == ["stays"]


def test_locked_messages_move_when_released(
    admin: ServiceBusAdministrationClient,
    client: ServiceBusClient,
    make_queue: Callable[..., str],
    send_to: Callable[..., None],
    take_from: Take,
    clock: ManualClock,
) -> None:
    """Locked messages can be settled; abandoned and expired ones move, deferred ones stay (B-331)."""
    make_queue("to")
    make_queue("from")
    send_to("from", "completed", "deferred", "abandoned", "held", "prefetched", partition_key="k")
    with client.get_queue_receiver("from", prefetch_count=5) as receiver:
        messages = receiver.receive_messages(4, max_wait_time=0)
        while len(messages) < 4:
            messages += receiver.receive_messages(4 - len(messages), max_wait_time=0)
        completed, deferred, abandoned, _ = messages
        set_forward(admin, "from", "to")
        receiver.complete_message(completed)
        receiver.defer_message(deferred)
        receiver.abandon_message(abandoned)
    assert sorted(texts(take_from("to"))) == ["abandoned", "prefetched"]
    counts = admin.get_queue_runtime_properties("from")
    assert (counts.active_message_count, counts.transfer_message_count) == (2, 0)
    clock.advance(61)
    assert texts(take_from("to")) == ["held"]
    set_forward(admin, "from", None)
    with client.get_queue_receiver("from") as receiver:
        assert texts(receiver.receive_deferred_messages(deferred.sequence_number)) == ["deferred"]


def test_scheduled_message_moves_when_it_is_due(
    chain: Callable[[int], list[str]],
    admin: ServiceBusAdministrationClient,
    client: ServiceBusClient,
    take_from: Take,
    clock: ManualClock,
) -> None:
    """It waits at the source, can be cancelled there, and is forwarded when due (B-235, B-337)."""
    chain(4)
    due = clock.now() + timedelta(minutes=5)
    with client.get_queue_sender("q0") as sender:
        sender.schedule_messages([ServiceBusMessage("later", partition_key="k")], due)
        cancelled = sender.schedule_messages([ServiceBusMessage("cancelled", partition_key="k")], due)
        assert admin.get_queue_runtime_properties("q0").scheduled_message_count == 2
        sender.cancel_scheduled_messages(cancelled)
    assert take_from("q3") == []
    clock.advance(301)
    (moved,) = take_from("q3")
    assert str(moved) == "later"


def test_time_to_live_restarts(
    make_queue: Callable[..., str],
    admin: ServiceBusAdministrationClient,
    send_to: Callable[..., None],
    take_from: Take,
    clock: ManualClock,
) -> None:
    """The destination's default applies from arrival there; expired messages do not move (B-247, B-337)."""
    make_queue("to", default_message_time_to_live=timedelta(minutes=2), dead_lettering_on_message_expiration=True)
    make_queue("from")
    send_to("from", "expired", partition_key="k", time_to_live=timedelta(seconds=30))
    send_to("from", "moved", partition_key="k", time_to_live=timedelta(minutes=5))
    clock.advance(60)
    set_forward(admin, "from", "to")
    clock.advance(119)
    assert [str(message) for message in take_from("to", "deadletter")] == []
    clock.advance(2)
    assert take_from("to") == []
    assert texts(take_from("to", "deadletter")) == ["moved"]
    assert admin.get_queue_runtime_properties("from").total_message_count == 0


def test_copies_are_dropped_at_the_destination(
    make_queue: Callable[..., str], send_to: Callable[..., None], take_from: Take
) -> None:
    """Of one id from two sources, the destination keeps the first and drops the other (B-228, B-337)."""
    make_queue("to", requires_duplicate_detection=True)
    for name in ("left", "right"):
        make_queue(name, forward_to="to")
    for name in ("left", "right", "to"):
        send_to(name, name, message_id="one", partition_key="k")
    assert texts(take_from("to")) == ["left"]
    assert take_from("right", "deadletter") == []


def test_sessions_as_destination(
    make_queue: Callable[..., str],
    client: ServiceBusClient,
    send_to: Callable[..., None],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Messages with a session id are received by session at the destination (B-181, B-331)."""
    make_queue("to", requires_session=True)
    make_queue("from", forward_to="to")
    for number in range(6):
        send_to("from", str(number), session_id=f"s{number % 2}")
    for each in (0, 1):
        with client.get_queue_receiver("to", session_id=f"s{each}", max_wait_time=0) as receiver:
            assert texts(drain(receiver)) == [str(number) for number in range(each, 6, 2)]


@pytest.mark.parametrize("commits", [True, False])
def test_transactions(
    chain: Callable[[int], list[str]], client: ServiceBusClient, take_from: Take, commits: bool
) -> None:
    """Messages sent in a transaction are forwarded at its commit (B-315, B-330)."""
    chain(3)
    txn = client.transaction()
    with client.get_queue_sender("q0") as sender:
        for number in range(10):
            sender.send_messages(ServiceBusMessage(str(number), partition_key="k"), transaction=txn)
    assert take_from("q2") == []
    if commits:
        txn.commit()
    else:
        txn.rollback()
    assert texts(take_from("q2")) == [str(number) for number in range(10) if commits]


def test_waiting_receiver_is_woken(
    chain: Callable[[int], list[str]],
    client: ServiceBusClient,
    send_to: Callable[..., None],
    in_background: Callable[..., Any],
) -> None:
    """A receiver waiting at the end of a chain gets messages sent to its start (B-331)."""
    chain(4)
    with client.get_queue_receiver("q3") as receiver:
        waiting = in_background(receiver.receive_messages, max_wait_time=30)
        send_to("q0", "x")
        assert texts(waiting.result()) == ["x"]


def test_asyncio(namespace: Namespace, chain: Callable[[int], list[str]]) -> None:
    """The same through the asyncio clients (B-331, B-137)."""
    import asyncio  # noqa: PLC0415 -- here only

    from oxbus.aio import ServiceBusClient as Client  # noqa: PLC0415

    chain(3)

    async def main() -> None:
        async with (
            Client(namespace) as client,
            client.get_queue_sender("q0") as sender,
            client.get_queue_receiver("q2") as receiver,
        ):
            waiting = asyncio.create_task(receiver.receive_messages(max_wait_time=30))
            await asyncio.sleep(0)
            await sender.send_messages(ServiceBusMessage("x"))
            assert texts(await waiting) == ["x"]
            async with client.get_queue_receiver("q0") as source:
                with pytest.raises(ServiceBusError, match="auto-forwarding"):
                    await source.receive_messages(max_wait_time=0)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_prefetched_messages_are_forwarded(
    client: ServiceBusClient, make_queue: Callable[..., str], admin: ServiceBusAdministrationClient
) -> None:
    """Setting `forward_to` moves all but delivered messages, which stay until they are settled (B-331, B-137)."""
    source, target = make_queue("source"), make_queue("target")
    with client.get_queue_sender(source) as sender:
        sender.send_messages([ServiceBusMessage(str(number), partition_key="k") for number in range(3)])
    with client.get_queue_receiver(source, prefetch_count=5) as receiver:
        (held,) = receiver.receive_messages(1, max_wait_time=0)
        properties = admin.get_queue(source)
        properties.forward_to = target
        admin.update_queue(properties)
        assert admin.get_queue_runtime_properties(target).active_message_count == 2
        receiver.complete_message(held)
    assert admin.get_queue_runtime_properties(source).total_message_count == 0
