# SPDX-License-Identifier: Apache-2.0
"""Topics and subscriptions as entities: options, names, updates, lists, counts.

Rules: B-009, B-016 to B-031, B-096 to B-098, B-136, B-389 to B-392.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import (
    InvalidOperationError,
    MessagingEntityAlreadyExistsError,
    MessagingEntityNotFoundError,
    ServiceBusError,
)
from oxbus.management import EntityStatus, SubscriptionProperties, TopicProperties
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceivedMessage
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

# P10675199DT2H48M5.4775807S, the longest duration of the service, means no limit.
NEVER = timedelta(days=10_675_199, hours=2, minutes=48, seconds=5, microseconds=477_581)

TOPIC_DEFAULTS: dict[str, Any] = {
    "default_message_time_to_live": NEVER,
    "max_size_in_megabytes": 1024,
    "requires_duplicate_detection": False,
    "duplicate_detection_history_time_window": timedelta(minutes=10),
    "enable_batched_operations": True,
    "status": EntityStatus.ACTIVE,
    "support_ordering": True,
    "auto_delete_on_idle": NEVER,
    "enable_partitioning": False,
    "enable_express": False,
    "availability_status": "Available",
}
SUBSCRIPTION_DEFAULTS: dict[str, Any] = {
    "lock_duration": timedelta(minutes=1),
    "requires_session": False,
    "default_message_time_to_live": NEVER,
    "dead_lettering_on_message_expiration": False,
    "dead_lettering_on_filter_evaluation_exceptions": True,
    "max_delivery_count": 10,
    "enable_batched_operations": True,
    "status": EntityStatus.ACTIVE,
    "auto_delete_on_idle": NEVER,
    "availability_status": "Available",
}
OTHER_TOPIC_VALUES: dict[str, Any] = {
    "default_message_time_to_live": timedelta(days=14),
    "max_size_in_megabytes": 2048,
    "enable_batched_operations": False,
    "status": EntityStatus.SEND_DISABLED,
    "user_metadata": "owner: nobody",
}
OTHER_SUBSCRIPTION_VALUES: dict[str, Any] = {
    "lock_duration": timedelta(seconds=30),
    "default_message_time_to_live": timedelta(days=14),
    "dead_lettering_on_message_expiration": True,
    "dead_lettering_on_filter_evaluation_exceptions": False,
    "max_delivery_count": 3,
    "enable_batched_operations": False,
    "status": EntityStatus.RECEIVE_DISABLED,
    "user_metadata": "owner: nobody",
}
TOPIC_OUT_OF_RANGE: list[tuple[str, Any]] = [
    ("default_message_time_to_live", timedelta(milliseconds=999)),
    ("default_message_time_to_live", timedelta(seconds=-5)),
    ("duplicate_detection_history_time_window", timedelta(milliseconds=999)),
    ("duplicate_detection_history_time_window", timedelta(days=31)),
    ("max_size_in_megabytes", 0),
    ("max_size_in_megabytes", -1),
    ("user_metadata", "x" * 1025),
]
SUBSCRIPTION_OUT_OF_RANGE: list[tuple[str, Any]] = [
    ("lock_duration", timedelta(milliseconds=499)),
    ("lock_duration", timedelta(hours=1, milliseconds=1)),
    ("default_message_time_to_live", timedelta(milliseconds=999)),
    ("max_delivery_count", 0),
    ("max_delivery_count", -1),
    ("user_metadata", "x" * 1025),
]
TOPIC_WRONG_TYPE: list[tuple[str, Any]] = [
    ("default_message_time_to_live", 3600),
    ("enable_partitioning", "yes"),
    ("support_ordering", "no"),
    ("max_size_in_megabytes", "1024"),
    ("user_metadata", 7),
]
SUBSCRIPTION_WRONG_TYPE: list[tuple[str, Any]] = [
    ("lock_duration", 60),
    ("lock_duration", "a minute"),
    ("max_delivery_count", "10"),
    ("max_delivery_count", 2.5),
    ("requires_session", "yes"),
    ("dead_lettering_on_filter_evaluation_exceptions", "no"),
    ("user_metadata", 7),
]
BAD_SUBSCRIPTION_NAMES = ["", "a/b", "a\\b", "/a", "a/", "a b", "a?b", "a#b", "a@b", "a*b", "x" * 51, "a\n", "$s"]


def topics(admin: ServiceBusAdministrationClient) -> list[str]:
    """Names of all topics, as listed."""
    return [topic.name for topic in admin.list_topics()]


def subscriptions(admin: ServiceBusAdministrationClient, topic: str = "news") -> list[str]:
    """Names of all subscriptions of a topic, as listed."""
    return [subscription.name for subscription in admin.list_subscriptions(topic)]


@pytest.mark.parametrize("name", TOPIC_DEFAULTS)
def test_default_of_each_option_of_a_topic(admin: ServiceBusAdministrationClient, name: str) -> None:
    """A topic created without options has the service's defaults (B-010, B-023)."""
    created = admin.create_topic("news")
    (listed,) = admin.list_topics()
    for shown in (created, admin.get_topic("news"), listed):
        assert isinstance(shown, TopicProperties)
        assert getattr(shown, name) == TOPIC_DEFAULTS[name]


@pytest.mark.parametrize("name", SUBSCRIPTION_DEFAULTS)
def test_default_of_each_option_of_a_subscription(admin: ServiceBusAdministrationClient, topic: str, name: str) -> None:
    """A subscription created without options has the service's defaults (B-024)."""
    created = admin.create_subscription(topic, "all")
    (listed,) = admin.list_subscriptions(topic)
    for shown in (created, admin.get_subscription(topic, "all"), listed):
        assert isinstance(shown, SubscriptionProperties)
        assert getattr(shown, name) == SUBSCRIPTION_DEFAULTS[name]


@pytest.mark.parametrize("name", OTHER_TOPIC_VALUES)
def test_option_of_a_topic_is_kept_and_can_be_changed(admin: ServiceBusAdministrationClient, name: str) -> None:
    """An option given at creation or in an update is returned, and no other changes (B-023)."""
    value = OTHER_TOPIC_VALUES[name]
    assert getattr(admin.create_topic("given", **{name: value}), name) == value
    topic = admin.create_topic("changed")
    setattr(topic, name, value)
    admin.update_topic(topic)
    for shown in (admin.get_topic("given"), admin.get_topic("changed")):
        assert getattr(shown, name) == value
        for other in TOPIC_DEFAULTS.keys() - {name}:
            assert getattr(shown, other) == TOPIC_DEFAULTS[other]


@pytest.mark.parametrize("name", OTHER_SUBSCRIPTION_VALUES)
def test_option_of_a_subscription_is_kept_and_can_be_changed(
    admin: ServiceBusAdministrationClient, topic: str, name: str
) -> None:
    """An option given at creation or in an update is returned, and no other changes (B-024)."""
    value = OTHER_SUBSCRIPTION_VALUES[name]
    assert getattr(admin.create_subscription(topic, "given", **{name: value}), name) == value
    subscription = admin.create_subscription(topic, "changed")
    setattr(subscription, name, value)
    admin.update_subscription(topic, subscription)
    for shown in (admin.get_subscription(topic, "given"), admin.get_subscription(topic, "changed")):
        assert getattr(shown, name) == value
        for other in SUBSCRIPTION_DEFAULTS.keys() - {name}:
            assert getattr(shown, other) == SUBSCRIPTION_DEFAULTS[other]


def test_updates_take_a_whole_mapping(admin: ServiceBusAdministrationClient, topic: str) -> None:
    """An update takes a mapping with all options; one that lacks an option is refused (B-456)."""
    admin.create_subscription(topic, "all")
    admin.update_topic({**admin.get_topic(topic), "user_metadata": "m"})
    admin.update_subscription(topic, {**admin.get_subscription(topic, "all"), "max_delivery_count": 4})
    assert admin.get_topic(topic).user_metadata == "m"
    assert admin.get_subscription(topic, "all").max_delivery_count == 4
    with pytest.raises(TypeError, match="max_size_in_megabytes"):
        admin.update_topic({"name": topic, "user_metadata": "n"})
    with pytest.raises(TypeError, match="lock_duration"):
        admin.update_subscription(topic, {"name": "all", "max_delivery_count": 5})
    assert admin.get_topic(topic).user_metadata == "m"
    assert admin.get_subscription(topic, "all").max_delivery_count == 4


@pytest.mark.parametrize("name", ["enable_partitioning", "requires_duplicate_detection"])
def test_fixed_options_of_a_topic(admin: ServiceBusAdministrationClient, name: str) -> None:
    """Partitioning and duplicate detection are fixed at creation; a refused update changes nothing (B-008, B-031)."""
    topic = admin.create_topic("news")
    setattr(topic, name, True)
    topic.user_metadata = "changed"
    with pytest.raises(ServiceBusError):
        admin.update_topic(topic)
    unchanged = admin.get_topic("news")
    assert getattr(unchanged, name) is False
    assert unchanged.user_metadata != "changed"


def test_fixed_option_of_a_subscription(admin: ServiceBusAdministrationClient, topic: str) -> None:
    """`requires_session` is fixed at creation; a refused update changes nothing (B-031)."""
    subscription = admin.create_subscription(topic, "all")
    subscription.requires_session = True
    subscription.max_delivery_count = 7
    with pytest.raises(ServiceBusError):
        admin.update_subscription(topic, subscription)
    unchanged = admin.get_subscription(topic, "all")
    assert (unchanged.requires_session, unchanged.max_delivery_count) == (False, 10)


@pytest.mark.parametrize(("name", "value"), TOPIC_OUT_OF_RANGE)
def test_option_of_a_topic_out_of_range(admin: ServiceBusAdministrationClient, name: str, value: Any) -> None:
    """It is refused by name, at creation and update, and nothing changes (B-026, B-027, B-030, B-034)."""
    with pytest.raises((ServiceBusError, ValueError), match=name):
        admin.create_topic("news", **{name: value})
    assert topics(admin) == []
    topic = admin.create_topic("news")
    before = getattr(topic, name)
    setattr(topic, name, value)
    with pytest.raises((ServiceBusError, ValueError), match=name):
        admin.update_topic(topic)
    assert getattr(admin.get_topic("news"), name) == before


@pytest.mark.parametrize(("name", "value"), SUBSCRIPTION_OUT_OF_RANGE)
def test_option_of_a_subscription_out_of_range(
    admin: ServiceBusAdministrationClient, topic: str, name: str, value: Any
) -> None:
    """It is refused by name, at creation and update, and nothing changes (B-025, B-026, B-029, B-030)."""
    with pytest.raises((ServiceBusError, ValueError), match=name):
        admin.create_subscription(topic, "all", **{name: value})
    assert subscriptions(admin) == []
    subscription = admin.create_subscription(topic, "all")
    before = getattr(subscription, name)
    setattr(subscription, name, value)
    with pytest.raises((ServiceBusError, ValueError), match=name):
        admin.update_subscription(topic, subscription)
    assert getattr(admin.get_subscription(topic, "all"), name) == before


@pytest.mark.parametrize(("name", "value"), TOPIC_WRONG_TYPE)
def test_option_of_a_topic_of_wrong_type(admin: ServiceBusAdministrationClient, name: str, value: Any) -> None:
    """It is refused by name, and no topic is created (B-023)."""
    with pytest.raises((TypeError, ValueError), match=name):
        admin.create_topic("news", **{name: value})
    assert topics(admin) == []


@pytest.mark.parametrize(("name", "value"), SUBSCRIPTION_WRONG_TYPE)
def test_option_of_a_subscription_of_wrong_type(
    admin: ServiceBusAdministrationClient, topic: str, name: str, value: Any
) -> None:
    """It is refused by name, and no subscription is created (B-024)."""
    with pytest.raises((TypeError, ValueError), match=name):
        admin.create_subscription(topic, "all", **{name: value})
    assert subscriptions(admin) == []


@pytest.mark.parametrize("name", ["forward_to", "forward_dead_lettered_messages_to"])
def test_forwarding_is_refused(admin: ServiceBusAdministrationClient, topic: str, name: str) -> None:
    """An option this version does not have is an invalid operation that names it (B-331)."""
    options: dict[str, Any] = {name: "elsewhere"}
    with pytest.raises(InvalidOperationError, match=name):
        admin.create_subscription(topic, "all", **options)
    assert subscriptions(admin) == []


@pytest.mark.parametrize("name", ["a", "Q-1", "a.b_c-d", "flights/2013/raw", "x" * 260])
def test_good_topic_names(admin: ServiceBusAdministrationClient, client: ServiceBusClient, name: str) -> None:
    """Names have letters, digits, dot, dash, underscore and inner slashes, up to 260 characters (B-016, B-017)."""
    assert admin.create_topic(name).name == name
    admin.create_subscription(name, "all")
    with client.get_topic_sender(name) as sender, client.get_subscription_receiver(name, "all") as receiver:
        sender.send_messages(ServiceBusMessage(b"x"))
        assert len(receiver.receive_messages(max_wait_time=0)) == 1
    admin.delete_topic(name)


@pytest.mark.parametrize("name", ["", "/a", "a/", "a b", "a?b", "a#b", "a@b", "a*b", "a\\b", "x" * 261, "a\n", "$q"])
def test_bad_topic_names(admin: ServiceBusAdministrationClient, name: str) -> None:
    """Other names are refused and nothing is created (B-016, B-017)."""
    with pytest.raises((ServiceBusError, ValueError)):
        admin.create_topic(name)
    assert topics(admin) == []


@pytest.mark.parametrize("name", ["a", "S-1", "a.b_c-d", "x" * 50])
def test_good_subscription_names(
    admin: ServiceBusAdministrationClient, client: ServiceBusClient, topic: str, name: str
) -> None:
    """Names have letters, digits, dot, dash and underscore, up to 50 characters (B-016, B-017)."""
    assert admin.create_subscription(topic, name).name == name
    with client.get_subscription_receiver(topic, name) as receiver:
        assert receiver.receive_messages(max_wait_time=0) == []


@pytest.mark.parametrize("name", BAD_SUBSCRIPTION_NAMES)
def test_bad_subscription_names(admin: ServiceBusAdministrationClient, topic: str, name: str) -> None:
    """Other names are refused and nothing is created (B-016, B-017)."""
    with pytest.raises((ServiceBusError, ValueError)):
        admin.create_subscription(topic, name)
    assert subscriptions(admin) == []


@pytest.mark.parametrize("name", ["", "a/b", "a\\b", "all/$DeadLetterQueue"])
def test_receiver_takes_the_name_of_a_subscription_only(client: ServiceBusClient, topic: str, name: str) -> None:
    """A path instead of a name could mean another entity, so it is refused at once (B-020)."""
    with pytest.raises(ValueError, match="subscription_name"):
        client.get_subscription_receiver(topic, name)


@pytest.mark.parametrize("name", [None, 1, b"q", ["q"]], ids=repr)
def test_names_must_be_text(
    admin: ServiceBusAdministrationClient, client: ServiceBusClient, topic: str, name: Any
) -> None:
    """A name that is not text is a TypeError as in the SDK (B-017)."""
    for call in (
        lambda: admin.create_topic(name),
        lambda: admin.get_topic(name),
        lambda: admin.delete_topic(name),
        lambda: admin.get_topic_runtime_properties(name),
        lambda: admin.list_subscriptions(name),
        lambda: admin.create_subscription(topic, name),
        lambda: admin.get_subscription(name, "all"),
        lambda: admin.delete_subscription(topic, name),
        lambda: admin.get_subscription_runtime_properties(topic, name),
        lambda: client.get_subscription_receiver(topic, name),
        lambda: client.list_subscription_sessions(name, "all"),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError, match="give its name"):
        admin.delete_topic(admin.get_topic(topic))  # type: ignore[arg-type]


def test_names_compare_without_case(
    admin: ServiceBusAdministrationClient,
    client: ServiceBusClient,
    receive_one: Callable[..., ServiceBusReceivedMessage],
) -> None:
    """Names are compared without case, and the spelling at creation is kept (B-018)."""
    admin.create_topic("News")
    admin.create_subscription("nEWS", "All")
    with pytest.raises(MessagingEntityAlreadyExistsError):
        admin.create_topic("NEWS")
    with pytest.raises(MessagingEntityAlreadyExistsError):
        admin.create_subscription("news", "aLL")
    assert (topics(admin), subscriptions(admin, "NEWS")) == (["News"], ["All"])
    assert (admin.get_topic("NEWS").name, admin.get_subscription("NEWS", "ALL").name) == ("News", "All")
    with client.get_topic_sender("nEwS") as sender, client.get_subscription_receiver("NewS", "aLl") as receiver:
        sender.send_messages(ServiceBusMessage(b"x"))
        assert str(receive_one(receiver)) == "x"
    admin.delete_subscription("news", "all")
    admin.delete_topic("news")
    assert topics(admin) == []


def test_queues_and_topics_share_their_names(admin: ServiceBusAdministrationClient) -> None:
    """A name is used by a queue or a topic, and each is found only as its kind (B-019)."""
    admin.create_queue("q")
    admin.create_topic("t")
    with pytest.raises(MessagingEntityAlreadyExistsError):
        admin.create_topic("Q")
    with pytest.raises(MessagingEntityAlreadyExistsError):
        admin.create_queue("T")
    for call in (
        lambda: admin.get_topic("q"),
        lambda: admin.get_topic_runtime_properties("q"),
        lambda: admin.create_subscription("q", "s"),
        lambda: list(admin.list_subscriptions("q")),
        lambda: admin.get_queue("t"),
        lambda: admin.get_queue_runtime_properties("t"),
    ):
        with pytest.raises(MessagingEntityNotFoundError):
            call()
    assert ([queue.name for queue in admin.list_queues()], topics(admin)) == (["q"], ["t"])


def test_subscription_has_an_address(
    admin: ServiceBusAdministrationClient,
    client: ServiceBusClient,
    topic: str,
    publish: Callable[..., None],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """`topic/Subscriptions/subscription` is the address of a subscription in any letter case (B-018, B-020)."""
    admin.create_subscription(topic, "all")
    publish("x")
    with client.get_queue_receiver("NEWS/subscriptions/ALL") as receiver:
        assert [str(message) for message in drain(receiver)] == ["x"]


def test_topic_itself_cannot_be_received_from(client: ServiceBusClient, topic: str) -> None:
    """Messages are received from its subscriptions only (B-136)."""

    def receive() -> None:
        with client.get_queue_receiver(topic) as receiver:
            receiver.receive_messages(max_wait_time=0)

    with pytest.raises((ServiceBusError, ValueError)):
        receive()


def test_subscription_cannot_be_sent_to(admin: ServiceBusAdministrationClient, client: ServiceBusClient) -> None:
    """Messages are sent to its topic only (B-136)."""
    admin.create_topic("news")
    admin.create_subscription("news", "all")

    def send() -> None:
        with client.get_queue_sender("news/Subscriptions/all") as sender:
            sender.send_messages(ServiceBusMessage(b"x"))

    with pytest.raises((ServiceBusError, ValueError)):
        send()
    assert admin.get_subscription_runtime_properties("news", "all").total_message_count == 0


def test_unknown_topics_and_subscriptions_are_not_found(
    admin: ServiceBusAdministrationClient, client: ServiceBusClient, topic: str
) -> None:
    """Every call on an unknown entity is a not-found error with its name (B-019)."""
    deleted_topic = admin.create_topic("gone")
    deleted_subscription = admin.create_subscription(topic, "gone")
    admin.delete_topic("gone")
    admin.delete_subscription(topic, "gone")

    def send() -> None:
        with client.get_topic_sender("gone") as sender:
            sender.send_messages(ServiceBusMessage(b"x"))

    def receive() -> None:
        with client.get_subscription_receiver(topic, "gone") as receiver:
            receiver.receive_messages(max_wait_time=0)

    for call in (
        lambda: admin.get_topic("gone"),
        lambda: admin.get_topic_runtime_properties("gone"),
        lambda: admin.update_topic(deleted_topic),
        lambda: admin.delete_topic("gone"),
        lambda: list(admin.list_subscriptions("gone")),
        lambda: admin.create_subscription("gone", "all"),
        lambda: admin.get_subscription("gone", "all"),
        lambda: admin.get_subscription(topic, "gone"),
        lambda: admin.get_subscription_runtime_properties(topic, "gone"),
        lambda: admin.update_subscription(topic, deleted_subscription),
        lambda: admin.delete_subscription(topic, "gone"),
        send,
        receive,
    ):
        with pytest.raises(MessagingEntityNotFoundError, match="gone") as refusal:
            call()
        assert refusal.value.condition == "amqp:not-found"


def test_existing_subscription_is_refused_and_kept(admin: ServiceBusAdministrationClient, topic: str) -> None:
    """Creating a subscription twice is an error and does not change it (B-019)."""
    admin.create_subscription(topic, "all", max_delivery_count=3)
    with pytest.raises(MessagingEntityAlreadyExistsError) as refusal:
        admin.create_subscription(topic, "all", max_delivery_count=5)
    assert refusal.value.condition == "com.microsoft:entity-already-exists"
    assert admin.get_subscription(topic, "all").max_delivery_count == 3


def test_subscriptions_of_two_topics_have_names_of_their_own(admin: ServiceBusAdministrationClient) -> None:
    """A subscription name is unique within its topic only (B-020)."""
    for name in ("a", "b"):
        admin.create_topic(name)
        admin.create_subscription(name, "all")
    admin.delete_subscription("a", "all")
    assert (subscriptions(admin, "a"), subscriptions(admin, "b")) == ([], ["all"])


def test_deleting_a_topic_deletes_its_subscriptions(
    admin: ServiceBusAdministrationClient,
    client: ServiceBusClient,
    make_topic: Callable[..., str],
    publish: Callable[..., None],
) -> None:
    """Subscriptions and messages are deleted, handles fail, and a new topic of that name is empty (B-009, B-019)."""
    topic = make_topic()
    for name in ("one", "two"):
        admin.create_subscription(topic, name)
    publish("x", "y")
    with client.get_topic_sender(topic) as sender, client.get_subscription_receiver(topic, "one") as receiver:
        admin.delete_topic(topic)
        with pytest.raises(MessagingEntityNotFoundError):
            sender.send_messages(ServiceBusMessage(b"x"))
        with pytest.raises(MessagingEntityNotFoundError):
            receiver.receive_messages(max_wait_time=0)
    with pytest.raises(MessagingEntityNotFoundError):
        admin.get_subscription(topic, "one")
    make_topic()
    assert subscriptions(admin) == []
    admin.create_subscription(topic, "one")
    assert admin.get_subscription_runtime_properties(topic, "one").total_message_count == 0


def test_lists_show_everything_by_name(admin: ServiceBusAdministrationClient) -> None:
    """Topics and subscriptions come by name, item by item and in pages (B-457)."""
    expected = sorted(f"n-{number}" for number in range(120))
    for name in expected:
        admin.create_topic(name)
        admin.create_subscription("n-0", name)
    assert topics(admin) == subscriptions(admin, "n-0") == expected
    assert [topic.name for page in admin.list_topics().by_page() for topic in page] == expected
    assert [len(list(page)) for page in admin.list_subscriptions("n-0").by_page()] == [100, 20]
    counts = {topic.name: topic.subscription_count for topic in admin.list_topics_runtime_properties()}
    assert counts == {name: 120 if name == "n-0" else 0 for name in expected}
    assert [one.name for one in admin.list_subscriptions_runtime_properties("n-0")] == expected


def test_subscriptions_inherit_partitioning(
    admin: ServiceBusAdministrationClient, topic: str, partitioned: bool, publish: Callable[..., None]
) -> None:
    """A subscription has as many partitions as its topic, and no own option (B-009)."""
    admin.create_subscription(topic, "all")
    publish(*map(str, range(32)))
    runtime = admin.get_subscription_runtime_properties(topic, "all")
    expected = list(range(16)) if partitioned else [None]
    assert [partition.partition_id for partition in runtime.partitions] == expected
    assert sum(partition.total_message_count for partition in runtime.partitions) == 32
    assert not hasattr(admin.get_subscription(topic, "all"), "enable_partitioning")


def test_runtime_properties_of_a_topic(
    admin: ServiceBusAdministrationClient, client: ServiceBusClient, topic: str, clock: ManualClock
) -> None:
    """They have scheduled messages, subscriptions and times, but no active messages (B-389, B-392)."""
    created_at = clock.now()
    admin.create_subscription(topic, "all")
    clock.advance(10)
    properties = admin.get_topic(topic)
    properties.user_metadata = "m"
    admin.update_topic(properties)
    clock.advance(10)
    with client.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage(b"now"))
        for _ in range(3):
            sender.schedule_messages(ServiceBusMessage(b"later"), clock.now() + timedelta(hours=1))
    runtime = admin.get_topic_runtime_properties(topic)
    assert (runtime.name, runtime.subscription_count, runtime.scheduled_message_count) == (topic, 1, 3)
    assert (runtime.sql_filter_count, runtime.correlation_filter_count) == (1, 0)
    assert runtime.created_at_utc == created_at
    assert runtime.updated_at_utc == created_at + timedelta(seconds=10)
    assert runtime.accessed_at_utc == created_at + timedelta(seconds=20)
    assert runtime.size_in_bytes > 0
    assert runtime.availability_status == "Available"


def test_runtime_properties_of_a_subscription(
    admin: ServiceBusAdministrationClient,
    client: ServiceBusClient,
    topic: str,
    clock: ManualClock,
    publish: Callable[..., None],
    drain: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """Locked and deferred messages count as active; the total has the dead letters too (B-389 to B-392)."""
    created_at = clock.now()
    admin.create_subscription(topic, "all")
    clock.advance(5)
    publish(*map(str, range(10)))
    with client.get_subscription_receiver(topic, "all") as receiver:
        messages = drain(receiver)
        receiver.complete_message(messages[0])
        receiver.dead_letter_messages(messages[1:3])
        receiver.defer_messages(messages[3:6])
        receiver.abandon_message(messages[6])
        runtime = admin.get_subscription_runtime_properties(topic, "all")
    assert (runtime.name, runtime.topic_name) == ("all", topic)
    assert (runtime.locked_message_count, runtime.deferred_message_count) == (3, 3)
    assert (runtime.active_message_count, runtime.dead_letter_message_count, runtime.total_message_count) == (7, 2, 9)
    assert (runtime.transfer_message_count, runtime.transfer_dead_letter_message_count) == (0, 0)
    assert runtime.created_at_utc == created_at
    assert runtime.accessed_at_utc == created_at + timedelta(seconds=5)


def test_availability_is_limited_while_a_partition_is_down(
    namespace: Namespace, admin: ServiceBusAdministrationClient, publish: Callable[..., None]
) -> None:
    """With a partition down, topic and subscription read Limited; counts cover the others (B-097, B-098)."""
    admin.create_topic("news", enable_partitioning=True)
    admin.create_subscription("news", "all")
    publish(*map(str, range(32)))
    inject_fault(namespace, 3, "unavailable")
    assert admin.get_topic("news").availability_status == "Limited"
    assert admin.get_subscription("news", "all").availability_status == "Limited"
    runtime = admin.get_subscription_runtime_properties("news", "all")
    assert (runtime.availability_status, runtime.total_message_count) == ("Limited", 30)
    assert [part.partition_id for part in runtime.partitions if not part.available] == [3]
    heal(namespace, 3)
    assert admin.get_topic("news").availability_status == "Available"


def test_changes_need_every_partition(namespace: Namespace, admin: ServiceBusAdministrationClient) -> None:
    """With a partition down, a partitioned topic cannot be created, updated or deleted (B-096)."""
    topic = admin.create_topic("old", enable_partitioning=True)
    subscription = admin.create_subscription("old", "all")
    inject_fault(namespace, 3, "unavailable")
    topic.user_metadata = "m"
    subscription.max_delivery_count = 3
    for call in (
        lambda: admin.create_topic("new", enable_partitioning=True),
        lambda: admin.update_topic(topic),
        lambda: admin.delete_topic("old"),
        lambda: admin.create_subscription("old", "new"),
        lambda: admin.update_subscription("old", subscription),
        lambda: admin.delete_subscription("old", "all"),
    ):
        with pytest.raises(ServiceBusError):
            call()
    heal(namespace, 3)
    assert (topics(admin), subscriptions(admin, "old")) == (["old"], ["all"])
    assert admin.get_topic("old").user_metadata != "m"
    assert admin.get_subscription("old", "all").max_delivery_count == 10


def test_connection_string_for_a_topic_is_for_it_only() -> None:
    """`EntityPath` names the topic, and its subscriptions may be read (B-020)."""
    text = "Endpoint=memory://topics-by-entity-path"
    with ServiceBusClient.from_connection_string(f"{text};EntityPath=news") as client:
        for call in (
            lambda: client.get_topic_sender("other"),
            lambda: client.get_subscription_receiver("other", "all"),
            lambda: client.list_subscription_sessions("other", "all"),
        ):
            with pytest.raises(ValueError, match="another entity"):
                call()
