# SPDX-License-Identifier: Apache-2.0
"""Refused changes of entities: the right error, a helpful text, no effect (B-001 to B-060, B-332, B-359).

Each call is made in a namespace with a queue, a topic, a subscription, rules and messages. All that its clients can
see, update times included, is the same before and after.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import (
    InvalidOperationError,
    InvalidRuleError,
    MessagingEntityAlreadyExistsError,
    MessagingEntityNotFoundError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
)
from oxbus.management import (
    CorrelationRuleFilter,
    EntityStatus,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus.testing import ManualClock

Admin = ServiceBusAdministrationClient
Refusal = tuple[str, type[Exception], "Callable[[Admin], object]"]
REFUSED = (ServiceBusError, ValueError)
SUBSCRIPTIONS_MAX = 2_000
SQL_FILTERS_MAX = 2_000


def updated(properties: Any, **changes: Any) -> Any:
    """Properties of an entity with changes."""
    for name, value in changes.items():
        setattr(properties, name, value)
    return properties


def update_queue(**changes: Any) -> Callable[[Admin], object]:
    """An update of the queue."""
    return lambda admin: admin.update_queue(updated(admin.get_queue("orders"), **changes))


def update_topic(**changes: Any) -> Callable[[Admin], object]:
    """An update of the topic."""
    return lambda admin: admin.update_topic(updated(admin.get_topic("news"), **changes))


def update_subscription(**changes: Any) -> Callable[[Admin], object]:
    """An update of the subscription."""
    return lambda admin: admin.update_subscription("news", updated(admin.get_subscription("news", "all"), **changes))


RANGES: list[tuple[str, Any]] = [
    ("lock_duration", timedelta(0)),
    ("lock_duration", timedelta(milliseconds=499)),
    ("lock_duration", timedelta(hours=1, milliseconds=1)),
    ("default_message_time_to_live", timedelta(milliseconds=999)),
    ("auto_delete_on_idle", timedelta(minutes=4, seconds=59)),
    ("max_delivery_count", 0),
    ("max_delivery_count", 1 << 28),
    ("user_metadata", "x" * 1025),
]
QUEUE_RANGES: list[tuple[str, Any]] = [
    ("duplicate_detection_history_time_window", timedelta(milliseconds=999)),
    ("duplicate_detection_history_time_window", timedelta(days=31)),
    ("max_size_in_megabytes", 0),
    ("max_message_size_in_kilobytes", 0),
    ("max_message_size_in_kilobytes", (100 << 10) + 1),
]
NAMES = ["", "/a", "a/", "a//b", "a b", "a?b", "a#b", "a@b", "a*b", "a\\b", "x" * 261, "$q"]
PART_NAMES = ["", "a/b", "a\\b", "a b", "x" * 51, "$s"]

REFUSALS: list[Refusal] = [
    *((f"name of a queue {name[:9]!r}", ValueError, lambda admin, it=name: admin.create_queue(it)) for name in NAMES),
    *((f"name of a topic {name[:9]!r}", ValueError, lambda admin, it=name: admin.create_topic(it)) for name in NAMES),
    *(
        (f"subscription {name[:9]!r}", ValueError, lambda admin, it=name: admin.create_subscription("news", it))
        for name in PART_NAMES
    ),
    *(
        (f"rule {name[:9]!r}", ValueError, lambda admin, it=name: admin.create_rule("news", "all", it))
        for name in PART_NAMES
    ),
    *(
        (f"queue {name}={value}"[:60], ValueError, update_queue(**{name: value}))
        for name, value in RANGES + QUEUE_RANGES
    ),
    *(
        (
            f"new queue {name}={value}"[:60],
            ValueError,
            lambda admin, it=(name, value): admin.create_queue("q", **dict([it])),
        )
        for name, value in RANGES + QUEUE_RANGES
    ),
    *(
        (f"subscription {name}={value}"[:60], ValueError, update_subscription(**{name: value}))
        for name, value in RANGES
    ),
    *(
        (f"topic {name}={value}"[:60], ValueError, update_topic(**{name: value}))
        for name, value in RANGES + QUEUE_RANGES
        if name not in ("lock_duration", "max_delivery_count")
    ),
    ("queue: partitioning", InvalidOperationError, update_queue(enable_partitioning=True, max_delivery_count=3)),
    ("queue: sessions", InvalidOperationError, update_queue(requires_session=True, max_delivery_count=3)),
    ("queue: duplicates", InvalidOperationError, update_queue(requires_duplicate_detection=True)),
    ("topic: partitioning", InvalidOperationError, update_topic(enable_partitioning=True)),
    ("topic: duplicates", InvalidOperationError, update_topic(requires_duplicate_detection=True)),
    ("subscription: sessions", InvalidOperationError, update_subscription(requires_session=True)),
    ("forward to nothing", InvalidOperationError, update_queue(forward_to="nowhere")),
    (
        "dead letters to nothing",
        InvalidOperationError,
        update_subscription(forward_dead_lettered_messages_to="nowhere"),
    ),
    ("forward to a subscription", InvalidOperationError, update_queue(forward_to="news/Subscriptions/all")),
    ("topic: received from", InvalidOperationError, update_topic(status=EntityStatus.RECEIVE_DISABLED)),
    ("subscription: sent to", InvalidOperationError, update_subscription(status=EntityStatus.SEND_DISABLED)),
    ("queue exists", MessagingEntityAlreadyExistsError, lambda admin: admin.create_queue("ORDERS")),
    ("topic of a queue's name", MessagingEntityAlreadyExistsError, lambda admin: admin.create_topic("orders")),
    ("queue of a topic's name", MessagingEntityAlreadyExistsError, lambda admin: admin.create_queue("News")),
    ("subscription exists", MessagingEntityAlreadyExistsError, lambda admin: admin.create_subscription("news", "All")),
    ("rule exists", MessagingEntityAlreadyExistsError, lambda admin: admin.create_rule("news", "all", "FIRST")),
    ("no queue", MessagingEntityNotFoundError, lambda admin: admin.delete_queue("nowhere")),
    ("no queue but a topic", MessagingEntityNotFoundError, lambda admin: admin.delete_queue("news")),
    ("no topic but a queue", MessagingEntityNotFoundError, lambda admin: admin.delete_topic("orders")),
    ("no topic", MessagingEntityNotFoundError, lambda admin: admin.create_subscription("nowhere", "s")),
    ("no subscription", MessagingEntityNotFoundError, lambda admin: admin.delete_subscription("news", "none")),
    ("no subscription for a rule", MessagingEntityNotFoundError, lambda admin: admin.create_rule("news", "none", "r")),
    ("no rule", MessagingEntityNotFoundError, lambda admin: admin.delete_rule("news", "all", "none")),
    (
        "no rule to update",
        MessagingEntityNotFoundError,
        lambda admin: admin.update_rule("news", "all", updated(admin.get_rule("news", "all", "first"), name="none")),
    ),
    *(
        (
            f"rule {text[:20]!r}",
            InvalidRuleError,
            lambda admin, it=text: admin.create_rule("news", "all", "r", filter=SqlRuleFilter(it)),
        )
        for text in ("a =", "(" * 1000, "a LIKE 'x' ESCAPE 'ab'", "a = '" + "x" * 1025 + "'", "")
    ),
    (
        "no correlation",
        InvalidRuleError,
        lambda admin: admin.create_rule("news", "all", "r", filter=CorrelationRuleFilter()),
    ),
    (
        "action",
        InvalidRuleError,
        lambda admin: admin.create_rule("news", "all", "r", action=SqlRuleAction("SET a = 1; " * 33)),
    ),
    (
        "update of a rule",
        InvalidRuleError,
        lambda admin: admin.update_rule(
            "news", "all", updated(admin.get_rule("news", "all", "first"), filter=SqlRuleFilter("a ="))
        ),
    ),
]
TIERS: list[tuple[str, Refusal]] = [
    ("basic", ("a topic", InvalidOperationError, lambda admin: admin.create_topic("t"))),
    ("basic", ("sessions", InvalidOperationError, lambda admin: admin.create_queue("q", requires_session=True))),
    ("basic", ("idle", InvalidOperationError, update_queue(auto_delete_on_idle=timedelta(hours=1)))),
    ("basic", ("forwarding", InvalidOperationError, update_queue(forward_to="other"))),
    ("standard", ("long lock", ValueError, update_queue(lock_duration=timedelta(minutes=6)))),
    ("standard", ("short lock", ValueError, update_queue(lock_duration=timedelta(seconds=4)))),
    ("standard", ("size", ValueError, update_queue(max_size_in_megabytes=1000))),
    ("standard", ("large messages", ValueError, update_queue(max_message_size_in_kilobytes=257))),
    (
        "standard",
        (
            "express",
            InvalidOperationError,
            lambda admin: admin.create_queue("q", enable_express=True, requires_duplicate_detection=True),
        ),
    ),
    ("premium", ("size", ValueError, update_queue(max_size_in_megabytes=6000))),
]
WORDS_THAT_HELP = re.compile(
    r"(?i)\b(use|choose|create|leave|delete|update|name|expected|make|give|open|set|has|shorten|takes|characters)\b"
)


def picture(namespace: Namespace) -> object:
    """All that clients can see of a namespace."""
    admin, client = Admin(namespace), ServiceBusClient(namespace)

    def seen(receiver: Any) -> list[Any]:
        with receiver:
            return [(it.sequence_number, str(it), it.delivery_count) for it in receiver.peek_messages(100)]

    entities: list[Any] = []
    for queue in admin.list_queues():
        counts = admin.get_queue_runtime_properties(queue.name)
        entities.append((dict(queue.items()), repr(counts), seen(client.get_queue_receiver(queue.name))))
    for topic in admin.list_topics():
        entities.append((dict(topic.items()), repr(admin.get_topic_runtime_properties(topic.name))))
        for it in admin.list_subscriptions(topic.name):
            counts_of_it = admin.get_subscription_runtime_properties(topic.name, it.name)
            rules = [
                (rule.name, repr(rule.filter), rule.created_at_utc) for rule in admin.list_rules(topic.name, it.name)
            ]
            found = seen(client.get_subscription_receiver(topic.name, it.name))
            entities.append((dict(it.items()), repr(counts_of_it), rules, found))
    client.close()
    return entities


def check_refused(namespace: Namespace, clock: ManualClock, refusal: Refusal) -> None:
    """Make the call and compare the namespace before and after."""
    _, error, call = refusal
    picture(namespace)  # Opens receivers, which is an access.
    before = picture(namespace)
    clock.advance(0.5)
    with pytest.raises(REFUSED) as raised:
        call(Admin(namespace))
    assert isinstance(raised.value, error), repr(raised.value)
    assert WORDS_THAT_HELP.search(str(raised.value)), str(raised.value)
    assert picture(namespace) == before


@pytest.fixture
def world(open_namespace: Callable[..., Namespace], clock: ManualClock) -> Namespace:
    """A namespace with a queue, a topic, a subscription, rules and messages."""
    namespace = open_namespace(clock=clock)
    admin = Admin(namespace)
    admin.create_queue("orders")
    admin.create_topic("news")
    admin.create_subscription("news", "all")
    admin.create_rule("news", "all", "first", filter=SqlRuleFilter("a = 1"))
    with ServiceBusClient(namespace) as client:
        with client.get_queue_sender("orders") as sender:
            sender.send_messages([ServiceBusMessage(str(number)) for number in range(3)])
        with client.get_topic_sender("news") as topic_sender:
            topic_sender.send_messages(ServiceBusMessage("x"))
    clock.advance(1)
    return namespace


@pytest.mark.parametrize("refusal", REFUSALS, ids=[refusal[0] for refusal in REFUSALS])
def test_refusal_leaves_no_trace(world: Namespace, clock: ManualClock, refusal: Refusal) -> None:
    """Bad names, ranges and updates are refused (B-008, B-016 to B-033, B-332, B-333, B-359, B-396)."""
    check_refused(world, clock, refusal)


@pytest.mark.parametrize(("tier", "refusal"), TIERS, ids=[f"{tier}: {refusal[0]}" for tier, refusal in TIERS])
def test_refusal_of_a_tier_leaves_no_trace(
    open_namespace: Callable[..., Namespace], clock: ManualClock, tier: str, refusal: Refusal
) -> None:
    """A tier refuses features and ranges that it does not have (B-001, B-002, B-025, B-032, B-034, B-053, B-054)."""
    namespace = open_namespace(clock=clock, tier=tier)
    admin = Admin(namespace)
    admin.create_queue("orders")
    admin.create_queue("other")
    check_refused(namespace, clock, refusal)


def test_number_of_sql_filters_is_limited(clock: ManualClock) -> None:
    """With a tier, the number of SQL filters of all subscriptions of a topic is limited (B-042)."""
    metered = Namespace(tier="standard", clock=clock)
    admin = Admin(metered)
    admin.create_topic("news")
    for subscription in ("a", "b"):
        admin.create_subscription("news", subscription)
        for number in range(SQL_FILTERS_MAX // 2):
            admin.create_rule("news", subscription, f"r{number}", filter=SqlRuleFilter("n = 1"))
    before = admin.get_topic_runtime_properties("news")
    for call in (
        lambda: admin.create_rule("news", "a", "more", filter=SqlRuleFilter("n = 2")),
        lambda: admin.update_rule(
            "news", "b", updated(admin.get_rule("news", "b", "$Default"), filter=SqlRuleFilter("n=2"))
        ),
        lambda: admin.create_subscription("news", "c", rule=updated(admin.get_rule("news", "a", "r0"), name="only")),
    ):
        with pytest.raises(ServiceBusQuotaExceededError, match=f"{SQL_FILTERS_MAX} SQL filters"):
            call()
    after = admin.get_topic_runtime_properties("news")
    assert [it.name for it in admin.list_subscriptions("news")] == ["a", "b"]
    assert (before.sql_filter_count, before.updated_at_utc) == (after.sql_filter_count, after.updated_at_utc)
    admin.create_rule("news", "a", "other", filter=CorrelationRuleFilter(label="x"))
    admin.update_rule("news", "a", updated(admin.get_rule("news", "a", "r0"), filter=SqlRuleFilter("n = 3")))
    admin.delete_rule("news", "b", "r0")
    admin.create_rule("news", "a", "more", filter=SqlRuleFilter("n = 2"))
    metered.close()


def test_number_of_subscriptions_is_limited(clock: ManualClock) -> None:
    """A topic has at most two thousand subscriptions (B-042)."""
    metered = Namespace(clock=clock, partitions=1)
    admin = Admin(metered)
    admin.create_topic("news")
    for number in range(SUBSCRIPTIONS_MAX):
        admin.create_subscription("news", f"s{number}")
    with pytest.raises(ServiceBusQuotaExceededError, match=f"{SUBSCRIPTIONS_MAX} subscriptions"):
        admin.create_subscription("news", "more")
    assert admin.get_topic_runtime_properties("news").subscription_count == SUBSCRIPTIONS_MAX
    with pytest.raises(MessagingEntityAlreadyExistsError):
        admin.create_subscription("news", "s0")
    admin.delete_subscription("news", "s0")
    admin.create_subscription("news", "more")
    metered.close()
