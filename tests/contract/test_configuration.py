# SPDX-License-Identifier: Apache-2.0
"""`Namespace(config=...)`: the entities of a `config.json` of the Azure Service Bus emulator.

The shape of the file is the emulator's; `EnablePartitioning` is this project's.
docs/guide/configuration-files.md documents it.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import ServiceBusError
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


def test_queue_properties_are_set(open_config: Callable[..., ServiceBusAdministrationClient]) -> None:
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


def test_missing_properties_have_their_defaults(open_config: Callable[..., ServiceBusAdministrationClient]) -> None:
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
    """`EnablePartitioning`, which the emulator does not have, partitions an entity (B-022)."""
    queue = {"Name": "orders", "Properties": {"EnablePartitioning": partitioned}}
    admin = open_config(config(queues=[queue], topics=[topic(EnablePartitioning=partitioned)]))
    assert admin.get_queue("orders").enable_partitioning is partitioned
    assert admin.get_topic("news").enable_partitioning is partitioned


def test_topic_and_subscription_properties_are_set(open_config: Callable[..., ServiceBusAdministrationClient]) -> None:
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
    """A subscription gets the rules of the file with their actions, and no `$Default` (B-345, B-355 to B-357)."""
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
    """A subscription without rules in the file has `$Default` (B-345)."""
    admin = open_config(config(topics=[topic(subscription)]))
    (default,) = admin.list_rules("news", "all")
    assert (default.name, default.filter) == ("$Default", TrueRuleFilter())


def test_forwards_may_point_ahead(open_config: Callable[..., ServiceBusAdministrationClient]) -> None:
    """Entities may forward to ones that follow in the file, and queues to topics (B-331)."""
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
    """The error names the place in the file."""
    queue = {"Name": "orders", "Properties": {"ForwardTo": "nowhere"}}
    with pytest.raises(ServiceBusError, match=r"config: UserConfig\.Namespaces\[0\]\.Queues\[0\]: .*nowhere"):
        open_config(config(queues=[queue]))


def test_configured_entities_work(open_namespace: Callable[..., Namespace], drain: Callable[..., list[Any]]) -> None:
    """Messages follow the rules of the file."""
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
    """The path may be text or a Path, and the file may name a schema."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"$schema": "Config-schema.json", **config(queues=[{"Name": "orders"}])}))
    for given in (file, str(file), json.loads(file.read_text())):
        admin = ServiceBusAdministrationClient(open_namespace(config=given))
        assert [queue.name for queue in admin.list_queues()] == ["orders"]


@pytest.mark.parametrize("wrong", [5, [], b"config.json"])
def test_configuration_of_another_type(open_namespace: Callable[..., Namespace], wrong: Any) -> None:
    """A configuration of another type is refused."""
    with pytest.raises(TypeError, match=r"config must be the path"):
        open_namespace(config=wrong)
