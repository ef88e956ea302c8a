# SPDX-License-Identifier: Apache-2.0
"""Topics, subscriptions, rules and copies after a reopen, and after salvage of a damaged directory.

Rules: B-009, B-022 to B-024, B-113, B-228, B-241, B-343, B-351, B-353.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import oxbus
import pytest
from durable_bus import WAYS, Bus, bodies, described
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.cli import main
from oxbus.exceptions import (
    MessageLockLostError,
    MessagingEntityAlreadyExistsError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
)
from oxbus.management import (
    CorrelationRuleFilter,
    EntityStatus,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
)
from stored_files import flip_bit, tree

if TYPE_CHECKING:
    from pathlib import Path

    from oxbus.testing import ManualClock

TOPIC_OPTIONS: dict[str, Any] = {
    "default_message_time_to_live": timedelta(days=14),
    "max_size_in_megabytes": 2048,
    "requires_duplicate_detection": True,
    "duplicate_detection_history_time_window": timedelta(minutes=3),
    "enable_batched_operations": False,
    "user_metadata": "schlüssel 鍵",
    "enable_partitioning": True,
}
SUBSCRIPTION_OPTIONS: dict[str, Any] = {
    "lock_duration": timedelta(seconds=30),
    "requires_session": True,
    "default_message_time_to_live": timedelta(days=7),
    "dead_lettering_on_message_expiration": True,
    "dead_lettering_on_filter_evaluation_exceptions": False,
    "max_delivery_count": 3,
    "enable_batched_operations": False,
    "user_metadata": "schlüssel 鍵",
}
VALUES: dict[str, Any] = {
    "@text": "schlüssel 鍵",
    "@int": -(2**63),
    "@float": 2.5,
    "@bool": True,
    "@id": UUID("12345678-1234-5678-1234-567812345678"),
    "@at": datetime(2026, 3, 1, 11, 30, tzinfo=UTC),
    "@span": timedelta(days=1, hours=2, minutes=3, microseconds=4),
}
ALL = "news/Subscriptions/all"
SOME = "news/Subscriptions/some"
CONTENT_AT = 4_096 + 8 + 2
"""A byte of a snapshot after its first page and the header of its first chunk (docs/format.md)."""


def entities(bus: Bus) -> dict[str, Any]:
    """All topics with their options, subscriptions and rules."""
    admin = bus.admin
    return {
        topic.name: (
            dict(topic.items()),
            {
                subscription.name: (
                    dict(subscription.items()),
                    [dict(rule.items()) for rule in admin.list_rules(topic.name, subscription.name)],
                )
                for subscription in admin.list_subscriptions(topic.name)
            },
        )
        for topic in admin.list_topics()
    }


def times(bus: Bus) -> list[datetime]:
    """The times of creation and change of the topics and subscriptions."""
    shown: list[Any] = list(bus.admin.list_topics_runtime_properties())
    for topic in bus.admin.list_topics():
        shown += bus.admin.list_subscriptions_runtime_properties(topic.name)
    return [time for one in shown for time in (one.created_at_utc, one.updated_at_utc)]


@pytest.fixture
def news(bus: Bus, partitioned: bool) -> Bus:
    """The bus with a topic `news`, which has a subscription `all` and one, `some`, for messages with `some = TRUE`."""
    bus.admin.create_topic("news", enable_partitioning=partitioned)
    bus.admin.create_subscription("news", "all")
    bus.admin.create_subscription("news", "some")
    rule = bus.admin.get_rule("news", "some", "$Default")
    rule.filter = SqlRuleFilter("some = TRUE")
    bus.admin.update_rule("news", "some", rule)
    return bus


@pytest.mark.parametrize("way", WAYS)
def test_entities_and_rules_survive(bus: Bus, clock: ManualClock, way: str) -> None:
    """Names with their casing, options, rules with their values and all times are kept (B-018, B-023, B-024, B-374)."""
    admin = bus.admin
    admin.create_topic("Defaults")
    admin.create_subscription("Defaults", "Plain")
    admin.create_topic("a/b-c.d_e", **TOPIC_OPTIONS)
    clock.advance(5)
    admin.create_subscription("a/b-c.d_e", "Full", **SUBSCRIPTION_OPTIONS)
    admin.create_rule(
        "a/b-c.d_e",
        "Full",
        "Sql",
        filter=SqlRuleFilter("a = @text AND b IN (@int, @float, @bool, @id, @at, @span)", VALUES),
        action=SqlRuleAction("SET a = @text; REMOVE b", VALUES),
    )
    correlation = {name[1:]: value for name, value in VALUES.items()}
    admin.create_rule("a/b-c.d_e", "Full", "C", filter=CorrelationRuleFilter(label="l", properties=correlation))
    admin.create_rule("a/b-c.d_e", "Full", "none", filter=FalseRuleFilter())
    clock.advance(5)
    topic, subscription = admin.get_topic("defaults"), admin.get_subscription("defaults", "plain")
    topic.user_metadata, subscription.max_delivery_count = "changed", 7
    admin.update_topic(topic)
    admin.update_subscription("Defaults", subscription)
    before, times_before = entities(bus), times(bus)
    clock.advance(5)
    bus.reopen(way)
    assert entities(bus) == before
    assert times(bus) == times_before
    options, subscriptions = before["a/b-c.d_e"]
    assert TOPIC_OPTIONS.items() <= options.items()
    assert SUBSCRIPTION_OPTIONS.items() <= subscriptions["Full"][0].items()
    assert {rule["name"] for rule in subscriptions["Full"][1]} == {"$Default", "C", "none", "Sql"}
    with pytest.raises(MessagingEntityAlreadyExistsError):
        bus.admin.create_subscription("DEFAULTS", "PLAIN")


@pytest.mark.parametrize("way", WAYS)
def test_copies_survive(news: Bus, way: str) -> None:
    """Each subscription keeps its copies, numbers and dead letters (B-113, B-343, B-353)."""
    for number in range(20):
        news.send(
            str(number),
            queue_name="news",
            partition_key=f"k-{number % 5}",
            application_properties={"some": number % 2 == 0},
        )
    taken = news.take(ALL)
    news.receiver(ALL).complete_messages(taken[:5])
    news.receiver(ALL).dead_letter_messages(taken[5:8], "why")
    news.receiver(ALL).defer_message(taken[8])
    news.receiver(ALL).abandon_messages(taken[9:])
    sources = [(ALL, None), (ALL, "deadletter"), (SOME, None), (SOME, "deadletter")]
    before = {source: [described(copy) for copy in news.peek(*source)] for source in sources}
    assert [len(copies) for copies in before.values()] == [12, 3, 10, 0]
    news.reopen(way)
    assert {source: [described(copy) for copy in news.peek(*source)] for source in sources} == before
    news.receiver(SOME).complete_messages(news.take(SOME))
    news.reopen(way)
    assert (len(news.peek(ALL)), news.peek(SOME)) == (12, [])


@pytest.mark.parametrize("way", WAYS)
def test_rules_keep_selecting(news: Bus, way: str) -> None:
    """Rules and their actions have the same effect after the reopen as before (B-345, B-348, B-351)."""
    news.admin.create_rule("news", "some", "acts", action=SqlRuleAction("SET by = @by", {"@by": "rule"}))
    news.send("before", queue_name="news", application_properties={"some": True})
    news.reopen(way)
    news.send("after", queue_name="news", application_properties={"some": True})
    news.send("no", queue_name="news", application_properties={"some": False})
    assert sorted(bodies(news.take(ALL))) == ["after", "before", "no"]
    found = sorted((str(copy), (copy.application_properties or {}).get("RuleName", "")) for copy in news.take(SOME))
    assert found == [("after", ""), ("after", "acts"), ("before", ""), ("before", "acts"), ("no", "acts")]


@pytest.mark.parametrize("way", WAYS)
def test_numbers_continue(news: Bus, way: str) -> None:
    """No number of the topic or of a subscription is given twice (B-105, B-113)."""
    news.send("1", "2", queue_name="news", partition_key="k")
    before = news.peek(ALL)
    news.reopen(way)
    news.send("3", queue_name="news", partition_key="k")
    copies = news.peek(ALL)
    assert bodies(copies) == ["1", "2", "3"]
    assert [copy.sequence_number for copy in copies[:2]] == [copy.sequence_number for copy in before]
    assert copies[2].sequence_number > copies[1].sequence_number
    assert (copies[2].enqueued_sequence_number or 0) > (copies[1].enqueued_sequence_number or 0)


@pytest.mark.parametrize("way", WAYS)
def test_scheduled_messages_keep_waiting(news: Bus, clock: ManualClock, way: str) -> None:
    """Scheduled messages wait at the topic and can be cancelled; the rules at their due time apply (B-241)."""
    with news.sender("news") as sender:
        due = clock.now() + timedelta(hours=1)
        messages = [
            ServiceBusMessage(str(number), partition_key="k", application_properties={"some": True})
            for number in range(3)
        ]
        numbers = sender.schedule_messages(messages, due)
    news.reopen(way)
    assert news.admin.get_topic_runtime_properties("news").scheduled_message_count == 3
    assert (news.peek(ALL), news.peek(SOME)) == ([], [])
    with news.sender("news") as sender:
        sender.cancel_scheduled_messages(numbers[1])
    news.admin.delete_rule("news", "all", "$Default")
    news.reopen(way)
    clock.advance(3601)
    assert (bodies(news.take(ALL)), bodies(news.take(SOME))) == ([], ["0", "2"])
    news.reopen(way)
    assert bodies(news.peek(SOME)) == ["0", "2"]
    assert news.admin.get_topic_runtime_properties("news").scheduled_message_count == 0


@pytest.mark.parametrize("way", WAYS)
def test_message_that_fell_due_while_closed_is_delivered(news: Bus, clock: ManualClock, way: str) -> None:
    """The first receive finds it (B-236, B-241)."""
    with news.sender("news") as sender:
        sender.schedule_messages(ServiceBusMessage("x"), clock.now() + timedelta(hours=1))
    news.stop(way)
    clock.advance(7200)
    news.open()
    assert bodies(news.take(ALL)) == ["x"]


@pytest.mark.parametrize("way", WAYS)
def test_locks_end_with_the_process(news: Bus, way: str) -> None:
    """A locked copy is free again, one delivery later, and the others are unchanged (B-102, B-343)."""
    news.send("x", queue_name="news", application_properties={"some": True})
    locked = news.take_one(ALL)
    news.reopen(way)
    with pytest.raises(MessageLockLostError):
        news.receiver(ALL).complete_message(locked)
    assert news.take_one(ALL).delivery_count == 1
    assert news.take_one(SOME).delivery_count == 0


@pytest.mark.parametrize("way", WAYS)
def test_deleted_entities_stay_deleted(news: Bus, way: str) -> None:
    """A deleted subscription, rule or topic does not return, nor do its messages (B-009, B-346)."""
    news.admin.create_topic("gone")
    news.admin.create_subscription("gone", "all")
    news.send("x", queue_name="gone")
    news.send("x", queue_name="news", application_properties={"some": True})
    news.admin.delete_topic("gone")
    news.admin.delete_subscription("news", "some")
    news.admin.delete_rule("news", "all", "$Default")
    news.reopen(way)
    assert [topic.name for topic in news.admin.list_topics()] == ["news"]
    assert [subscription.name for subscription in news.admin.list_subscriptions("news")] == ["all"]
    assert list(news.admin.list_rules("news", "all")) == []
    with pytest.raises(MessagingEntityNotFoundError):
        news.admin.get_subscription("gone", "all")
    news.admin.create_subscription("news", "some")
    assert news.peek(SOME) == []
    news.reopen(way)
    assert news.peek(SOME) == []


@pytest.mark.parametrize("way", WAYS)
def test_statuses_stay(news: Bus, way: str) -> None:
    """A topic that rejects sends keeps rejecting them, and a disabled subscription keeps its copies (B-396, B-397)."""
    news.send("x", queue_name="news")
    topic, subscription = news.admin.get_topic("news"), news.admin.get_subscription("news", "all")
    topic.status, subscription.status = EntityStatus.SEND_DISABLED, EntityStatus.RECEIVE_DISABLED
    news.admin.update_topic(topic)
    news.admin.update_subscription("news", subscription)
    news.reopen(way)
    with pytest.raises(MessagingEntityDisabledError):
        news.send("y", queue_name="news")
    with pytest.raises(MessagingEntityDisabledError):
        news.take(ALL)
    subscription.status = EntityStatus.ACTIVE
    news.admin.update_subscription("news", subscription)
    assert bodies(news.take(ALL)) == ["x"]


@pytest.mark.parametrize("way", WAYS)
def test_ids_are_remembered_at_the_topic(bus: Bus, partitioned: bool, way: str) -> None:
    """A duplicate of a message that was sent before the reopen is dropped before fan-out (B-218, B-228)."""
    bus.admin.create_topic("news", enable_partitioning=partitioned, requires_duplicate_detection=True)
    bus.admin.create_subscription("news", "all")
    bus.send("first", queue_name="news", message_id="m")
    bus.reopen(way)
    bus.send("copy", queue_name="news", message_id="m")
    assert bodies(bus.peek(ALL)) == ["first"]


@pytest.mark.parametrize("cycles", [5])
def test_many_reopens_add_and_lose_nothing(news: Bus, cycles: int) -> None:
    """All ways of reopening in turn, with work in between (B-343)."""
    for cycle in range(cycles):
        for way in WAYS:
            news.send(f"{cycle} {way}", queue_name="news", application_properties={"some": cycle % 2 == 0})
            news.reopen(way)
    every = sorted(f"{cycle} {way}" for cycle in range(cycles) for way in WAYS)
    assert sorted(bodies(news.take(ALL))) == every
    assert sorted(bodies(news.take(SOME))) == [text for text in every if int(text.split()[0]) % 2 == 0]


def fill(path: Path) -> list[str]:
    """Make a namespace of two partitions, a topic, two subscriptions, twenty messages; return bodies by partition."""
    texts = []
    with Namespace(path, partitions=2) as namespace, ServiceBusClient(namespace) as client:
        admin = ServiceBusAdministrationClient(namespace)
        admin.create_topic("news", enable_partitioning=True)
        for name in ("all", "other"):
            admin.create_subscription("news", name)
        with client.get_topic_sender("news") as sender:
            for number in range(20):
                key = f"k{number}"
                texts.append(f"{oxbus.partition_id(key, 2)}-{number}")
                sender.send_messages(ServiceBusMessage(texts[-1], partition_key=key))
    return texts


def copies_in(path: Path) -> dict[str, list[str]]:
    """The bodies of each subscription, sorted."""
    with Namespace(path) as namespace, ServiceBusClient(namespace) as client:
        found: dict[str, list[str]] = {}
        for subscription in ServiceBusAdministrationClient(namespace).list_subscriptions("news"):
            with client.get_subscription_receiver("news", subscription.name) as receiver:
                found[subscription.name] = []
                while copies := receiver.peek_messages(max_message_count=100):
                    found[subscription.name] += bodies(copies)
        return {name: sorted(texts) for name, texts in found.items()}


def test_salvage_copies_topics_completely(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without damage the copy has the same entities, rules and copies, and the original is unchanged (B-343)."""
    path = tmp_path / "bus"
    texts = fill(path)
    files = tree(path)
    assert main(["salvage", str(path), "--json"]) == 0
    assert all(partition["whole"] for partition in json.loads(capsys.readouterr().out)["partitions"])
    assert tree(path) == files
    assert copies_in(path.with_name("bus.salvaged")) == {"all": sorted(texts), "other": sorted(texts)}


def test_salvage_of_a_damaged_partition_leaves_the_other_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lost snapshot loses only its messages; the copies in the other partition are all there (B-009, B-353)."""
    path = tmp_path / "bus"
    texts = fill(path)
    for snapshot in (path / "shard-00").glob("*.snapshot"):
        flip_bit(snapshot, CONTENT_AT)
    assert main(["salvage", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["partitions"][1]["whole"]
    for found in copies_in(path.with_name("bus.salvaged")).values():
        assert set(found) <= set(texts)
        expected = sorted(text for text in texts if text.startswith("1-"))
        assert [text for text in found if text.startswith("1-")] == expected
