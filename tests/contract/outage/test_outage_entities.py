# SPDX-License-Identifier: Apache-2.0
"""Management, topics and forwarding while one of sixteen partitions is out of service, and after it heals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from outage_scene import (
    ALL,
    AVAILABLE,
    BAD,
    ELSEWHERE,
    GOOD,
    HOMED,
    KEYS,
    LIMITED,
    Scene,
    each,
    home_in,
    refused,
    run_story,
    texts,
)
from oxbus.management import EntityAvailabilityStatus, SqlRuleFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


def manage_entities(scene: Scene) -> Generator[None]:
    """Creating, updating and deleting fail and change nothing; reading works (B-096)."""
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
    """Managing a queue without partitions needs only its home partition (B-096)."""
    name = home_in(GOOD[1])
    yield
    scene.admin.create_queue(name)
    scene.admin.delete_queue(name)
    refused(lambda: scene.admin.create_queue(home_in(BAD, HOMED)), lambda: scene.admin.delete_queue(HOMED))
    yield
    scene.admin.delete_queue(HOMED)


def count_messages(scene: Scene) -> Generator[None]:
    """Counts are sums of the other partitions; `partitions` names the missing one (B-097)."""
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
    """Entities with the partition read Limited, and the health has a reason; others read Available (B-098)."""

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
    """Keyed sends fail, keyless ones go elsewhere; each subscription gets each message once (B-073, B-343)."""
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
    """Messages for a queue in the partition wait at their source and are forwarded after it heals (B-339)."""
    scene.admin.create_queue("source", enable_partitioning=True, forward_to=HOMED)
    yield
    for partition_id in GOOD:
        scene.send(f"kept {partition_id}", to="source", partition_key=KEYS[partition_id])
    runtime = scene.admin.get_queue_runtime_properties("source")
    assert (runtime.dead_letter_message_count, runtime.transfer_dead_letter_message_count) == (0, 0)
    yield
    assert texts(scene.take(HOMED)) == each("kept", GOOD)


def use_a_queue_in_the_partition(scene: Scene) -> Generator[None]:
    """A queue without partitions is out of service with its home partition; others are not affected (B-099)."""
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
    """Keyless sends fail, receives and peeks return nothing, and the queue reads Limited (B-073, B-098)."""
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


@pytest.mark.parametrize(
    "operation",
    [
        manage_entities,
        manage_entities_of_other_partitions,
        count_messages,
        availability,
        publish_to_a_topic,
        forward_to_the_partition,
        use_a_queue_in_the_partition,
        lose_all_partitions,
    ],
    ids=lambda it: it.__name__,
)
def test_outage(scene: Scene, operation: Callable[[Scene], Generator[None]]) -> None:
    """Each row holds before, during and after the outage, and the partition works again after it (B-090 to B-099)."""
    run_story(scene, operation)
