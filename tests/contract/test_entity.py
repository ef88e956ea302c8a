# SPDX-License-Identifier: Apache-2.0
"""Queues as entities: create, get, update, delete, list, counts (B-016 to B-033, B-096 to B-098, B-389 to B-397)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import (
    InvalidOperationError,
    MessagingEntityAlreadyExistsError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ResourceExistsError,
    ResourceNotFoundError,
    ServiceBusError,
)
from oxbus.management import EntityStatus, ServiceBusAdministrationClient
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus.testing import ManualClock

# P10675199DT2H48M5.4775807S, the longest duration of the service, means no limit.
NEVER = timedelta(days=10_675_199, hours=2, minutes=48, seconds=5, microseconds=477_581)
DEFAULTS = {
    "lock_duration": timedelta(minutes=1),
    "max_size_in_megabytes": 1024,
    "requires_duplicate_detection": False,
    "requires_session": False,
    "default_message_time_to_live": NEVER,
    "dead_lettering_on_message_expiration": False,
    "duplicate_detection_history_time_window": timedelta(minutes=10),
    "max_delivery_count": 10,
    "status": EntityStatus.ACTIVE,
    "enable_batched_operations": True,
    "enable_partitioning": False,
    "enable_express": False,
    "auto_delete_on_idle": NEVER,
}

OTHER_VALUES: dict[str, Any] = {
    "lock_duration": timedelta(seconds=30),
    "max_delivery_count": 3,
    "default_message_time_to_live": timedelta(days=14),
    "dead_lettering_on_message_expiration": True,
    "max_size_in_megabytes": 2048,
    "user_metadata": "owner: nobody",
}

OUT_OF_RANGE = [
    ("lock_duration", timedelta(milliseconds=499)),
    ("lock_duration", timedelta(0)),
    ("lock_duration", timedelta(seconds=-1)),
    ("lock_duration", timedelta(hours=1, milliseconds=1)),
    ("lock_duration", timedelta.max),
    ("max_delivery_count", 0),
    ("max_delivery_count", -1),
    ("default_message_time_to_live", timedelta(milliseconds=999)),
    ("default_message_time_to_live", timedelta(seconds=-5)),
    ("auto_delete_on_idle", timedelta(minutes=4, seconds=59)),
    ("user_metadata", "x" * 1025),
    ("max_size_in_megabytes", 0),
    ("max_size_in_megabytes", -1),
    ("duplicate_detection_history_time_window", timedelta(milliseconds=999)),
    ("duplicate_detection_history_time_window", timedelta(days=31)),
]

WRONG_TYPE = [
    ("lock_duration", 60),
    ("lock_duration", "a minute"),
    ("max_delivery_count", "10"),
    ("max_delivery_count", 2.5),
    ("enable_partitioning", "yes"),
    ("dead_lettering_on_message_expiration", "no"),
    ("default_message_time_to_live", 3600),
    ("max_size_in_megabytes", "1024"),
    ("user_metadata", 7),
]

GOOD_NAMES = ["a", "Q-1", "a.b_c-d", "flights/2013/raw", "1", "x" * 260, "UPPER"]
BAD_NAMES = ["", "/a", "a/", "a b", "a?b", "a#b", "a@b", "a*b", "a\\b", "ä", "x" * 261, "a\n", "a\x00b", "$q"]


def names(admin: ServiceBusAdministrationClient) -> list[str]:
    """Names of all queues, sorted."""
    return sorted(queue.name for queue in admin.list_queues())


def field(partition: Any, name: str) -> Any:
    """One value of a per-partition entry of the runtime properties, mapping or object."""
    return partition[name] if isinstance(partition, dict) else getattr(partition, name)


@pytest.mark.parametrize("name", DEFAULTS)
def test_default_of_each_option(admin: ServiceBusAdministrationClient, name: str) -> None:
    """A queue created without options has the service's defaults (B-010, B-022)."""
    created = admin.create_queue("q")
    assert getattr(created, name) == DEFAULTS[name]
    assert getattr(admin.get_queue("q"), name) == DEFAULTS[name]


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_option_is_kept_on_create(admin: ServiceBusAdministrationClient, name: str) -> None:
    """An option given at creation is returned, read back and listed (B-022)."""
    created = admin.create_queue("q", **{name: OTHER_VALUES[name]})
    (listed,) = admin.list_queues()
    for queue in (created, admin.get_queue("q"), listed):
        assert getattr(queue, name) == OTHER_VALUES[name]


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_option_can_be_updated(admin: ServiceBusAdministrationClient, name: str) -> None:
    """An update changes the option it names and no other one (B-022, B-024)."""
    queue = admin.create_queue("q")
    setattr(queue, name, OTHER_VALUES[name])
    admin.update_queue(queue)
    updated = admin.get_queue("q")
    assert getattr(updated, name) == OTHER_VALUES[name]
    for other in DEFAULTS.keys() - {name}:
        assert getattr(updated, other) == DEFAULTS[other]


@pytest.mark.parametrize("text", ["PT30S", "PT0M30S", "P0DT30S"])
def test_durations_may_be_iso_8601(admin: ServiceBusAdministrationClient, text: str) -> None:
    """A duration may be given as ISO 8601 text as in the SDK (B-460)."""
    assert admin.create_queue("q", lock_duration=text).lock_duration == timedelta(seconds=30)


@pytest.mark.parametrize("flag", [True, False])
def test_partitioning_is_chosen_at_creation(admin: ServiceBusAdministrationClient, flag: bool) -> None:
    """A namespace can have both kinds of queues and shows their kind (B-004, B-010)."""
    admin.create_queue("other", enable_partitioning=not flag)
    assert admin.create_queue("q", enable_partitioning=flag).enable_partitioning is flag
    assert admin.get_queue("q").enable_partitioning is flag
    assert admin.get_queue("other").enable_partitioning is not flag


@pytest.mark.parametrize("flag", [True, False])
def test_total_size_is_that_of_all_partitions(admin: ServiceBusAdministrationClient, flag: bool) -> None:
    """The option is the size per partition; the total follows from it and cannot be set (B-035)."""
    queue = admin.create_queue("q", enable_partitioning=flag, max_size_in_megabytes=2048)
    partitions = 16 if flag else 1
    assert (queue.max_size_in_megabytes, queue.total_max_size_in_megabytes) == (2048, 2048 * partitions)
    queue.total_max_size_in_megabytes = 1
    admin.update_queue(queue)
    assert admin.get_queue("q").total_max_size_in_megabytes == 2048 * partitions
    queue.max_size_in_megabytes = 1024
    admin.update_queue(queue)
    assert admin.get_queue("q").total_max_size_in_megabytes == 1024 * partitions
    topic = admin.create_topic("t", enable_partitioning=flag, max_size_in_megabytes=2048)
    assert (topic.max_size_in_megabytes, topic.total_max_size_in_megabytes) == (2048, 2048 * partitions)


@pytest.mark.parametrize("name", ["enable_partitioning", "requires_session", "requires_duplicate_detection"])
def test_immutable_options_cannot_be_updated(admin: ServiceBusAdministrationClient, name: str) -> None:
    """Partitioning, sessions and duplicate detection are fixed at creation (B-008, B-031)."""
    queue = admin.create_queue("q", max_delivery_count=5)
    setattr(queue, name, True)
    queue.max_delivery_count = 7
    with pytest.raises(ServiceBusError):
        admin.update_queue(queue)
    unchanged = admin.get_queue("q")
    assert (getattr(unchanged, name), unchanged.max_delivery_count) == (False, 5)


def test_partitioning_refusal_names_the_option(admin: ServiceBusAdministrationClient) -> None:
    """Changing partitioning is an invalid operation with the service's text (B-008)."""
    queue = admin.create_queue("q", enable_partitioning=True)
    queue.enable_partitioning = False
    with pytest.raises(InvalidOperationError, match=r"(?i)partitioning can.?t be changed"):
        admin.update_queue(queue)


@pytest.mark.parametrize(("name", "value"), OUT_OF_RANGE)
def test_option_out_of_range_is_refused(admin: ServiceBusAdministrationClient, name: str, value: Any) -> None:
    """An option out of range is refused by name, at creation and update, and nothing changes (B-025 to B-030)."""
    with pytest.raises((ServiceBusError, ValueError), match=name):
        admin.create_queue("q", **{name: value})
    assert names(admin) == []
    queue = admin.create_queue("q")
    before = getattr(queue, name)
    setattr(queue, name, value)
    with pytest.raises((ServiceBusError, ValueError), match=name):
        admin.update_queue(queue)
    assert getattr(admin.get_queue("q"), name) == before


@pytest.mark.parametrize(("name", "value"), WRONG_TYPE)
def test_option_of_wrong_type_is_refused(admin: ServiceBusAdministrationClient, name: str, value: Any) -> None:
    """An option of the wrong type is refused by name and no queue is created (B-022)."""
    with pytest.raises((TypeError, ValueError), match=name):
        admin.create_queue("q", **{name: value})
    assert names(admin) == []


def test_unknown_option_is_a_type_error(admin: ServiceBusAdministrationClient) -> None:
    """An unknown option is a TypeError (B-022)."""
    misspelt: dict[str, Any] = {"lock_durration": timedelta(seconds=30)}
    with pytest.raises(TypeError, match="lock_durration"):
        admin.create_queue("q", **misspelt)
    assert names(admin) == []


@pytest.mark.parametrize("partitions", [0, -1, 65, 1000])
def test_number_of_partitions_has_a_range(partitions: int) -> None:
    """A namespace has 1 to 64 partitions (B-060)."""
    with pytest.raises(ValueError, match="partitions"):
        Namespace(partitions=partitions)


def test_namespace_has_16_partitions_by_default(namespace: Namespace) -> None:
    """Without a number a namespace has 16 partitions (B-004)."""
    assert namespace.partitions == 16


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_good_names(admin: ServiceBusAdministrationClient, client: ServiceBusClient, name: str) -> None:
    """Names have letters, digits, dot, dash, underscore and inner slashes, up to 260 characters (B-016, B-017)."""
    assert admin.create_queue(name).name == name
    with client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage(b"x"))
    admin.delete_queue(name)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_names(admin: ServiceBusAdministrationClient, name: str) -> None:
    """Other names are refused and nothing is created (B-016, B-017)."""
    with pytest.raises((ServiceBusError, ValueError)):
        admin.create_queue(name)
    assert names(admin) == []


@pytest.mark.parametrize("name", [None, 1, b"q", ["q"]], ids=repr)
def test_name_must_be_text(admin: ServiceBusAdministrationClient, name: Any) -> None:
    """A name that is not text is a TypeError as in the SDK (B-017)."""
    for call in (admin.create_queue, admin.get_queue, admin.delete_queue, admin.get_queue_runtime_properties):
        with pytest.raises(TypeError):
            call(name)


def test_names_compare_without_case(
    admin: ServiceBusAdministrationClient,
    client: ServiceBusClient,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """Names are compared without case, and the spelling at creation is kept (B-018)."""
    admin.create_queue("Orders")
    with pytest.raises(MessagingEntityAlreadyExistsError):
        admin.create_queue("oRDERS")
    assert admin.get_queue("ORDERS").name == "Orders"
    assert names(admin) == ["Orders"]
    with client.get_queue_sender("orders") as sender, client.get_queue_receiver("ORDERS") as receiver:
        sender.send_messages(ServiceBusMessage(b"x"))
        assert str(receive_one(receiver)) == "x"
    admin.delete_queue("orders")
    assert names(admin) == []


def test_existing_name_is_refused_and_kept(admin: ServiceBusAdministrationClient) -> None:
    """Creating a queue twice is an error and does not change it (B-019)."""
    admin.create_queue("q", max_delivery_count=3)
    with pytest.raises(MessagingEntityAlreadyExistsError) as refusal:
        admin.create_queue("q", max_delivery_count=5)
    assert refusal.value.condition == "com.microsoft:entity-already-exists"
    assert ResourceExistsError is MessagingEntityAlreadyExistsError
    assert admin.get_queue("q").max_delivery_count == 3


def test_unknown_queue_is_not_found(admin: ServiceBusAdministrationClient, client: ServiceBusClient) -> None:
    """Every call on an unknown queue is a not-found error with its name (B-019)."""
    queue = admin.create_queue("gone")
    admin.delete_queue("gone")

    def send() -> None:
        with client.get_queue_sender("gone") as sender:
            sender.send_messages(ServiceBusMessage(b"x"))

    def receive() -> None:
        with client.get_queue_receiver("gone") as receiver:
            receiver.receive_messages(max_wait_time=0)

    for call in (
        lambda: admin.get_queue("gone"),
        lambda: admin.get_queue_runtime_properties("gone"),
        lambda: admin.update_queue(queue),
        lambda: admin.delete_queue("gone"),
        send,
        receive,
    ):
        with pytest.raises(MessagingEntityNotFoundError, match="gone") as refusal:
            call()
        assert refusal.value.condition == "amqp:not-found"
    assert ResourceNotFoundError is MessagingEntityNotFoundError


def test_deleting_removes_messages_and_ends_handles(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    make_queue: Callable[..., str],
) -> None:
    """Deleting a queue removes its messages; its handles fail; a new one of that name is empty (B-019)."""
    sender.send_messages([ServiceBusMessage(b"x") for _ in range(3)])
    admin.delete_queue(queue_name)
    with pytest.raises(MessagingEntityNotFoundError):
        sender.send_messages(ServiceBusMessage(b"x"))
    with pytest.raises(MessagingEntityNotFoundError):
        receiver.receive_messages(max_wait_time=0)
    make_queue(queue_name)
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 0


def test_list_shows_every_queue(admin: ServiceBusAdministrationClient) -> None:
    """`list_queues` iterates over all queues, and in pages as in the SDK (B-457)."""
    expected = sorted(f"queue-{number}" for number in range(250))
    for name in expected:
        admin.create_queue(name)
    assert names(admin) == expected
    assert sorted(queue.name for page in admin.list_queues().by_page() for queue in page) == expected


def test_delete_accepts_what_list_returns(admin: ServiceBusAdministrationClient) -> None:
    """Properties from `list_queues` can be updated and their names deleted (B-456)."""
    for name in ("a", "b"):
        admin.create_queue(name)
    for queue in admin.list_queues():
        queue.max_delivery_count = 4
        admin.update_queue(queue)
        assert admin.get_queue(queue.name).max_delivery_count == 4
        admin.delete_queue(queue.name)
    assert names(admin) == []


def test_counts_of_a_fresh_queue_are_zero(admin: ServiceBusAdministrationClient, queue_name: str) -> None:
    """All counts of a new queue are 0 (B-389)."""
    counts = admin.get_queue_runtime_properties(queue_name)
    assert counts.name == queue_name
    assert [
        counts.total_message_count,
        counts.active_message_count,
        counts.dead_letter_message_count,
        counts.scheduled_message_count,
        counts.transfer_message_count,
        counts.transfer_dead_letter_message_count,
        counts.locked_message_count,
        counts.deferred_message_count,
        counts.size_in_bytes,
    ] == [0] * 9


def test_counts_match_the_queue(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    clock: ManualClock,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Locked messages count as active; total is active, deferred, scheduled and dead letters (B-390, B-391)."""
    for _ in range(40):
        sender.send_messages(ServiceBusMessage(b"x" * 100))
    messages = drain(receiver)
    receiver.complete_messages(messages[:5])
    receiver.dead_letter_messages(messages[5:11])
    receiver.defer_messages(messages[11:18])
    receiver.abandon_messages(messages[18:26])
    for _ in range(3):
        sender.schedule_messages(ServiceBusMessage(b"x"), clock.now() + timedelta(hours=1))
    counts = admin.get_queue_runtime_properties(queue_name)
    assert counts.locked_message_count == 14
    assert counts.dead_letter_message_count == 6
    assert counts.deferred_message_count == 7
    assert counts.scheduled_message_count == 3
    assert counts.active_message_count in (14 + 8, 14 + 8 + 7)  # B-288 leaves open whether deferred ones are active
    assert counts.total_message_count == 14 + 8 + 7 + 6 + 3
    assert counts.size_in_bytes >= 35 * 100


def test_size_goes_back_to_zero(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """The size of a queue follows its content (B-037, B-389)."""
    sender.send_messages([ServiceBusMessage(b"x" * 1000) for _ in range(10)])
    assert admin.get_queue_runtime_properties(queue_name).size_in_bytes >= 10_000
    receiver.complete_messages(drain(receiver))
    assert admin.get_queue_runtime_properties(queue_name).size_in_bytes == 0


def test_counts_are_sums_over_partitions(
    client: ServiceBusClient,
    admin: ServiceBusAdministrationClient,
    partitioned_queue: str,
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Counts of a partitioned queue are sums over its partitions, which are listed too (B-060, B-394)."""
    with client.get_queue_sender(partitioned_queue) as sender, client.get_queue_receiver(partitioned_queue) as receiver:
        placed = [0] * 16
        for number in range(100):
            key = f"key-{number}"
            placed[oxbus.partition_id(key)] += 1
            sender.send_messages(ServiceBusMessage(b"x", partition_key=key))
        receiver.dead_letter_messages(drain(receiver)[::4])
        counts = admin.get_queue_runtime_properties(partitioned_queue)
    assert [field(partition, "partition_id") for partition in counts.partitions] == list(range(16))
    totals = [field(partition, "total_message_count") for partition in counts.partitions]
    assert totals == placed
    for name in ("total", "active", "dead_letter", "scheduled", "locked", "deferred"):
        whole = getattr(counts, f"{name}_message_count")
        assert whole == sum(field(partition, f"{name}_message_count") for partition in counts.partitions)
    assert (counts.total_message_count, counts.dead_letter_message_count) == (100, 25)


def test_times_of_an_entity(
    sender: ServiceBusSender, admin: ServiceBusAdministrationClient, queue_name: str, clock: ManualClock
) -> None:
    """Created, updated and accessed times follow creation, update and use (B-388, B-389)."""
    created_at = clock.now()
    clock.advance(10)
    queue = admin.get_queue(queue_name)
    queue.max_delivery_count = 4
    admin.update_queue(queue)
    clock.advance(10)
    sender.send_messages(ServiceBusMessage(b"x"))
    times = admin.get_queue_runtime_properties(queue_name)
    assert times.created_at_utc == created_at
    assert times.updated_at_utc == created_at + timedelta(seconds=10)
    assert times.accessed_at_utc == created_at + timedelta(seconds=20)


def test_availability_is_limited_while_a_partition_is_down(
    namespace: Namespace, client: ServiceBusClient, admin: ServiceBusAdministrationClient, partitioned_queue: str
) -> None:
    """With a partition down, a queue reads Limited and its counts cover the other partitions (B-097, B-098)."""
    with client.get_queue_sender(partitioned_queue) as sender:
        for _ in range(32):
            sender.send_messages(ServiceBusMessage(b"x"))
    assert admin.get_queue(partitioned_queue).availability_status == "Available"
    inject_fault(namespace, 3, "unavailable")
    assert admin.get_queue(partitioned_queue).availability_status == "Limited"
    counts = admin.get_queue_runtime_properties(partitioned_queue)
    assert counts.total_message_count == 30
    assert [field(part, "partition_id") for part in counts.partitions if not field(part, "available")] == [3]
    heal(namespace, 3)
    assert admin.get_queue(partitioned_queue).availability_status == "Available"
    assert admin.get_queue_runtime_properties(partitioned_queue).total_message_count == 32


def test_creating_needs_every_partition(namespace: Namespace, admin: ServiceBusAdministrationClient) -> None:
    """A partitioned queue cannot be created, updated or deleted while a partition is down (B-096)."""
    queue = admin.create_queue("old", enable_partitioning=True)
    inject_fault(namespace, 3, "unavailable")
    queue.max_delivery_count = 3
    for call in (
        lambda: admin.create_queue("new", enable_partitioning=True),
        lambda: admin.update_queue(queue),
        lambda: admin.delete_queue("old"),
    ):
        with pytest.raises(ServiceBusError):
            call()
    heal(namespace, 3)
    assert names(admin) == ["old"]
    assert admin.get_queue("old").max_delivery_count == 10


@pytest.mark.parametrize(
    ("status", "may_send", "may_receive"),
    [
        (EntityStatus.ACTIVE, True, True),
        (EntityStatus.SEND_DISABLED, False, True),
        (EntityStatus.RECEIVE_DISABLED, True, False),
        (EntityStatus.DISABLED, False, False),
    ],
    ids=["active", "send disabled", "receive disabled", "disabled"],
)
def test_disabled_queue_keeps_its_messages(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    status: EntityStatus,
    may_send: bool,
    may_receive: bool,
) -> None:
    """A disabled queue refuses the calls that its status forbids and keeps its messages (B-396, B-397)."""
    sender.send_messages(ServiceBusMessage(b"x"))
    queue = admin.get_queue(queue_name)
    queue.status = status
    admin.update_queue(queue)
    assert admin.get_queue(queue_name).status == status
    calls: list[tuple[bool, Callable[[], object]]] = [
        (may_send, lambda: sender.send_messages(ServiceBusMessage(b"y"))),
        (may_receive, lambda: receiver.abandon_messages(receiver.receive_messages(max_wait_time=0))),
    ]
    for allowed, call in calls:
        if allowed:
            call()
        else:
            with pytest.raises(MessagingEntityDisabledError):
                call()
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 1 + may_send


def test_two_namespaces_share_nothing(open_namespace: Callable[..., Namespace]) -> None:
    """In-memory namespaces are independent (B-001)."""
    first, second = (ServiceBusAdministrationClient(open_namespace()) for _ in range(2))
    first.create_queue("q")
    assert (names(first), names(second)) == (["q"], [])


def test_closed_namespace_refuses_work(open_namespace: Callable[..., Namespace]) -> None:
    """After `close`, which may be called twice, every handle raises an error that the namespace is closed (R-30)."""
    namespace = open_namespace()
    admin = ServiceBusAdministrationClient(namespace)
    admin.create_queue("q")
    client = ServiceBusClient(namespace)
    sender, receiver = client.get_queue_sender("q"), client.get_queue_receiver("q")
    namespace.close()
    namespace.close()
    assert namespace.closed
    for call in (
        lambda: admin.create_queue("r"),
        lambda: admin.get_queue("q"),
        lambda: sender.send_messages(ServiceBusMessage(b"x")),
        lambda: receiver.receive_messages(max_wait_time=0),
        receiver.peek_messages,
    ):
        with pytest.raises((ServiceBusError, ValueError), match="closed"):
            call()


def test_connection_string_opens_a_shared_namespace() -> None:
    """`Endpoint=memory://name` is one namespace for each name in this process (api: connection strings)."""
    text = "Endpoint=memory://shared-by-this-test"
    admin = ServiceBusAdministrationClient.from_connection_string(text)
    admin.create_queue("q")
    with ServiceBusClient.from_connection_string(text) as client, client.get_queue_sender("q") as sender:
        sender.send_messages(ServiceBusMessage(b"x"))
    assert admin.get_queue_runtime_properties("q").total_message_count == 1
    other = ServiceBusAdministrationClient.from_connection_string("Endpoint=memory://another-of-this-test")
    assert names(other) == []
    admin.delete_queue("q")
