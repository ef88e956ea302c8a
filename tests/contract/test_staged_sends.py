# SPDX-License-Identifier: Apache-2.0
"""Staged sends: tasks write stages, and one commit publishes all rows of a batch once."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import oxbus.aio.management
import oxbus.management
import pytest
from oxbus.exceptions import (
    InvalidOperationError,
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    PartitionUnavailableError,
    ServiceBusQuotaExceededError,
)
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusClient, ServiceBusReceivedMessage
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

pa = pytest.importorskip("pyarrow")

BAD = 5
"""The partition that fails."""


def rows(*texts: str, **columns: list[Any]) -> Any:
    """A table with a row for each text."""
    return pa.table({"body": [text.encode() for text in texts]} | columns)


@pytest.fixture
def stages(namespace: Namespace) -> Any:
    """The stages of `namespace`."""
    return namespace._stages()


@pytest.fixture
def queue(make_queue: Callable[..., str]) -> str:
    """A queue, partitioned in one of the two runs of each test."""
    return make_queue("q")


@pytest.fixture
def bodies_in(client: ServiceBusClient) -> Callable[..., list[str]]:
    """The bodies in an entity, sorted."""

    def bodies_in(queue: str = "q", subscription: str | None = None) -> list[str]:
        receiver = (
            client.get_queue_receiver(queue)
            if subscription is None
            else client.get_subscription_receiver(queue, subscription)
        )
        with receiver:
            found: list[ServiceBusReceivedMessage] = []
            while page := receiver.peek_messages(max_message_count=250):
                found += page
        return sorted(str(message) for message in found)

    return bodies_in


def test_rows_are_visible_after_the_commit(stages: Any, queue: str, bodies_in: Callable[..., list[str]]) -> None:
    """Stages are not visible; a commit publishes several and removes them."""
    assert stages.stage(queue, "one", rows("a", "b")) == 2
    assert stages.stage(queue, "two", rows("c")) == 1
    assert bodies_in() == []
    assert stages.commit_stages("sink", "query", 0, ["one", "two"]) is True
    assert bodies_in() == ["a", "b", "c"]


def test_batch_is_published_once(stages: Any, queue: str, bodies_in: Callable[..., list[str]]) -> None:
    """A query may stage its rows again and repeat a commit of unknown outcome."""
    stages.stage(queue, "first", rows("a"))
    assert stages.commit_stages("sink", "query", 7, ["first"])
    for batch in (7, 6, 0):
        stages.stage(queue, f"again {batch}", rows("a"))
        assert stages.commit_stages("sink", "query", batch, [f"again {batch}"]) is False
    assert [stage for stage in stages.stages() if stage["id"] != "first"] == []
    assert bodies_in() == ["a"]
    stages.stage(queue, "next", rows("b"))
    assert stages.commit_stages("sink", "query", 8, ["next"])
    assert bodies_in() == ["a", "b"]


def test_empty_batches_count(stages: Any, queue: str, bodies_in: Callable[..., list[str]]) -> None:
    """Batches without rows or without stages can be committed."""
    stages.stage(queue, "empty", rows())
    assert stages.commit_stages("sink", "query", 0, ["empty"])
    assert stages.commit_stages("sink", "query", 1, [])
    stages.stage(queue, "late", rows("a"))
    assert not stages.commit_stages("sink", "query", 1, ["late"])
    assert bodies_in() == []


def test_sinks_are_independent(stages: Any, queue: str, bodies_in: Callable[..., list[str]]) -> None:
    """Equal batch numbers of two sinks are two batches."""
    for sink in ("one", "two"):
        stages.stage(queue, sink, rows(sink))
        assert stages.commit_stages(sink, "query", 0, [sink])
    assert bodies_in() == ["one", "two"]


def test_restarted_query_is_rejected(stages: Any, queue: str, bodies_in: Callable[..., list[str]]) -> None:
    """After its checkpoint was deleted, a query counts from 0 again; skipping its batches would lose rows."""
    stages.stage(queue, "old", rows("old"))
    assert stages.commit_stages("sink", "old query", 3, ["old"])
    stages.stage(queue, "new", rows("new"))
    for batch in (0, 3):
        with pytest.raises(InvalidOperationError, match="another sink id"):
            stages.commit_stages("sink", "new query", batch, ["new"])
    assert bodies_in() == ["old"]
    assert stages.commit_stages("another sink", "new query", 0, ["new"])
    assert bodies_in() == ["new", "old"]


def test_higher_batch_of_another_query_takes_over_the_sink(stages: Any, queue: str) -> None:
    """After that the sink belongs to the other query."""
    for query, batch in (("old", 3), ("new", 4)):
        stages.stage(queue, query, rows(query))
        assert stages.commit_stages("sink", query, batch, [query])
    assert not stages.commit_stages("sink", "new", 4, [])
    with pytest.raises(InvalidOperationError, match="another query"):
        stages.commit_stages("sink", "old", 4, [])


@pytest.mark.parametrize("missing", ["never was", "discarded", "published"])
def test_commit_of_a_missing_stage_publishes_nothing(
    stages: Any, queue: str, bodies_in: Callable[..., list[str]], missing: str
) -> None:
    """The error names the stage, and the batch can be committed with other stages."""
    stages.stage(queue, "discarded", rows("x"))
    assert stages.discard_stage("discarded")
    stages.stage(queue, "published", rows("p"))
    assert stages.commit_stages("other", "query", 0, ["published"])
    stages.stage(queue, "here", rows("a"))
    with pytest.raises(InvalidOperationError, match=f"`{missing}`"):
        stages.commit_stages("sink", "query", 0, ["here", missing])
    assert bodies_in() == ["p"]
    assert stages.commit_stages("sink", "query", 0, ["here"])
    assert bodies_in() == ["a", "p"]


def test_staging_again_replaces_the_stage(stages: Any, queue: str, bodies_in: Callable[..., list[str]]) -> None:
    """A caller without an answer repeats the call; once a commit has named the stage, its id is used up."""
    stages.stage(queue, "id", rows("a", "b"))
    stages.stage(queue, "id", rows("c"))
    assert [stage["rows"] for stage in stages.stages()] == [1]
    assert stages.commit_stages("sink", "query", 0, ["id"])
    assert bodies_in() == ["c"]


def test_a_commit_removes_what_earlier_attempts_left(
    stages: Any, queue: str, bodies_in: Callable[..., list[str]]
) -> None:
    """Stages of the same sink and query up to that batch; those of later batches and of others stay."""
    left = ["s/q/0/3/a", "s/q/1/0/a", "s/q/1/0/b", "s/q/2/0/a", "t/q/0/0/a", "s/q/x/0", "s/q%2F1/0/0/a", "s/qq/1/0/a"]
    for id_ in left:
        stages.stage(queue, id_, rows(id_))
    assert stages.commit_stages("s", "q", 1, ["s/q/1/0/b"])
    assert bodies_in() == ["s/q/1/0/b"]
    kept = {"s/q/2/0/a", "t/q/0/0/a", "s/q/x/0", "s/q%2F1/0/0/a", "s/qq/1/0/a"}
    assert {stage["id"] for stage in stages.stages() if stage["batch"] is None} == kept
    # A task that ends after the commit of its batch leaves nothing either, and a repeated commit stores nothing.
    stages.stage(queue, "s/q/1/7/late", rows("late"))
    assert not stages.commit_stages("s", "q", 1, ["s/q/1/7/late"])
    assert {stage["id"] for stage in stages.stages() if stage["batch"] is None} == kept
    # Another sink may have other batches of the query: after a rollback a query writes under a new name.
    assert stages.commit_stages("t", "q", 0, ["t/q/0/0/a"])
    assert bodies_in() == ["s/q/1/0/b", "t/q/0/0/a"]


def test_abort_drops_stages(stages: Any, queue: str, bodies_in: Callable[..., list[str]]) -> None:
    """Abort may be repeated, and may name unknown stages."""
    stages.stage(queue, "one", rows("a"))
    for _ in range(2):
        stages.abort_stages("sink", "query", 0, ["one", "never was"])
    assert stages.stages() == []
    assert bodies_in() == []


def test_abort_after_a_commit_does_nothing(stages: Any, queue: str, bodies_in: Callable[..., list[str]]) -> None:
    """Spark aborts when the response of a commit was lost."""
    stages.stage(queue, "one", rows("a"))
    assert stages.commit_stages("sink", "query", 0, ["one"])
    stages.abort_stages("sink", "query", 0, ["one"])
    assert bodies_in() == ["a"]
    assert not stages.commit_stages("sink", "query", 0, ["one"])


def test_rows_go_where_a_sender_sends_them(
    client: ServiceBusClient, admin: ServiceBusAdministrationClient, stages: Any
) -> None:
    """Keys select the partition and keep their order; keyless rows use all partitions (B-061 to B-076)."""
    admin.create_queue("q", enable_partitioning=True)
    keys = [f"key-{number % 37}" for number in range(1000)]
    texts = [str(number) for number in range(1000)]
    stages.stage("q", "keyed", rows(*texts, partition_key=keys))
    stages.stage("q", "keyless", rows(*texts))
    assert stages.commit_stages("sink", "query", 0, ["keyed", "keyless"])
    with client.get_queue_receiver("q", receive_mode="receiveanddelete", max_wait_time=0) as receiver:
        found = list(receiver)
    keyed = [message for message in found if message.partition_key is not None]
    assert all(message.partition_id == oxbus.partition_id(message.partition_key or "") for message in keyed)
    for key in set(keys):
        order = [int(str(message)) for message in keyed if message.partition_key == key]
        assert order == sorted(order)
        assert len(order) == keys.count(key)
    spread = Counter(message.partition_id for message in found if message.partition_key is None)
    assert len(spread) == 16
    assert max(spread.values()) - min(spread.values()) <= 1


def test_topic_fans_out(
    admin: ServiceBusAdministrationClient, stages: Any, topic: str, bodies_in: Callable[..., list[str]]
) -> None:
    """Each subscription gets the rows that its rules select."""
    for name in ("one", "two"):
        admin.create_subscription(topic, name)
    stages.stage(topic, "stage", rows("a", "b"))
    assert stages.commit_stages("sink", "query", 0, ["stage"])
    assert bodies_in(topic, "one") == bodies_in(topic, "two") == ["a", "b"]


def test_duplicates_are_dropped(
    make_queue: Callable[..., str], stages: Any, client: ServiceBusClient, bodies_in: Callable[..., list[str]]
) -> None:
    """Duplicates of sent or staged rows are dropped, also within one batch (B-219)."""
    make_queue("once", requires_duplicate_detection=True)
    with client.get_queue_sender("once") as sender:
        sender.send_messages(oxbus.ServiceBusMessage("sent", message_id="1"))
    stages.stage("once", "one", rows("a", "b", message_id=["1", "2"]))
    stages.stage("once", "two", rows("c", "d", message_id=["2", "3"]))
    assert stages.commit_stages("sink", "query", 0, ["one", "two"])
    assert bodies_in("once") == ["b", "d", "sent"]
    with client.get_queue_sender("once") as sender:
        sender.send_messages(oxbus.ServiceBusMessage("copy", message_id="3"))
    assert bodies_in("once") == ["b", "d", "sent"]


def test_sessions_are_received_by_session(
    make_queue: Callable[..., str], stages: Any, client: ServiceBusClient
) -> None:
    """Each session is in order; a row without a session id is refused when staged (B-187)."""
    make_queue("s", requires_session=True)
    with pytest.raises(InvalidOperationError):
        stages.stage("s", "without", rows("a"))
    assert stages.stages() == []
    stages.stage("s", "with", rows("a", "b", "c", session_id=["x", "y", "x"]))
    assert stages.commit_stages("sink", "query", 0, ["with"])
    with client.get_queue_receiver("s", session_id="x", max_wait_time=0) as receiver:
        assert [str(message) for message in receiver] == ["a", "c"]


def test_scheduled_rows_wait_for_their_time(
    stages: Any, queue: str, client: ServiceBusClient, clock: ManualClock
) -> None:
    """Rows are scheduled as by a send, and the time to live starts at the commit."""
    due = clock.now() + timedelta(minutes=5)
    stages.stage(
        queue,
        "stage",
        rows(
            "later",
            "short",
            scheduled_enqueue_time_utc=pa.array([due, None], pa.timestamp("us", tz="UTC")),
            time_to_live=pa.array([None, timedelta(minutes=1)], pa.duration("us")),
        ),
    )
    clock.advance(120)
    assert stages.commit_stages("sink", "query", 0, ["stage"])
    with client.get_queue_receiver(queue, max_wait_time=0, receive_mode="receiveanddelete") as receiver:
        assert [str(message) for message in receiver] == ["short"]
        clock.advance(181)
        assert [str(message) for message in receiver] == ["later"]


def test_refused_stages_leave_nothing(
    stages: Any, queue: str, admin: ServiceBusAdministrationClient, make_queue: Callable[..., str]
) -> None:
    """Unknown and disabled entities, rows that are too large and bad names are refused."""
    with pytest.raises(MessagingEntityNotFoundError, match="'nothing' could not be found"):
        stages.stage("nothing", "id", rows("a"))
    make_queue("small", max_message_size_in_kilobytes=1)
    with pytest.raises(MessageSizeExceededError, match="row 1"):
        stages.stage("small", "id", rows("a", "b" * 2000))
    for name in ("", "x" * 261):
        with pytest.raises(ValueError, match="260"):
            stages.stage(queue, name, rows("a"))
        with pytest.raises(ValueError, match="260"):
            stages.commit_stages(name, "query", 0, [])
    properties = admin.get_queue(queue)
    properties.status = "SendDisabled"
    admin.update_queue(properties)
    with pytest.raises(MessagingEntityDisabledError):
        stages.stage(queue, "id", rows("a"))
    assert stages.stages() == []


def test_commit_is_refused_while_an_entity_is_disabled(
    stages: Any, queue: str, admin: ServiceBusAdministrationClient, bodies_in: Callable[..., list[str]]
) -> None:
    """Nothing is published, in other entities of the batch neither; the commit succeeds after the entity is enabled."""
    admin.create_queue("other")
    stages.stage("other", "other", rows("b"))
    stages.stage(queue, "stage", rows("a"))
    properties = admin.get_queue(queue)
    properties.status = "SendDisabled"
    admin.update_queue(properties)
    with pytest.raises(MessagingEntityDisabledError):
        stages.commit_stages("sink", "query", 0, ["other", "stage"])
    assert bodies_in("other") == []
    properties.status = "Active"
    admin.update_queue(properties)
    assert stages.commit_stages("sink", "query", 0, ["other", "stage"])
    assert bodies_in("other") + bodies_in(queue) == ["b", "a"]


def test_commit_is_refused_when_an_entity_was_deleted(
    stages: Any, queue: str, admin: ServiceBusAdministrationClient, bodies_in: Callable[..., list[str]]
) -> None:
    """A recreated queue of the same name is a different one."""
    admin.create_queue("gone")
    stages.stage("gone", "gone", rows("x"))
    stages.stage(queue, "stage", rows("a"))
    admin.delete_queue("gone")
    admin.create_queue("gone")
    with pytest.raises(MessagingEntityNotFoundError, match="`gone`"):
        stages.commit_stages("sink", "query", 0, ["stage", "gone"])
    assert bodies_in(queue) == []


def test_commit_is_refused_when_the_queue_is_full(
    stages: Any, make_queue: Callable[..., str], bodies_in: Callable[..., list[str]]
) -> None:
    """The rows of all stages of a commit count together towards the size limit of a partition."""
    make_queue("small", max_size_in_megabytes=1)
    key = ["k"] * 8
    for number in range(2):
        stages.stage("small", f"large {number}", rows(*["x" * 100_000] * 8, partition_key=key))
    with pytest.raises(ServiceBusQuotaExceededError):
        stages.commit_stages("sink", "query", 0, ["large 0", "large 1"])
    assert bodies_in("small") == []
    assert stages.commit_stages("sink", "query", 0, ["large 0"])
    assert len(bodies_in("small")) == 8


def test_commit_is_refused_while_a_partition_is_out_of_service(
    namespace: Namespace, stages: Any, admin: ServiceBusAdministrationClient, bodies_in: Callable[..., list[str]]
) -> None:
    """Nothing is published in the others; keyless rows are staged for healthy partitions."""
    admin.create_queue("q", enable_partitioning=True)
    texts = [str(number) for number in range(100)]
    stages.stage("q", "all", rows(*texts, partition_key=texts))
    inject_fault(namespace, BAD, "unavailable")
    with pytest.raises(PartitionUnavailableError):
        stages.commit_stages("sink", "query", 0, ["all"])
    heal(namespace, BAD)
    assert bodies_in() == []
    assert stages.commit_stages("sink", "query", 0, ["all"])
    assert bodies_in() == sorted(texts)
    inject_fault(namespace, BAD, "unavailable")
    stages.stage("q", "keyless", rows(*texts))
    sink = next(name for name in map(str, range(100)) if oxbus.partition_id(name) != BAD)
    assert stages.commit_stages(sink, "query", 1, ["keyless"])
    heal(namespace, BAD)
    assert bodies_in() == sorted(2 * texts)


def test_orphans_expire(stages: Any, queue: str, clock: ManualClock, bodies_in: Callable[..., list[str]]) -> None:
    """A stage that no commit named is removed after a day."""
    stages.stage(queue, "orphan", rows("a"))
    clock.advance(86_399)
    assert [stage["id"] for stage in stages.stages()] == ["orphan"]
    clock.advance(1)
    assert stages.stages() == []
    with pytest.raises(InvalidOperationError, match="expired"):
        stages.commit_stages("sink", "query", 0, ["orphan"])
    assert bodies_in() == []


def test_sink_is_remembered_for_a_week(
    stages: Any, queue: str, clock: ManualClock, bodies_in: Callable[..., list[str]]
) -> None:
    """A sink is forgotten a week after its last commit."""
    stages.stage(queue, "one", rows("a"))
    assert stages.commit_stages("sink", "query", 5, ["one"])
    clock.advance(7 * 86_400 - 1)
    assert not stages.commit_stages("sink", "query", 5, [])
    clock.advance(1)
    stages.stage(queue, "two", rows("b"))
    assert stages.commit_stages("sink", "another", 0, ["two"])
    assert bodies_in() == ["a", "b"]


def test_stages_in_memory_count_towards_the_limit() -> None:
    """Stages count toward the limit until they are discarded; publishing them takes no more memory."""
    with oxbus.Namespace(memory_limit_bytes=20 << 20) as namespace:
        oxbus.management.ServiceBusAdministrationClient(namespace).create_queue("q")
        stages = namespace._stages()
        large = rows(*["x" * 100_000] * 100)
        stages.stage("q", "one", large)
        with pytest.raises(ServiceBusQuotaExceededError):
            stages.stage("q", "two", rows(*["x" * 100_000] * 150))
        assert stages.discard_stage("one")
        stages.stage("q", "three", rows(*["x" * 100_000] * 150))
        assert stages.commit_stages("sink", "query", 0, ["three"])
        assert namespace.statistics()["messages"] == 150


def test_commits_of_a_batch_from_several_threads(
    stages: Any, queue: str, bodies_in: Callable[..., list[str]], in_background: Callable[..., Any]
) -> None:
    """One thread commits it; the others get the result that it is already committed."""
    texts = [str(number) for number in range(100)]
    for attempt in range(8):
        stages.stage(queue, f"attempt {attempt}", rows(*texts))
    calls = [in_background(stages.commit_stages, "sink", "query", 0, [f"attempt {attempt}"]) for attempt in range(8)]
    assert sorted(call.result() for call in calls) == [False] * 7 + [True]
    assert bodies_in() == sorted(texts)


def test_management_shows_and_discards(
    stages: Any, queue: str, admin: ServiceBusAdministrationClient, namespace: Namespace, clock: ManualClock
) -> None:
    """Management lists stages, oldest first, and discards one; the asyncio client does the same."""
    stages.stage(queue, "one", rows("a", "bc"))
    clock.advance(60)
    stages.stage(queue, "two", rows("d"))
    one, two = admin.list_stages()
    assert (one.stage_id, one.entity, one.status, one.row_count) == ("one", queue, "ready", 2)
    assert one.size_in_bytes > 3
    assert (one.sink, one.batch, one.reason) == (None, None, None)
    assert one.created_at_utc == clock.now() - timedelta(minutes=1)
    assert one.expires_at_utc == one.created_at_utc + timedelta(days=1)
    assert two.created_at_utc == clock.now()
    assert admin.discard_stage("one")
    assert not admin.discard_stage("one")

    async def discard() -> list[str]:
        aio = oxbus.aio.management.ServiceBusAdministrationClient(namespace)
        left = [stage async for stage in aio.list_stages()]
        assert await aio.discard_stage("two")
        return [stage.stage_id for stage in left]

    assert asyncio.run(discard()) == ["two"]
    assert list(admin.list_stages()) == []


def test_closed_namespace_has_no_stages(namespace: Namespace, stages: Any, queue: str) -> None:
    """Every call raises an error that the namespace is closed."""
    namespace.close()
    calls: list[Callable[[], Any]] = [
        lambda: stages.stage(queue, "id", rows("a")),
        lambda: stages.commit_stages("sink", "query", 0, []),
        lambda: stages.abort_stages("sink", "query", 0, []),
        lambda: stages.discard_stage("id"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="closed"):
            call()
