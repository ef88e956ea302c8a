# SPDX-License-Identifier: Apache-2.0
"""Topics: fan-out to subscriptions, and properties of copies.

Rules: B-088, B-113, B-114, B-185, B-228, B-241, B-248, B-271, B-304, B-343 to B-354, B-392, B-396 to B-399.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import ServiceBusMessage, ServiceBusMessageState
from oxbus.exceptions import InvalidOperationError, MessageLockLostError, MessagingEntityDisabledError
from oxbus.management import (
    CorrelationRuleFilter,
    EntityStatus,
    FalseRuleFilter,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

HOUR = timedelta(hours=1)
LOW_48_BITS = (1 << 48) - 1


def bodies(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies as texts, sorted: copies in several partitions have no common order."""
    return sorted(str(message) for message in messages)


def properties(message: ServiceBusReceivedMessage) -> dict[str, Any]:
    """The application properties, empty when there are none."""
    return message.application_properties or {}


@pytest.fixture(autouse=True)
def _topic(topic: str) -> None:
    """Each test has the topic `news`, without subscriptions."""
    assert topic == "news"


@pytest.fixture
def counts(admin: ServiceBusAdministrationClient) -> Callable[..., tuple[int, int]]:
    """Active messages and dead letters of a subscription."""

    def counts(subscription: str = "all") -> tuple[int, int]:
        runtime = admin.get_subscription_runtime_properties("news", subscription)
        return runtime.active_message_count, runtime.dead_letter_message_count

    return counts


def test_each_subscription_gets_a_copy(
    subscribe: Callable[..., str], publish: Callable[..., None], take_copies: Callable[..., Any]
) -> None:
    """Every subscription that selects a message gets a full copy (B-343)."""
    for name in ("one", "two", "three"):
        subscribe(name)
    publish("x", "y", message_id="m", subject="s", to="t", application_properties={"n": 1})
    for name in ("one", "two", "three"):
        copies = take_copies(name)
        assert bodies(copies) == ["x", "y"]
        assert {(copy.message_id, copy.subject, copy.to, properties(copy)["n"]) for copy in copies} == {
            ("m", "s", "t", 1)
        }
        assert "RuleName" not in properties(copies[0])


def test_copies_are_settled_one_by_one(
    client: ServiceBusClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    counts: Callable[..., tuple[int, int]],
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """Locks, delivery counts and settlements of copies are independent (B-343)."""
    for name in ("one", "two", "three"):
        subscribe(name)
    publish("x")
    with (
        client.get_subscription_receiver("news", "one") as one,
        client.get_subscription_receiver("news", "two") as two,
        client.get_subscription_receiver("news", "three") as three,
    ):
        one.complete_message(receive_one(one))
        two.abandon_message(receive_one(two))
        assert receive_one(two).delivery_count == 1
        copy = receive_one(three)
        assert copy.delivery_count == 0
        three.dead_letter_message(copy, "reason")
    assert [counts(name) for name in ("one", "two", "three")] == [(0, 0), (1, 0), (0, 1)]


def test_lock_of_a_copy_cannot_be_settled_elsewhere(
    client: ServiceBusClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    counts: Callable[..., tuple[int, int]],
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """A copy's lock is valid in its subscription only (B-343)."""
    subscribe("one")
    subscribe("two")
    publish("x")
    with client.get_subscription_receiver("news", "one") as one, client.get_subscription_receiver("news", "two") as two:
        copy = receive_one(one)
        with pytest.raises((MessageLockLostError, InvalidOperationError, ValueError)):
            two.complete_message(copy)
        one.complete_message(copy)
    assert (counts("one"), counts("two")) == ((0, 0), (1, 0))


def test_copies_expire_one_by_one(
    client: ServiceBusClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    clock: ManualClock,
    take_copies: Callable[..., Any],
) -> None:
    """Each copy expires and is dead-lettered by the options of its subscription (B-248, B-343)."""
    subscribe("short", default_message_time_to_live=timedelta(seconds=10), dead_lettering_on_message_expiration=True)
    subscribe("long")
    publish("x")
    clock.advance(11)
    assert (take_copies("short"), bodies(take_copies("long"))) == ([], ["x"])
    (dead,) = take_copies("short", sub_queue="deadletter")
    assert dead.dead_letter_reason == "TTLExpiredException"
    with client.get_subscription_receiver("news", "long", sub_queue="deadletter") as receiver:
        assert receiver.peek_messages() == []


@pytest.mark.parametrize("of_message", [None, 5, 15, 25, 100])
@pytest.mark.parametrize(("of_topic", "of_subscription"), [(20, 10), (10, 20), (20, None), (None, 10)])
def test_shortest_time_to_live_holds(
    admin: ServiceBusAdministrationClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    clock: ManualClock,
    take_copies: Callable[..., Any],
    of_topic: int | None,
    of_subscription: int | None,
    of_message: int | None,
) -> None:
    """The shortest of message, topic and subscription applies (B-247, B-248)."""
    news = admin.get_topic("news")
    news.default_message_time_to_live = None if of_topic is None else timedelta(seconds=of_topic)
    admin.update_topic(news)
    ttl = None if of_subscription is None else timedelta(seconds=of_subscription)
    subscribe("all", default_message_time_to_live=ttl)
    publish("x", time_to_live=None if of_message is None else timedelta(seconds=of_message))
    shortest = min(seconds for seconds in (of_topic, of_subscription, of_message) if seconds is not None)
    (copy,) = take_copies()
    assert copy.expires_at_utc == clock.now() + timedelta(seconds=shortest)


def test_message_that_no_rule_selects_is_dropped(
    admin: ServiceBusAdministrationClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    counts: Callable[..., tuple[int, int]],
) -> None:
    """The send succeeds, and nothing is stored (B-344)."""
    publish("nobody is there")
    subscribe("none", filter=FalseRuleFilter())
    publish("nobody wants it")
    assert counts("none") == (0, 0)
    assert admin.get_topic_runtime_properties("news").size_in_bytes == 0


def test_subscription_without_rules_gets_nothing(
    admin: ServiceBusAdministrationClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    take_copies: Callable[..., Any],
) -> None:
    """Without rules a subscription gets no messages, until a rule is added (B-346)."""
    subscribe()
    admin.delete_rule("news", "all", "$Default")
    publish("lost")
    assert take_copies() == []
    admin.create_rule("news", "all", "again")
    publish("kept")
    assert bodies(take_copies()) == ["kept"]


def test_rules_without_actions_share_one_copy(
    admin: ServiceBusAdministrationClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    take_copies: Callable[..., Any],
) -> None:
    """Rules are OR-ed: a message that several select is copied once (B-347)."""
    subscribe("all", filter=SqlRuleFilter("a = 1"))
    admin.create_rule("news", "all", "second", filter=SqlRuleFilter("b = 1"))
    admin.create_rule("news", "all", "third", filter=CorrelationRuleFilter(properties={"c": 1}))
    for given in ({"a": 1}, {"b": 1}, {"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 2}, None):
        publish(str(given), application_properties=given)
    copies = take_copies()
    assert bodies(copies) == sorted(str(given) for given in ({"a": 1}, {"b": 1}, {"a": 1, "b": 1, "c": 1}))
    assert all("RuleName" not in properties(copy) for copy in copies)


def test_each_rule_with_an_action_makes_its_own_copy(
    admin: ServiceBusAdministrationClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    take_copies: Callable[..., Any],
) -> None:
    """A copy has the name of its rule and only that rule's changes (B-348, B-350)."""
    subscribe("all", filter=TrueRuleFilter(), action=SqlRuleAction("SET by = 'first'; SET first = 1"))
    admin.create_rule("news", "all", "Second", action=SqlRuleAction("SET by = 'second'; REMOVE kept"))
    subscribe("other")
    publish("x", application_properties={"by": "sender", "kept": True})
    copies = {properties(copy)["RuleName"]: properties(copy) for copy in take_copies()}
    assert copies == {
        "first": {"RuleName": "first", "by": "first", "first": 1, "kept": True},
        "Second": {"RuleName": "Second", "by": "second"},
    }
    (untouched,) = take_copies("other")
    assert properties(untouched) == {"by": "sender", "kept": True}


def test_five_rules_of_which_two_act_make_three_copies(
    admin: ServiceBusAdministrationClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    take_copies: Callable[..., Any],
) -> None:
    """The example of the documentation: one copy for three rules, and one for each rule that acts (B-349)."""
    subscribe("all", filter=SqlRuleFilter("n > 0"))
    for name in ("second", "third"):
        admin.create_rule("news", "all", name, filter=SqlRuleFilter("n > 1"))
    for name in ("fourth", "fifth"):
        admin.create_rule("news", "all", name, filter=SqlRuleFilter("n > 2"), action=SqlRuleAction("SET n = 0"))
    publish("x", application_properties={"n": 5})
    copies = take_copies()
    assert bodies(copies) == ["x"] * 3
    assert sorted((properties(copy).get("RuleName", ""), properties(copy)["n"]) for copy in copies) == [
        ("", 5),
        ("fifth", 0),
        ("fourth", 0),
    ]
    assert len({copy.sequence_number for copy in copies}) == 3


def test_rules_hold_for_later_messages(
    admin: ServiceBusAdministrationClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    take_copies: Callable[..., Any],
) -> None:
    """New, changed and deleted rules affect later messages only (B-351)."""
    publish("before the subscription")
    subscribe("all", filter=SqlRuleFilter("n = 1"))
    publish("1", application_properties={"n": 1})
    publish("2 too early", application_properties={"n": 2})
    admin.create_rule("news", "all", "second", filter=SqlRuleFilter("n = 2"))
    publish("2", application_properties={"n": 2})
    rule = admin.get_rule("news", "all", "second")
    rule.filter = SqlRuleFilter("n = 3")
    admin.update_rule("news", "all", rule)
    publish("2 too late", application_properties={"n": 2})
    publish("3", application_properties={"n": 3})
    admin.delete_rule("news", "all", "first")
    publish("1 too late", application_properties={"n": 1})
    assert bodies(take_copies()) == ["1", "2", "3"]


def test_copy_stays_in_the_partition_of_the_message(
    partitioned: bool, subscribe: Callable[..., str], publish: Callable[..., None], take_copies: Callable[..., Any]
) -> None:
    """In every subscription a copy is in the partition of the message's key (B-009, B-353)."""
    for name in ("one", "two"):
        subscribe(name)
    keys = [f"key-{number}" for number in range(40)]
    for key in keys:
        publish(key, partition_key=key)
    for name in ("one", "two"):
        copies = take_copies(name)
        assert bodies(copies) == sorted(keys)
        for copy in copies:
            assert copy.partition_id == (oxbus.partition_id(str(copy)) if partitioned else None)
            assert copy.partition_key == str(copy)


def test_action_on_the_session_id_does_not_move_the_copy(
    partitioned: bool, subscribe: Callable[..., str], publish: Callable[..., None], take_copies: Callable[..., Any]
) -> None:
    """The copy shows the new session, in the partition of the old one (B-088, B-380)."""
    subscribe("all", action=SqlRuleAction("SET sys.SessionId = 'somewhere else'"))
    for number in range(20):
        publish(f"s-{number}", session_id=f"s-{number}")
    copies = take_copies()
    assert len(copies) == 20
    for copy in copies:
        assert copy.session_id == "somewhere else"
        assert copy.partition_id == (oxbus.partition_id(str(copy)) if partitioned else None)


def test_subscription_numbers_its_copies_itself(
    subscribe: Callable[..., str], publish: Callable[..., None], take_copies: Callable[..., Any]
) -> None:
    """Numbers start at 1 in each subscription; copies also keep the number in the topic (B-113)."""
    subscribe("all")
    subscribe("some", filter=SqlRuleFilter("some = TRUE"))
    for number in range(1, 7):
        publish(str(number), partition_key="k", application_properties={"some": number % 2 == 0})
    every, some = take_copies("all"), take_copies("some")
    assert [copy.sequence_number & LOW_48_BITS for copy in every] == [1, 2, 3, 4, 5, 6]
    assert [copy.sequence_number & LOW_48_BITS for copy in some] == [1, 2, 3]
    assert [(copy.enqueued_sequence_number or 0) & LOW_48_BITS for copy in every] == [1, 2, 3, 4, 5, 6]
    assert [(copy.enqueued_sequence_number or 0) & LOW_48_BITS for copy in some] == [2, 4, 6]
    assert len({copy.sequence_number >> 48 for copy in [*every, *some]}) == 1


@pytest.mark.parametrize("change", ["subscription", "rule"])
def test_due_message_ignores_later_rules_and_subscriptions(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    subscribe: Callable[..., str],
    clock: ManualClock,
    counts: Callable[..., tuple[int, int]],
    change: str,
) -> None:
    """This holds whether or not the topic was accessed in between (B-241, B-351)."""
    subscribe("early")
    admin.delete_rule("news", "early", "$Default")
    with client.get_topic_sender("news") as sender:
        sender.schedule_messages(ServiceBusMessage(b"x"), clock.now() + HOUR)
    clock.advance(3600)
    if change == "subscription":
        subscribe("late")
    else:
        admin.create_rule("news", "early", "all", filter=TrueRuleFilter())
    assert counts("late" if change == "subscription" else "early") == (0, 0)


def test_number_of_a_scheduled_message(
    client: ServiceBusClient, subscribe: Callable[..., str], clock: ManualClock, take_copies: Callable[..., Any]
) -> None:
    """It waits as number 1 of the topic, becomes its number 2, and is number 1 of the subscription (B-114)."""
    subscribe()
    with client.get_topic_sender("news") as sender:
        (waiting,) = sender.schedule_messages(ServiceBusMessage(b"x", partition_key="k"), clock.now() + HOUR)
    clock.advance(3600)
    (copy,) = take_copies()
    numbers = (waiting, copy.enqueued_sequence_number, copy.sequence_number)
    assert [number & LOW_48_BITS for number in numbers] == [1, 2, 1]


@pytest.mark.parametrize("way", ["schedule_messages", "property"])
def test_scheduled_message_waits_at_the_topic(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    subscribe: Callable[..., str],
    clock: ManualClock,
    counts: Callable[..., tuple[int, int]],
    take_copies: Callable[..., Any],
    way: str,
) -> None:
    """Subscriptions get nothing before that, and rules apply only when it is due (B-241, B-351, B-392)."""
    subscribe("early")
    due = clock.now() + HOUR
    with client.get_topic_sender("news") as sender:
        if way == "property":
            sender.send_messages(ServiceBusMessage(b"x", scheduled_enqueue_time_utc=due))
        else:
            sender.schedule_messages(ServiceBusMessage(b"x"), due)
    assert admin.get_topic_runtime_properties("news").scheduled_message_count == 1
    assert counts("early") == (0, 0)
    subscribe("late")
    clock.advance(3599)
    assert take_copies("early") == []
    clock.advance(1)
    copies = [*take_copies("early"), *take_copies("late")]
    assert [str(copy) for copy in copies] == ["x", "x"]
    assert {copy.enqueued_time_utc for copy in copies} == {due}
    assert admin.get_topic_runtime_properties("news").scheduled_message_count == 0


def test_scheduled_message_can_be_cancelled(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    subscribe: Callable[..., str],
    clock: ManualClock,
    take_copies: Callable[..., Any],
) -> None:
    """It is cancelled by the number that scheduling returned (B-238, B-241)."""
    subscribe()
    with client.get_topic_sender("news") as sender:
        messages = [ServiceBusMessage(str(number), partition_key="k") for number in range(3)]
        numbers = sender.schedule_messages(messages, clock.now() + HOUR)
        sender.cancel_scheduled_messages(numbers[1])
    assert admin.get_topic_runtime_properties("news").scheduled_message_count == 2
    clock.advance(3601)
    assert bodies(take_copies()) == ["0", "2"]


def test_waiting_receiver_wakes_when_a_scheduled_message_is_due(
    client: ServiceBusClient, subscribe: Callable[..., str], clock: ManualClock, in_background: Callable[..., Any]
) -> None:
    """A waiting receive on a subscription gets the copy when the topic's message is due (B-132, B-241)."""
    subscribe()
    with client.get_topic_sender("news") as sender, client.get_subscription_receiver("news", "all") as receiver:
        sender.schedule_messages(ServiceBusMessage(b"x"), clock.now() + timedelta(seconds=30))
        waiting = in_background(receiver.receive_messages, max_wait_time=600)
        clock.advance(31)
        assert [str(copy) for copy in waiting.result()] == ["x"]


def test_waiting_receiver_wakes_when_a_message_is_sent(
    client: ServiceBusClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    in_background: Callable[..., Any],
) -> None:
    """Waiting works on a subscription as on a queue (B-132, B-136)."""
    subscribe()
    with client.get_subscription_receiver("news", "all") as receiver:
        waiting = in_background(receiver.receive_messages, max_wait_time=600)
        publish("x")
        assert [str(copy) for copy in waiting.result()] == ["x"]


def test_peek_on_a_topic_shows_scheduled_messages_only(
    client: ServiceBusClient, subscribe: Callable[..., str], publish: Callable[..., None], clock: ManualClock
) -> None:
    """Messages copied to subscriptions are not in the topic any more (B-136, B-304)."""
    subscribe()
    publish("now")
    with client.get_topic_sender("news") as sender, client.get_queue_receiver("news") as browser:
        assert browser.peek_messages(max_message_count=10) == []
        sender.schedule_messages(ServiceBusMessage(b"later"), clock.now() + HOUR)
        (peeked,) = browser.peek_messages(max_message_count=10, sequence_number=1)
    assert (str(peeked), peeked.state) == ("later", ServiceBusMessageState.SCHEDULED)


def test_duplicates_are_dropped_at_the_topic(
    admin: ServiceBusAdministrationClient, client: ServiceBusClient, partitioned: bool, clock: ManualClock
) -> None:
    """A duplicate is dropped before fan-out, and the send succeeds (B-218, B-224, B-228)."""
    admin.create_topic("once", enable_partitioning=partitioned, requires_duplicate_detection=True)
    for name in ("one", "two"):
        admin.create_subscription("once", name)
    with client.get_topic_sender("once") as sender:
        for text in ("first", "copy"):
            sender.send_messages(ServiceBusMessage(text, message_id="m"))
        clock.advance(601)
        sender.send_messages(ServiceBusMessage("after the window", message_id="m"))
    for name in ("one", "two"):
        with client.get_subscription_receiver("once", name) as receiver:
            assert bodies(receiver.peek_messages(max_message_count=10)) == ["after the window", "first"]


def test_subscription_detects_no_duplicates(
    admin: ServiceBusAdministrationClient, client: ServiceBusClient, partitioned: bool
) -> None:
    """Copies to which an action gives equal ids are all kept (B-228, B-380)."""
    admin.create_topic("once", enable_partitioning=partitioned, requires_duplicate_detection=True)
    admin.create_subscription("once", "all")
    rule = admin.get_rule("once", "all", "$Default")
    rule.action = SqlRuleAction("SET sys.MessageId = 'same'")
    admin.update_rule("once", "all", rule)
    with client.get_topic_sender("once") as sender:
        for number in range(3):
            sender.send_messages(ServiceBusMessage(str(number), message_id=str(number)))
    with client.get_subscription_receiver("once", "all") as receiver:
        copies = receiver.peek_messages(max_message_count=10)
    assert (bodies(copies), {copy.message_id for copy in copies}) == (["0", "1", "2"], {"same"})


def test_batches_are_filtered_message_by_message(
    client: ServiceBusClient, subscribe: Callable[..., str], take_copies: Callable[..., Any]
) -> None:
    """Each message of a list or batch is filtered separately, in order (B-079, B-343, B-354)."""
    subscribe("all")
    subscribe("even", filter=SqlRuleFilter("n % 2 = 0"))
    with client.get_topic_sender("news") as sender:
        batch = sender.create_message_batch()
        messages = [
            ServiceBusMessage(str(number), partition_key="k", application_properties={"n": number})
            for number in range(6)
        ]
        for message in messages[3:]:
            batch.add_message(message)
        sender.send_messages(messages[:3])
        sender.send_messages(batch)
    assert [str(copy) for copy in take_copies("all")] == ["0", "1", "2", "3", "4", "5"]
    assert [str(copy) for copy in take_copies("even")] == ["0", "2", "4"]


def test_batch_with_several_keys_is_refused_as_a_whole(
    client: ServiceBusClient, subscribe: Callable[..., str], partitioned: bool, take_copies: Callable[..., Any]
) -> None:
    """On a partitioned topic a list has one key; otherwise no subscription gets anything (B-080)."""
    subscribe()
    messages = [ServiceBusMessage(key, partition_key=key) for key in ("k-1", "k-2", "k-3")]
    with client.get_topic_sender("news") as sender:
        if partitioned:
            with pytest.raises(InvalidOperationError):
                sender.send_messages(messages)
        else:
            sender.send_messages(messages)
    assert bodies(take_copies()) == ([] if partitioned else ["k-1", "k-2", "k-3"])


def test_messages_of_a_key_arrive_in_order(
    subscribe: Callable[..., str], publish: Callable[..., None], take_copies: Callable[..., Any]
) -> None:
    """Subscriptions get messages of a key in the order they were sent (B-354)."""
    for name in ("one", "two"):
        subscribe(name)
    publish(*map(str, range(100)), partition_key="k")
    for name in ("one", "two"):
        assert [str(copy) for copy in take_copies(name)] == [str(number) for number in range(100)]


def test_dead_letters_of_subscriptions_are_their_own(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    counts: Callable[..., tuple[int, int]],
    receive_one: Callable[..., ServiceBusReceivedMessage],
    take_copies: Callable[..., Any],
) -> None:
    """Each subscription has a dead-letter queue; a topic has none and counts none (B-259, B-271)."""
    subscribe("one", max_delivery_count=1)
    subscribe("two")
    publish("x")
    with client.get_subscription_receiver("news", "one") as receiver:
        receiver.abandon_message(receive_one(receiver))
    assert (counts("one"), counts("two")) == ((0, 1), (1, 0))
    assert not hasattr(admin.get_topic_runtime_properties("news"), "dead_letter_message_count")
    (dead,) = take_copies("one", sub_queue="deadletter")
    assert (str(dead), dead.dead_letter_reason) == ("x", "MaxDeliveryCountExceeded")
    assert counts("one") == (0, 0)


def test_copies_can_be_deferred_and_fetched(
    client: ServiceBusClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """Deferral works in a subscription as in a queue (B-136, B-275)."""
    subscribe()
    publish("x")
    with client.get_subscription_receiver("news", "all") as receiver:
        copy = receive_one(receiver)
        receiver.defer_message(copy)
        assert receiver.receive_messages(max_wait_time=0) == []
        (fetched,) = receiver.receive_deferred_messages(copy.sequence_number)
        receiver.complete_message(fetched)


def test_receiver_of_one_partition(
    client: ServiceBusClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
    partitioned: bool,
) -> None:
    """`partition_id` receives copies from one partition only, as on a queue (B-058)."""
    if not partitioned:
        pytest.skip("needs partitions")
    subscribe()
    keys = [f"key-{number}" for number in range(64)]
    for key in keys:
        publish(key, partition_key=key)
    with client.get_subscription_receiver("news", "all", partition_id=5) as receiver:
        assert bodies(drain(receiver)) == sorted(key for key in keys if oxbus.partition_id(key) == 5)


def test_session_subscription(
    client: ServiceBusClient, subscribe: Callable[..., str], publish: Callable[..., None]
) -> None:
    """A subscription that requires sessions delivers by session and lists its sessions (B-181, B-214)."""
    subscribe("all", requires_session=True)
    for session_id in ("a", "b", "a"):
        publish(f"for {session_id}", session_id=session_id)
    assert list(client.list_subscription_sessions("news", "all")) == ["a", "b"]
    details = list(client.list_subscription_sessions("news", "all", details=True))
    assert [(session.session_id, session.message_count) for session in details] == [("a", 2), ("b", 1)]
    with client.get_subscription_receiver("news", "all", session_id="a", max_wait_time=0) as receiver:
        copies = list(receiver)
        assert [str(copy) for copy in copies] == ["for a", "for a"]
        assert receiver.session is not None
        assert receiver.session.session_id == "a"
        receiver.complete_messages(copies)
    with client.get_subscription_receiver(
        "news", "all", session_id=oxbus.NEXT_AVAILABLE_SESSION, max_wait_time=0
    ) as receiver:
        assert [str(copy) for copy in receiver] == ["for b"]


def test_message_without_a_session_is_dead_lettered_where_one_is_required(
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    counts: Callable[..., tuple[int, int]],
    take_copies: Callable[..., Any],
) -> None:
    """The send succeeds, other subscriptions get their copies (B-185)."""
    subscribe("sessions", requires_session=True)
    subscribe("plain")
    publish("x")
    assert (counts("sessions"), counts("plain")) == ((0, 1), (1, 0))
    (dead,) = take_copies("sessions", sub_queue="deadletter")
    assert str(dead) == "x"
    assert (dead.dead_letter_reason or "").lower() == "session id is null."


@pytest.mark.parametrize("status", [EntityStatus.DISABLED, EntityStatus.SEND_DISABLED], ids=str)
def test_disabled_topic_refuses_sends(
    admin: ServiceBusAdministrationClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    take_copies: Callable[..., Any],
    status: EntityStatus,
) -> None:
    """Its subscriptions still deliver their messages (B-396, B-397)."""
    subscribe()
    publish("before")
    news = admin.get_topic("news")
    news.status = status
    admin.update_topic(news)
    with pytest.raises(MessagingEntityDisabledError):
        publish("refused")
    news.status = EntityStatus.ACTIVE
    admin.update_topic(news)
    publish("after")
    assert bodies(take_copies()) == ["after", "before"]


@pytest.mark.parametrize("status", [EntityStatus.DISABLED, EntityStatus.RECEIVE_DISABLED], ids=str)
def test_disabled_subscription_still_gets_copies(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    take_copies: Callable[..., Any],
    status: EntityStatus,
) -> None:
    """It refuses receives, and no copy is lost (B-396, B-397, B-399)."""
    subscribe()
    publish("before")
    subscription = admin.get_subscription("news", "all")
    subscription.status = status
    admin.update_subscription("news", subscription)
    with client.get_subscription_receiver("news", "all") as receiver, pytest.raises(MessagingEntityDisabledError):
        receiver.receive_messages(max_wait_time=0)
    publish("meanwhile")
    subscription.status = EntityStatus.ACTIVE
    admin.update_subscription("news", subscription)
    assert bodies(take_copies()) == ["before", "meanwhile"]


def test_deleting_a_subscription_leaves_the_others(
    admin: ServiceBusAdministrationClient,
    subscribe: Callable[..., str],
    publish: Callable[..., None],
    take_copies: Callable[..., Any],
) -> None:
    """Its copies are deleted, others stay, and a new one of the same name is empty (B-343)."""
    for name in ("one", "two"):
        subscribe(name)
    publish("x")
    admin.delete_subscription("news", "one")
    subscribe("one")
    assert (take_copies("one"), bodies(take_copies("two"))) == ([], ["x"])


def test_body_of_a_copy_is_as_it_was_sent(
    subscribe: Callable[..., str], publish: Callable[..., None], take_copies: Callable[..., Any]
) -> None:
    """Every copy has the body and all properties, also with an action (B-343, B-350)."""
    subscribe("plain")
    subscribe("acting", action=SqlRuleAction("SET n = 2"))
    text = "schlüssel 鍵 " * 10_000
    publish(text, application_properties={"n": 1, "bytes": b"\x00\xff"}, correlation_id="c", reply_to="r")
    for name, number in (("plain", 1), ("acting", 2)):
        (copy,) = take_copies(name)
        assert (str(copy), copy.correlation_id, copy.reply_to) == (text, "c", "r")
        assert (properties(copy)["n"], properties(copy)["bytes"]) == (number, b"\x00\xff")
