# SPDX-License-Identifier: Apache-2.0
"""A configuration applied to a directory with entities: they stay, and the file applies completely or not at all.

docs/guide/configuration-files.md is the contract.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import (
    InvalidOperationError,
    MessagingEntityNotFoundError,
    PartitionUnavailableError,
    ServiceBusError,
)
from oxbus.management import CorrelationRuleFilter, ServiceBusAdministrationClient, SqlRuleFilter, TrueRuleFilter

if TYPE_CHECKING:
    from pathlib import Path


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
    """If one entity is rejected, all earlier changes are undone, and the directory is free."""
    path = tmp_path / "bus"
    with Namespace(path) as namespace:
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
            Namespace(path, config=refused)
        with Namespace(path) as namespace:
            admin = ServiceBusAdministrationClient(namespace)
            (queue,) = admin.list_queues()
            assert (queue.lock_duration, queue.forward_to) == (timedelta(seconds=10), None)
            assert [found.name for found in admin.list_topics()] == ["news"]
            assert [found.name for found in admin.list_subscriptions("news")] == ["all"]
            (default,) = admin.list_rules("news", "all")
            assert default.filter == TrueRuleFilter()


def test_reopened_namespace_keeps_its_messages_and_more(tmp_path: Path) -> None:
    """Messages, entities and rules that the file does not name stay, and so do options that it does not give."""
    path = tmp_path / "bus"
    declared = config(queues=[{"Name": "orders"}], topics=[topic({"Name": "all", "Rules": [GOOD_RULE]})])
    with Namespace(path, config=declared) as namespace, ServiceBusClient(namespace) as client:
        admin = ServiceBusAdministrationClient(namespace)
        client.get_queue_sender("orders").send_messages(ServiceBusMessage("kept"))
        admin.create_queue("mine")
        admin.create_rule("news", "all", "mine")
        queue = admin.get_queue("orders")
        queue.max_delivery_count = 7
        admin.update_queue(queue)
        updated = admin.get_queue_runtime_properties("orders").updated_at_utc
    with Namespace(path, config=declared) as namespace, ServiceBusClient(namespace) as client:
        admin = ServiceBusAdministrationClient(namespace)
        assert [str(message) for message in client.get_queue_receiver("orders").peek_messages(5)] == ["kept"]
        assert [found.name for found in admin.list_queues()] == ["mine", "orders"]
        assert [found.name for found in admin.list_rules("news", "all")] == ["mine", "s"]
        assert admin.get_queue("orders").max_delivery_count == 7
        # Nothing differs, so nothing was written.
        assert admin.get_queue_runtime_properties("orders").updated_at_utc == updated


def test_reopened_namespace_follows_the_file(tmp_path: Path) -> None:
    """Options in the file are set, an empty string clears a forward, and a rule replaces the one of the same name."""
    path = tmp_path / "bus"
    queues = [{"Name": "a", "Properties": {"LockDuration": "PT10S", "ForwardTo": "b"}}, {"Name": "b"}]
    Namespace(path, config=config(queues=queues, topics=[topic({"Name": "all", "Rules": [GOOD_RULE]})])).close()
    queues = [{"Name": "A", "Properties": {"LockDuration": "PT20S", "ForwardTo": ""}}]
    rules = [
        rule("s", FilterType="Correlation", CorrelationFilter={"Label": "x"}),
        rule("t", **GOOD_RULE["Properties"]),
    ]
    with Namespace(path, config=config(queues=queues, topics=[topic({"Name": "all", "Rules": rules})])) as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        queue = admin.get_queue("a")
        assert (queue.name, queue.lock_duration, queue.forward_to) == ("a", timedelta(seconds=20), None)
        assert [(found.name, found.filter) for found in admin.list_rules("news", "all")] == [
            ("s", CorrelationRuleFilter(label="x", properties={})),
            ("t", SqlRuleFilter("a = 1", {})),
        ]


@pytest.mark.parametrize("key", ["EnablePartitioning", "RequiresDuplicateDetection", "RequiresSession"])
def test_options_fixed_at_creation_cannot_be_changed(tmp_path: Path, key: str) -> None:
    """A file with another value is rejected before any change; the error names the key and the remedy (B-008)."""
    path = tmp_path / "bus"
    Namespace(path, config=config(queues=[{"Name": "orders"}])).close()
    queues = [{"Name": "new"}, {"Name": "orders", "Properties": {key: True}}]
    with pytest.raises(InvalidOperationError, match=r"Queues\[1\].*orders exists with .*=False.*change the file"):
        Namespace(path, config=config(queues=queues))
    with Namespace(path) as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        with pytest.raises(MessagingEntityNotFoundError):
            admin.get_queue("new")


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("partitions", [1, 2])
def test_premium_namespace_decides_about_partitions(tmp_path: Path, partitions: int, asked: bool) -> None:
    """The file's setting has no effect in a premium namespace, at creation and at later opens (B-005, B-010)."""
    declared = config(queues=[{"Name": "orders", "Properties": {"EnablePartitioning": asked}}])
    for _ in range(2):
        with Namespace(tmp_path / "bus", tier="premium", partitions=partitions, config=declared) as namespace:
            queue = ServiceBusAdministrationClient(namespace).get_queue("orders")
            assert queue.enable_partitioning is (partitions > 1)


def test_owner_of_some_partitions_opens_existing_entities(tmp_path: Path) -> None:
    """A file that adds nothing opens; one that adds an entity is rejected, and the partitions are free again."""
    path = tmp_path / "bus"
    declared = config(queues=[{"Name": "orders", "Properties": {"EnablePartitioning": True}}])
    Namespace(path, config=declared).close()
    with Namespace(path, config=declared, partitions_owned=[1]) as namespace:
        assert len(list(ServiceBusAdministrationClient(namespace).list_queues())) == 1
    with pytest.raises(PartitionUnavailableError, match=r"Queues\[0\]: "):
        Namespace(path, config=config(queues=[{"Name": "new"}]), partitions_owned=[1])
    with Namespace(path) as namespace:
        assert [queue.name for queue in ServiceBusAdministrationClient(namespace).list_queues()] == ["orders"]


def test_topic_of_the_name_of_a_queue(tmp_path: Path) -> None:
    """An entity of another kind has the name already (B-016)."""
    path = tmp_path / "bus"
    Namespace(path, config=config(queues=[{"Name": "news"}])).close()
    with pytest.raises(ServiceBusError, match=r"Topics\[0\]: "):
        Namespace(path, config=config(topics=[topic()]))
