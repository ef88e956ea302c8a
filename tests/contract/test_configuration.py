# SPDX-License-Identifier: Apache-2.0
"""`Namespace(config=...)`: the entities of a `config.json` of the Azure Service Bus emulator.

The shape of the file is the emulator's; `EnablePartitioning` is this project's.
docs/guide/configuration-files.md tells what holds.
"""

from __future__ import annotations

import copy
import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import (
    InvalidOperationError,
    InvalidRuleError,
    MessagingEntityNotFoundError,
    PartitionUnavailableError,
    ServiceBusError,
)
from oxbus.management import (
    CorrelationRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUEUE = {
    "DeadLetteringOnMessageExpiration": True,
    "DefaultMessageTimeToLive": "PT1H",
    "DuplicateDetectionHistoryTimeWindow": "PT20S",
    "ForwardDeadLetteredMessagesTo": "",
    "ForwardTo": "",
    "LockDuration": "PT30S",
    "MaxDeliveryCount": 3,
    "RequiresDuplicateDetection": True,
    "RequiresSession": True,
}


def config(*, queues: Any = (), topics: Any = (), **more: Any) -> dict[str, Any]:
    """A configuration with some queues and topics."""
    namespace = {"Name": "sbemulatorns", "Queues": list(queues), "Topics": list(topics), **more}
    return {"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "File"}}}


def topic(*subscriptions: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """The topic `news` with some subscriptions."""
    return {"Name": "news", "Properties": properties, "Subscriptions": list(subscriptions)}


def rule(name: str, **properties: Any) -> dict[str, Any]:
    """A rule."""
    return {"Name": name, "Properties": properties}


@pytest.fixture
def open_config(open_namespace: Callable[..., Namespace]) -> Callable[..., ServiceBusAdministrationClient]:
    """Open a namespace with a configuration, and administer it."""

    def open_config(config: Any, **options: Any) -> ServiceBusAdministrationClient:
        return ServiceBusAdministrationClient(open_namespace(config=config, **options))

    return open_config


def test_queue_has_what_the_file_says(open_config: Callable[..., ServiceBusAdministrationClient]) -> None:
    """Each property sets the option of the same name (B-022 to B-033)."""
    queue = open_config(config(queues=[{"Name": "orders", "Properties": QUEUE}])).get_queue("orders")
    assert queue.dead_lettering_on_message_expiration is True
    assert queue.default_message_time_to_live == timedelta(hours=1)
    assert queue.duplicate_detection_history_time_window == timedelta(seconds=20)
    assert queue.lock_duration == timedelta(seconds=30)
    assert queue.max_delivery_count == 3
    assert queue.requires_duplicate_detection is True
    assert queue.requires_session is True
    assert (queue.forward_to, queue.forward_dead_lettered_messages_to) == (None, None)
    assert queue.enable_partitioning is False


def test_what_the_file_does_not_say_has_its_default(open_config: Callable[..., ServiceBusAdministrationClient]) -> None:
    """The defaults are those of the service, not those of the emulator: ten deliveries, no time to live (B-022)."""
    admin = open_config(config(queues=[{"Name": "orders"}], topics=[topic({"Name": "all"})]))
    made = ServiceBusAdministrationClient(Namespace())
    assert dict(admin.get_queue("orders").items()) == dict(made.create_queue("orders").items())
    assert dict(admin.get_topic("news").items()) == dict(made.create_topic("news").items())
    subscription = made.create_subscription("news", "all")
    assert dict(admin.get_subscription("news", "all").items()) == dict(subscription.items())


@pytest.mark.parametrize("partitioned", [True, False])
def test_entities_may_be_partitioned(
    open_config: Callable[..., ServiceBusAdministrationClient], partitioned: bool
) -> None:
    """`EnablePartitioning` is the key that the emulator does not have (B-022)."""
    queue = {"Name": "orders", "Properties": {"EnablePartitioning": partitioned}}
    admin = open_config(config(queues=[queue], topics=[topic(EnablePartitioning=partitioned)]))
    assert admin.get_queue("orders").enable_partitioning is partitioned
    assert admin.get_topic("news").enable_partitioning is partitioned


def test_topic_and_subscription_have_what_the_file_says(
    open_config: Callable[..., ServiceBusAdministrationClient],
) -> None:
    """Each property sets the option of the same name (B-024 to B-031)."""
    only_topic = {"RequiresDuplicateDetection": True, "DuplicateDetectionHistoryTimeWindow": "PT1M"}
    part = {name: value for name, value in QUEUE.items() if "Duplicate" not in name}
    admin = open_config(config(topics=[topic({"Name": "all", "Properties": part}, **only_topic)]))
    made = admin.get_topic("news")
    assert made.requires_duplicate_detection is True
    assert made.duplicate_detection_history_time_window == timedelta(minutes=1)
    subscription = admin.get_subscription("news", "all")
    assert subscription.requires_session is True
    assert subscription.lock_duration == timedelta(seconds=30)
    assert subscription.max_delivery_count == 3
    assert subscription.dead_lettering_on_message_expiration is True


def test_rules_are_those_of_the_file(open_config: Callable[..., ServiceBusAdministrationClient]) -> None:
    """Correlation and SQL filters, with actions; no `$Default` beside them (B-345, B-355 to B-357)."""
    names = ["ContentType", "CorrelationId", "Label", "MessageId", "ReplyTo", "ReplyToSessionId", "SessionId", "To"]
    equal = {name: name.lower() for name in names}
    rules = [
        rule("c", FilterType="Correlation", CorrelationFilter={**equal, "Properties": {"n": 1, "t": "x", "b": True}}),
        rule("s", FilterType="Sql", SqlFilter={"SqlExpression": "n = 1"}, Action={"SqlExpression": "SET a = 2"}),
    ]
    admin = open_config(config(topics=[topic({"Name": "some", "Rules": rules})]))
    correlation, sql = admin.list_rules("news", "some")
    assert correlation.filter == CorrelationRuleFilter(
        content_type="contenttype",
        correlation_id="correlationid",
        label="label",
        message_id="messageid",
        reply_to="replyto",
        reply_to_session_id="replytosessionid",
        session_id="sessionid",
        to="to",
        properties={"n": 1, "t": "x", "b": True},
    )
    assert (sql.filter, sql.action) == (SqlRuleFilter("n = 1", {}), SqlRuleAction("SET a = 2", {}))


@pytest.mark.parametrize("subscription", [{"Name": "all"}, {"Name": "all", "Rules": []}], ids=["absent", "empty"])
def test_subscription_without_rules_selects_everything(
    open_config: Callable[..., ServiceBusAdministrationClient], subscription: dict[str, Any]
) -> None:
    """It has `$Default` (B-345)."""
    admin = open_config(config(topics=[topic(subscription)]))
    (default,) = admin.list_rules("news", "all")
    assert (default.name, default.filter) == ("$Default", TrueRuleFilter())


def test_forwards_may_point_ahead(open_config: Callable[..., ServiceBusAdministrationClient]) -> None:
    """The order of the file does not matter: queues forward to topics, and to what comes later (B-331)."""
    queues = [
        {"Name": "first", "Properties": {"ForwardTo": "second", "ForwardDeadLetteredMessagesTo": "third"}},
        {"Name": "second", "Properties": {"ForwardTo": "news"}},
        {"Name": "third"},
    ]
    part = {"Name": "all", "Properties": {"ForwardTo": "third"}}
    admin = open_config(config(queues=queues, topics=[topic(part)]))
    first = admin.get_queue("first")
    assert (first.forward_to, first.forward_dead_lettered_messages_to) == ("second", "third")
    assert admin.get_queue("second").forward_to == "news"
    assert admin.get_subscription("news", "all").forward_to == "third"


def test_forward_to_nothing_is_refused(open_config: Callable[..., ServiceBusAdministrationClient]) -> None:
    """The text names the place in the file."""
    queue = {"Name": "orders", "Properties": {"ForwardTo": "nowhere"}}
    with pytest.raises(ServiceBusError, match=r"config: UserConfig\.Namespaces\[0\]\.Queues\[0\]: .*nowhere"):
        open_config(config(queues=[queue]))


def test_configured_entities_work(open_namespace: Callable[..., Namespace], drain: Callable[..., list[Any]]) -> None:
    """What is sent comes out by the rules of the file."""
    big = rule("big", FilterType="Sql", SqlFilter={"SqlExpression": "amount > 100"})
    namespace = open_namespace(
        config=config(topics=[topic({"Name": "large", "Rules": [big]}, EnablePartitioning=True)])
    )
    with ServiceBusClient(namespace) as client:
        with client.get_topic_sender("news") as sender:
            for amount in (50, 500):
                sender.send_messages(ServiceBusMessage(str(amount), application_properties={"amount": amount}))
        assert [str(message) for message in drain(client.get_subscription_receiver("news", "large"))] == ["500"]


def test_configuration_is_a_path_or_a_mapping(open_namespace: Callable[..., Namespace], tmp_path: Path) -> None:
    """A path as text or as an object; the file may begin with a schema."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"$schema": "Config-schema.json", **config(queues=[{"Name": "orders"}])}))
    for given in (file, str(file), json.loads(file.read_text())):
        admin = ServiceBusAdministrationClient(open_namespace(config=given))
        assert [queue.name for queue in admin.list_queues()] == ["orders"]


@pytest.mark.parametrize("wrong", [5, [], b"config.json"])
def test_configuration_of_another_type(open_namespace: Callable[..., Namespace], wrong: Any) -> None:
    """Neither a path nor a mapping."""
    with pytest.raises(TypeError, match=r"config must be the path"):
        open_namespace(config=wrong)


@pytest.mark.parametrize("text", ["", "{", '{"UserConfig": {}} x', '{"UserConfig": 1, "UserConfig": 2}', "\xff"])
def test_file_that_is_no_json(open_namespace: Callable[..., Namespace], tmp_path: Path, text: str) -> None:
    """The error names the file; a key that is there twice is an error too."""
    file = tmp_path / "config.json"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=r"config: `.*config\.json` is no JSON"):
        open_namespace(config=file)
    with pytest.raises(FileNotFoundError, match=r"missing\.json"):
        open_namespace(config=tmp_path / "missing.json")


GOOD = config(
    queues=[{"Name": "orders", "Properties": QUEUE}],
    topics=[
        topic(
            {
                "Name": "all",
                "Properties": {"LockDuration": "PT30S"},
                "Rules": [
                    rule(
                        "s", FilterType="Sql", SqlFilter={"SqlExpression": "a = 1"}, Action={"SqlExpression": "SET a=2"}
                    ),
                    rule("c", FilterType="Correlation", CorrelationFilter={"Label": "x", "Properties": {"n": 1}}),
                ],
            }
        )
    ],
)
Q, T = "UserConfig.Namespaces.0.Queues.0", "UserConfig.Namespaces.0.Topics.0"
S = f"{T}.Subscriptions.0"
SQL, EQUAL = f"{S}.Rules.0.Properties", f"{S}.Rules.1.Properties"


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        ("Userconfig", {}, "unknown key; did you mean UserConfig?"),
        ("UserConfig", None, "is missing"),
        ("UserConfig", [], "must be an object, not a list"),
        ("UserConfig.Namespace", [], "unknown key; did you mean Namespaces?"),
        ("UserConfig.Namespaces", {}, "must be a list, not an object"),
        ("UserConfig.Namespaces", [], "has 0 namespaces"),
        ("UserConfig.Namespaces", [{}, {}], "has 2 namespaces"),
        ("UserConfig.Namespaces.0.Relays", [], "unknown key; the keys here are Name, Queues, Topics"),
        (Q, "orders", "must be an object, not a text"),
        (f"{Q}.Name", None, "is missing"),
        (f"{Q}.Name", 5, "must be a text, not a whole number"),
        (f"{Q}.LockDuration", "PT1M", "unknown key"),
        (f"{Q}.Properties.LockDuraton", "PT1M", "unknown key; did you mean LockDuration?"),
        (f"{Q}.Properties.LockDuration", "1 minute", "must be an ISO 8601 duration"),
        (f"{Q}.Properties.LockDuration", 60, "must be a text, not a whole number"),
        (f"{Q}.Properties.MaxDeliveryCount", "3", "must be a whole number, not a text"),
        (f"{Q}.Properties.MaxDeliveryCount", True, "must be a whole number, not true or false"),
        (f"{Q}.Properties.MaxDeliveryCount", 1.5, "must be a whole number, not `1.5`"),
        (f"{Q}.Properties.RequiresSession", 1, "must be true or false, not a whole number"),
        (f"{T}.Properties.LockDuration", "PT1M", "unknown key"),
        (f"{S}.Properties.EnablePartitioning", True, "unknown key"),
        (f"{SQL}.FilterType", None, "is missing"),
        (f"{SQL}.FilterType", "SQL", "must be Correlation or Sql: `SQL`"),
        (f"{SQL}.SqlFilter", None, "is missing"),
        (f"{SQL}.SqlFilter.SqlExpression", None, "is missing"),
        (f"{SQL}.CorrelationFilter", {"Label": "x"}, "does not go with the FilterType Sql"),
        (f"{SQL}.Action.Expression", "SET a=1", "unknown key; did you mean SqlExpression?"),
        (f"{EQUAL}.CorrelationFilter", None, "is missing"),
        (f"{EQUAL}.CorrelationFilter.Subject", "x", "unknown key"),
        (f"{EQUAL}.CorrelationFilter.Properties.n", [1], "must be a text, a number, true or false, not a list"),
    ],
)
def test_mistake_is_told_with_its_place(
    open_namespace: Callable[..., Namespace], tmp_path: Path, store: str, place: str, value: Any, problem: str
) -> None:
    """Unknown keys, missing ones and values of the wrong kind; nothing is opened or made then."""
    wrong = copy.deepcopy(GOOD)
    *above, last = place.split(".")
    inner: Any = wrong
    for step in above:
        inner = inner[int(step)] if isinstance(inner, list) else inner[step]
    inner[int(last) if isinstance(inner, list) else last] = value
    shown = re.sub(r"\.(\d)", r"[\1]", place)
    with pytest.raises(ValueError, match=r"config") as refusal:
        open_namespace(config=wrong)
    assert shown in str(refusal.value)
    assert problem in str(refusal.value)
    assert (store, list(tmp_path.iterdir())) == (store, [])


def test_name_that_is_there_twice(open_namespace: Callable[..., Namespace]) -> None:
    """Letter case does not tell names apart, and topics share theirs with queues (B-016, B-018)."""
    for two in (
        config(queues=[{"Name": "orders"}, {"Name": "ORDERS"}]),
        config(queues=[{"Name": "news"}], topics=[topic()]),
        config(topics=[topic({"Name": "a"}, {"Name": "A"})]),
        config(topics=[topic({"Name": "a", "Rules": [GOOD_RULE, GOOD_RULE | {"Name": "S"}]})]),
    ):
        with pytest.raises(ValueError, match=r"has the name of UserConfig\.Namespaces\[0\]"):
            open_namespace(config=two)


GOOD_RULE = rule("s", FilterType="Sql", SqlFilter={"SqlExpression": "a = 1"})


@pytest.mark.parametrize(
    ("second", "error"),
    [
        ({"Name": "b", "Properties": {"MaxDeliveryCount": 0}}, ValueError),
        ({"Name": "b", "Properties": {"ForwardTo": "nowhere"}}, ServiceBusError),
        ({"Name": "b" * 300}, ValueError),
    ],
    ids=["range", "forward", "name"],
)
def test_all_of_it_or_nothing(tmp_path: Path, second: dict[str, Any], error: Any) -> None:
    """When one entity is refused, what was made, changed or forwarded before is undone, and the directory is free."""
    place = tmp_path / "bus"
    with Namespace(place) as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        admin.create_queue("there", lock_duration=timedelta(seconds=10))
        admin.create_topic("news")
        admin.create_subscription("news", "all")
    queues = [{"Name": "there", "Properties": {"LockDuration": "PT1M", "ForwardTo": "a"}}, {"Name": "a"}, second]
    rules = [rule("$Default", FilterType="Sql", SqlFilter={"SqlExpression": "1=0"}), GOOD_RULE]
    wrong = config(queues=[queues[1]], topics=[topic({"Name": "all", "Rules": rules}, {"Name": "other"})])
    wrong["UserConfig"]["Namespaces"][0]["Topics"].append({"Name": "late", "Subscriptions": [{"Name": "b" * 60}]})
    for refused in (config(queues=queues), wrong):
        with pytest.raises(ServiceBusError if refused is not wrong and error is ServiceBusError else ValueError):
            Namespace(place, config=refused)
        with Namespace(place) as namespace:
            admin = ServiceBusAdministrationClient(namespace)
            (queue,) = admin.list_queues()
            assert (queue.lock_duration, queue.forward_to) == (timedelta(seconds=10), None)
            assert [found.name for found in admin.list_topics()] == ["news"]
            assert [found.name for found in admin.list_subscriptions("news")] == ["all"]
            (default,) = admin.list_rules("news", "all")
            assert default.filter == TrueRuleFilter()


def test_rule_that_does_not_parse(open_config: Callable[..., ServiceBusAdministrationClient]) -> None:
    """The error is that of the rule, with its place (B-359)."""
    bad = rule("bad", FilterType="Sql", SqlFilter={"SqlExpression": "a = = 1"})
    with pytest.raises(InvalidRuleError, match=r"Subscriptions\[0\]\.Rules\[1\]: "):
        open_config(config(topics=[topic({"Name": "all", "Rules": [GOOD_RULE, bad]})]))


def test_reopened_namespace_keeps_its_messages_and_more(tmp_path: Path) -> None:
    """What is there stays: messages, entities and rules that the file does not name, options that it does not give."""
    place = tmp_path / "bus"
    declared = config(queues=[{"Name": "orders"}], topics=[topic({"Name": "all", "Rules": [GOOD_RULE]})])
    with Namespace(place, config=declared) as namespace, ServiceBusClient(namespace) as client:
        admin = ServiceBusAdministrationClient(namespace)
        client.get_queue_sender("orders").send_messages(ServiceBusMessage("kept"))
        admin.create_queue("mine")
        admin.create_rule("news", "all", "mine")
        queue = admin.get_queue("orders")
        queue.max_delivery_count = 7
        admin.update_queue(queue)
        updated = admin.get_queue_runtime_properties("orders").updated_at_utc
    with Namespace(place, config=declared) as namespace, ServiceBusClient(namespace) as client:
        admin = ServiceBusAdministrationClient(namespace)
        assert [str(message) for message in client.get_queue_receiver("orders").peek_messages(5)] == ["kept"]
        assert [found.name for found in admin.list_queues()] == ["mine", "orders"]
        assert [found.name for found in admin.list_rules("news", "all")] == ["mine", "s"]
        assert admin.get_queue("orders").max_delivery_count == 7
        # Nothing differs, so nothing was written.
        assert admin.get_queue_runtime_properties("orders").updated_at_utc == updated


def test_reopened_namespace_follows_the_file(tmp_path: Path) -> None:
    """Options that the file gives are set, an empty text clears a forward, and a rule is replaced by its namesake."""
    place = tmp_path / "bus"
    queues = [{"Name": "a", "Properties": {"LockDuration": "PT10S", "ForwardTo": "b"}}, {"Name": "b"}]
    Namespace(place, config=config(queues=queues, topics=[topic({"Name": "all", "Rules": [GOOD_RULE]})])).close()
    queues = [{"Name": "A", "Properties": {"LockDuration": "PT20S", "ForwardTo": ""}}]
    rules = [
        rule("s", FilterType="Correlation", CorrelationFilter={"Label": "x"}),
        rule("t", **GOOD_RULE["Properties"]),
    ]
    with Namespace(place, config=config(queues=queues, topics=[topic({"Name": "all", "Rules": rules})])) as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        queue = admin.get_queue("a")
        assert (queue.name, queue.lock_duration, queue.forward_to) == ("a", timedelta(seconds=20), None)
        assert [(found.name, found.filter) for found in admin.list_rules("news", "all")] == [
            ("s", CorrelationRuleFilter(label="x", properties={})),
            ("t", SqlRuleFilter("a = 1", {})),
        ]


@pytest.mark.parametrize("key", ["EnablePartitioning", "RequiresDuplicateDetection", "RequiresSession"])
def test_what_is_fixed_at_creation_is_not_changed(tmp_path: Path, key: str) -> None:
    """A file that says otherwise is refused before anything is made, with its place and what to do (B-008)."""
    place = tmp_path / "bus"
    Namespace(place, config=config(queues=[{"Name": "orders"}])).close()
    queues = [{"Name": "new"}, {"Name": "orders", "Properties": {key: True}}]
    with pytest.raises(InvalidOperationError, match=r"Queues\[1\].*orders exists with .*=False.*change the file"):
        Namespace(place, config=config(queues=queues))
    with Namespace(place) as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        with pytest.raises(MessagingEntityNotFoundError):
            admin.get_queue("new")


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("partitions", [1, 2])
def test_premium_namespace_decides_about_partitions(tmp_path: Path, partitions: int, asked: bool) -> None:
    """What the file asks for has no effect there, the first time and when it is opened again (B-005, B-010)."""
    declared = config(queues=[{"Name": "orders", "Properties": {"EnablePartitioning": asked}}])
    for _ in range(2):
        with Namespace(tmp_path / "bus", tier="premium", partitions=partitions, config=declared) as namespace:
            queue = ServiceBusAdministrationClient(namespace).get_queue("orders")
            assert queue.enable_partitioning is (partitions > 1)


def test_owner_of_some_partitions_opens_what_is_there(tmp_path: Path) -> None:
    """A file that asks for nothing new opens; one that does is refused, and the partitions are free again."""
    place = tmp_path / "bus"
    declared = config(queues=[{"Name": "orders", "Properties": {"EnablePartitioning": True}}])
    Namespace(place, config=declared).close()
    with Namespace(place, config=declared, partitions_owned=[1]) as namespace:
        assert len(list(ServiceBusAdministrationClient(namespace).list_queues())) == 1
    with pytest.raises(PartitionUnavailableError, match=r"Queues\[0\]: "):
        Namespace(place, config=config(queues=[{"Name": "new"}]), partitions_owned=[1])
    with Namespace(place) as namespace:
        assert [queue.name for queue in ServiceBusAdministrationClient(namespace).list_queues()] == ["orders"]


def test_topic_of_the_name_of_a_queue(tmp_path: Path) -> None:
    """An entity of another kind has the name (B-016)."""
    place = tmp_path / "bus"
    Namespace(place, config=config(queues=[{"Name": "news"}])).close()
    with pytest.raises(ServiceBusError, match=r"Topics\[0\]: "):
        Namespace(place, config=config(topics=[topic()]))
