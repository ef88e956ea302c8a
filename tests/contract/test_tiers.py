# SPDX-License-Identifier: Apache-2.0
"""Tiers and editions: options of entities and quotas (B-001 to B-015, B-025 to B-055, B-466)."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.bulk import BulkClient
from oxbus.exceptions import (
    InvalidOperationError,
    MessageSizeExceededError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
)
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve

if TYPE_CHECKING:
    from pathlib import Path


def opened(**options: Any) -> tuple[Namespace, ServiceBusAdministrationClient, ServiceBusClient]:
    """A namespace with both clients."""
    namespace = Namespace(**options)
    return namespace, ServiceBusAdministrationClient(namespace), ServiceBusClient(namespace)


@pytest.mark.parametrize(
    ("options", "partitions"),
    [
        ({}, 16),
        ({"tier": "basic"}, 16),
        ({"tier": "standard"}, 16),
        ({"tier": "premium"}, 1),
        ({"tier": "premium", "partitions": 2}, 2),
        ({"tier": "premium", "partitions": 4}, 4),
        ({"tier": "premium", "profile": "2019"}, 1),
        ({"tier": "premium", "profile": "2017"}, 2),
    ],
)
def test_tier_sets_the_number_of_partitions(options: dict[str, Any], partitions: int) -> None:
    """There are sixteen on Basic and Standard; one, two or four on Premium (B-004, B-006, B-007)."""
    assert Namespace(**options).partitions == partitions


@pytest.mark.parametrize(
    "options",
    [
        {"tier": "standard", "partitions": 8},
        {"tier": "basic", "partitions": 1},
        {"tier": "premium", "partitions": 3},
        {"tier": "premium", "partitions": 16},
        {"tier": "premium", "partitions": 4, "profile": "2019"},
        {"tier": "premium", "partitions": 1, "profile": "2017"},
    ],
)
def test_other_numbers_of_partitions_are_refused(options: dict[str, Any]) -> None:
    """Other partition counts are refused for each tier (B-004, B-006)."""
    with pytest.raises(InvalidOperationError, match="partitions"):
        Namespace(**options)


@pytest.mark.parametrize(("name", "value"), [("tier", "gold"), ("tier", "Standard "), ("profile", "2020")])
def test_unknown_names_are_refused(name: str, value: str) -> None:
    """The error lists the valid names."""
    with pytest.raises(ValueError, match="use `"):
        Namespace(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "asked", "is_partitioned"),
    [
        ({}, None, False),
        ({}, True, True),
        ({"tier": "basic"}, None, False),
        ({"tier": "basic"}, True, True),
        ({"tier": "standard"}, None, False),
        ({"tier": "standard"}, True, True),
        ({"tier": "standard", "profile": "2017"}, None, True),
        ({"tier": "standard", "profile": "2017"}, False, False),
        ({"tier": "standard", "profile": "2019"}, None, False),
        ({"tier": "premium"}, True, False),
        ({"tier": "premium", "partitions": 2}, None, True),
        ({"tier": "premium", "partitions": 4}, False, True),
        ({"tier": "premium", "profile": "2019"}, True, False),
        ({"tier": "premium", "profile": "2017"}, False, True),
    ],
)
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_edition_decides_partitioning(
    options: dict[str, Any], asked: bool | None, is_partitioned: bool, kind: str
) -> None:
    """On Basic and Standard the entity chooses, on Premium the namespace; by edition (B-005, B-007, B-010, B-466)."""
    _, admin, _ = opened(**options)
    if kind == "topic" and options.get("tier") == "basic":
        with pytest.raises(InvalidOperationError, match="Basic"):
            admin.create_topic("t")
        return
    create = admin.create_queue if kind == "queue" else admin.create_topic
    assert create("x", enable_partitioning=asked).enable_partitioning is is_partitioned


@pytest.mark.parametrize(
    "option",
    [
        {"requires_session": True},
        {"requires_duplicate_detection": True},
        {"auto_delete_on_idle": timedelta(minutes=10)},
        {"default_message_time_to_live": timedelta(days=1)},
        {"duplicate_detection_history_time_window": timedelta(minutes=1)},
        {"enable_express": True},
        {"forward_to": "other"},
    ],
    ids=lambda option: next(iter(option)),
)
def test_basic_lacks_features(option: dict[str, Any]) -> None:
    """Creation fails with sub code 40000 (B-001, B-002)."""
    _, admin, _ = opened(tier="basic")
    admin.create_queue("other")
    with pytest.raises(InvalidOperationError, match="Basic"):
        admin.create_queue("q", **option)
    assert [queue.name for queue in admin.list_queues()] == ["other"]


def test_basic_has_no_transactions_and_a_ceiling_for_time_to_live() -> None:
    """The time to live is at most fourteen days (B-001, B-003)."""
    _, admin, client = opened(tier="basic")
    assert admin.create_queue("q").default_message_time_to_live == timedelta(days=14)
    with pytest.raises(InvalidOperationError, match="Basic"):
        client.transaction().begin()
    with client.get_queue_sender("q") as sender, client.get_queue_receiver("q", max_wait_time=0) as receiver:
        sender.send_messages(ServiceBusMessage(b"x", time_to_live=timedelta(days=30)))
        (message,) = receiver.receive_messages()
        assert message.expires_at_utc is not None
        assert message.expires_at_utc - message.enqueued_time_utc == timedelta(days=14)


@pytest.mark.parametrize("tier", ["basic", "standard", "premium"])
@pytest.mark.parametrize(
    "option",
    [
        {"lock_duration": timedelta(seconds=4)},
        {"lock_duration": timedelta(minutes=6)},
        {"max_size_in_megabytes": 1000},
        {"max_size_in_megabytes": 163_840},
        {"max_message_size_in_kilobytes": 102_401},
    ],
    ids=repr,
)
def test_options_out_of_the_tiers_ranges_are_refused(tier: str, option: dict[str, Any]) -> None:
    """Lock durations are 5 s to 5 min, and sizes are from a list (B-025, B-034, B-054)."""
    _, admin, _ = opened(tier=tier)
    with pytest.raises((ServiceBusError, ValueError)):
        admin.create_queue("q", **option)
    assert list(admin.list_queues()) == []


@pytest.mark.parametrize("window", [timedelta(seconds=19), timedelta(days=8)])
def test_duplicate_window_has_a_range(window: timedelta) -> None:
    """The window is 20 seconds to seven days (B-027)."""
    _, admin, _ = opened(tier="standard")
    with pytest.raises(ValueError, match="window"):
        admin.create_queue("q", requires_duplicate_detection=True, duplicate_detection_history_time_window=window)


@pytest.mark.parametrize(
    ("tier", "sizes"),
    [
        ("standard", [1024, 2048, 3072, 4096, 5120]),
        ("premium", [1024, 2048, 3072, 4096, 5120, 10_240, 20_480, 40_960, 81_920]),
    ],
)
def test_sizes_to_choose_from(tier: str, sizes: list[int]) -> None:
    """Sizes are one to five gigabytes, or up to eighty (B-034)."""
    _, admin, _ = opened(tier=tier)
    for size in sizes:
        assert admin.create_queue(f"q{size}", max_size_in_megabytes=size).max_size_in_megabytes == size


def test_express_and_duplicate_detection_exclude_each_other() -> None:
    """The error has the service's text (B-032)."""
    _, admin, _ = opened(tier="standard")
    with pytest.raises(InvalidOperationError, match="DelayedPersistence"):
        admin.create_queue("q", enable_express=True, requires_duplicate_detection=True)


@pytest.mark.parametrize(
    ("options", "kilobytes"),
    [
        ({"tier": "basic"}, 256),
        ({"tier": "standard"}, 256),
        ({"tier": "premium"}, 1024),
        ({"tier": "premium", "partitions": 2}, 1024),
    ],
)
def test_size_of_messages_and_batches_is_limited(options: dict[str, Any], kilobytes: int) -> None:
    """The limit is 256 KB on Basic and Standard and 1 MB on Premium, for a batch too (B-013, B-053, B-054)."""
    _, admin, client = opened(**options)
    assert admin.create_queue("q").max_message_size_in_kilobytes == kilobytes
    with client.get_queue_sender("q") as sender:
        half = kilobytes * 512
        sender.send_messages(ServiceBusMessage(b"x" * half, partition_key="k"))
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(b"x" * (2 * half), partition_key="k"))
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages([ServiceBusMessage(b"x" * half, partition_key="k") for _ in range(2)])
        if options["tier"] != "basic":  # Basic has no transactions (B-012).
            txn = client.transaction()
            with pytest.raises(MessageSizeExceededError):
                sender.send_messages(
                    [ServiceBusMessage(b"x" * half, partition_key="k") for _ in range(2)], transaction=txn
                )
    assert admin.get_queue_runtime_properties("q").total_message_count == 1


def test_large_messages_on_premium_without_partitions_only() -> None:
    """The limit is 100 MB without partitions and 1 MB with them (B-013, B-054)."""
    _, admin, client = opened(tier="premium")
    admin.create_queue("large", max_message_size_in_kilobytes=102_400)
    with client.get_queue_sender("large") as sender:
        sender.send_messages(ServiceBusMessage(b"x" * (5 << 20)))
    _, admin, _ = opened(tier="premium", partitions=2)
    with pytest.raises(ValueError, match="max_message_size_in_kilobytes"):
        admin.create_queue("large", max_message_size_in_kilobytes=2048)


def test_batch_on_partitioned_premium_has_one_key() -> None:
    """Distinct keys are not accepted (B-012)."""
    _, admin, client = opened(tier="premium", partitions=4)
    admin.create_queue("q")
    with client.get_queue_sender("q") as sender, pytest.raises(InvalidOperationError):
        sender.send_messages([ServiceBusMessage(b"x", partition_key=key) for key in "ab"])
    assert admin.get_queue_runtime_properties("q").total_message_count == 0


def test_a_hundred_partitioned_entities() -> None:
    """Queues and topics count together; plain entities are not limited by it (B-041)."""
    _, admin, _ = opened(tier="standard")
    for number in range(99):
        admin.create_queue(f"q{number}", enable_partitioning=True)
    admin.create_topic("t", enable_partitioning=True)
    with pytest.raises(ServiceBusQuotaExceededError, match="EnablePartioning == true"):
        admin.create_queue("more", enable_partitioning=True)
    admin.create_queue("more")
    admin.delete_topic("t")
    admin.create_queue("again", enable_partitioning=True)


def test_entities_of_a_namespace_are_limited() -> None:
    """The limit is a thousand on Premium with one messaging unit (B-040)."""
    _, admin, _ = opened(tier="premium")
    for number in range(1000):
        admin.create_queue(f"q{number}")
    with pytest.raises(ServiceBusQuotaExceededError, match="1000"):
        admin.create_queue("more")


def test_standard_directory_reopened_as_premium(tmp_path: Path) -> None:
    """It keeps its sixteen partitions for existing partitioned entities; new ones follow the tier (B-007)."""
    namespace, admin, client = opened(path=tmp_path / "bus", tier="standard")
    admin.create_queue("old", enable_partitioning=True)
    with client.get_queue_sender("old") as sender:
        sender.send_messages(ServiceBusMessage(b"x"))
    namespace.close()
    namespace, admin, client = opened(path=tmp_path / "bus", tier="premium")
    assert namespace.partitions == 16
    assert admin.get_queue("old").enable_partitioning is True
    assert admin.create_queue("new", enable_partitioning=True).enable_partitioning is False
    with client.get_queue_receiver("old", max_wait_time=0) as receiver:
        assert len(receiver.receive_messages()) == 1
    namespace.close()


def test_only_changed_options_are_checked(tmp_path: Path) -> None:
    """An entity keeps options outside the tier's ranges; updates check changed ones (B-025, B-034, B-054).

    Updates used to check all options, so a queue with a lock of ten minutes could not get another description.
    """
    namespace, admin, _ = opened(path=tmp_path / "bus", partitions=4)
    wide: dict[str, Any] = {
        "lock_duration": timedelta(minutes=10),
        "max_size_in_megabytes": 7,
        "max_message_size_in_kilobytes": 2048,
    }
    window: dict[str, Any] = {"duplicate_detection_history_time_window": timedelta(days=9), "enable_express": True}
    admin.create_queue("q", **wide, **window, requires_duplicate_detection=True)
    namespace.close()
    namespace, admin, client = opened(path=tmp_path / "bus", tier="standard")
    assert namespace.partitions == 4
    queue = admin.get_queue("q")
    assert {name: queue[name] for name in wide} == wide
    queue.max_delivery_count = 3
    admin.update_queue(queue)
    assert admin.get_queue("q").max_delivery_count == 3
    for name, value in wide.items():
        refused = admin.get_queue("q")
        refused[name] = value + value
        with pytest.raises((ServiceBusError, ValueError), match=r"lock|size"):
            admin.update_queue(refused)
    queue.lock_duration = timedelta(minutes=5)
    admin.update_queue(queue)
    with client.get_queue_sender("q") as sender, client.get_queue_receiver("q", max_wait_time=0) as receiver:
        sender.send_messages(ServiceBusMessage(b"x" * (1 << 20)))
        sender.send_messages([ServiceBusMessage(b"x" * (1 << 20))])
        assert len(receiver.receive_messages(2) + receiver.receive_messages(2)) == 2
    namespace.close()


def test_basic_serves_existing_topics_and_sessions(tmp_path: Path) -> None:
    """Existing topics and sessions of a directory work, and other options can be updated (B-001, B-002)."""
    namespace, admin, _ = opened(path=tmp_path / "bus", partitions=1)
    admin.create_queue("q", requires_session=True, default_message_time_to_live=timedelta(days=1))
    admin.create_topic("t")
    admin.create_subscription("t", "s", requires_session=True, forward_dead_lettered_messages_to="q")
    namespace.close()
    namespace, admin, _ = opened(path=tmp_path / "bus", tier="basic")
    queue, topic, subscription = admin.get_queue("q"), admin.get_topic("t"), admin.get_subscription("t", "s")
    for found in (queue, topic, subscription):
        found.user_metadata = "seen"
    admin.update_queue(queue)
    admin.update_topic(topic)
    admin.update_subscription("t", subscription)
    subscription.auto_delete_on_idle = timedelta(hours=1)
    with pytest.raises(InvalidOperationError, match="AutoDeleteOnIdle"):
        admin.update_subscription("t", subscription)
    with pytest.raises(InvalidOperationError, match="Basic"):
        admin.create_subscription("t", "another")
    namespace.close()


def test_entity_without_a_limit_of_its_own_has_that_of_the_tier(tmp_path: Path) -> None:
    """Without its own limit an entity uses the current tier's, which is not stored (B-053)."""
    for tier, kilobytes in ((None, 102_400), ("standard", 256), ("premium", 1024), (None, 102_400)):
        namespace, admin, client = opened(path=tmp_path / "bus", tier=tier)
        if not list(admin.list_queues()):
            admin.create_queue("q")
        queue = admin.get_queue("q")
        assert queue.max_message_size_in_kilobytes == kilobytes
        queue.max_delivery_count = (queue.max_delivery_count or 0) + 1
        admin.update_queue(queue)
        with client.get_queue_sender("q") as sender:
            if tier is None:
                sender.send_messages(ServiceBusMessage(b"x" * (2 << 20)))
            else:
                with pytest.raises(MessageSizeExceededError, match="tier" if tier == "standard" else "raise"):
                    sender.send_messages(ServiceBusMessage(b"x" * (kilobytes << 10)))
        namespace.close()


def test_rows_have_the_limit_of_messages(tmp_path: Path) -> None:
    """A table is not a batch: each row may be as large as a message (B-053)."""
    pa = pytest.importorskip("pyarrow")
    rows = pa.table({"body": [b"x" * 1000] * 2000, "partition_key": [str(n % 7) for n in range(2000)]})
    large = pa.table({"body": [b"x" * 100, b"x" * (300 << 10)]})
    namespace, admin, client = opened(path=tmp_path / "bus", tier="standard")
    for queue in ("q", "staged"):
        admin.create_queue(queue, enable_partitioning=True)
    with (
        serve(namespace) as server,
        BulkClient(server.connection_string) as bulk,
        client.get_queue_sender("q") as sender,
    ):
        assert sum(sender.send_arrow(rows).values()) == 2000
        assert sum(bulk.send("q", rows).values()) == 2000
        assert bulk.stage("staged", "task", rows) == 2000
        assert bulk.commit_stages("sink", "query", 1, ["task"])
        for send in (sender.send_arrow, partial(bulk.send, "q"), partial(bulk.stage, "staged", "large")):
            with pytest.raises(MessageSizeExceededError, match="limit=262144"):
                send(large)
    counts = [admin.get_queue_runtime_properties(queue).active_message_count for queue in ("q", "staged")]
    assert counts == [4000, 2000]
    namespace.close()
