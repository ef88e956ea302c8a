# SPDX-License-Identifier: Apache-2.0
"""The unmodified administration client of azure-servicebus over https (B-456 … B-465).

Its type here is `Any`: its annotations allow None where a server always returns a value.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus.management import (
    AuthorizationRule,
    CorrelationRuleFilter,
    FalseRuleFilter,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient
    from oxbus.management import ServiceBusAdministrationClient

NEVER = timedelta(days=10675199, seconds=10085, microseconds=477581)


def refused(status: int, call: Callable[[], object]) -> str:
    """The text of an error with that status."""
    with pytest.raises(HttpResponseError) as caught:
        call()
    assert caught.value.status_code == status
    return str(caught.value)


def test_queue_has_the_options_it_was_created_with(sdk: Any, admin: ServiceBusAdministrationClient, tier: str) -> None:
    """B-456, B-460, B-461: every option, over the wire and in process."""
    sdk.create_queue("target")
    options: dict[str, Any] = {
        "auto_delete_on_idle": timedelta(days=1, hours=2),
        "dead_lettering_on_message_expiration": True,
        "default_message_time_to_live": timedelta(seconds=90, milliseconds=500),
        "duplicate_detection_history_time_window": timedelta(minutes=5),
        "enable_batched_operations": False,
        "enable_express": False,
        # In Premium the namespace decides about partitioning, and only there messages may be larger.
        "enable_partitioning": tier == "standard",
        "lock_duration": timedelta(seconds=45),
        "max_delivery_count": 7,
        "max_size_in_megabytes": 2048,
        "max_message_size_in_kilobytes": 128 if tier == "standard" else 2048,
        "requires_duplicate_detection": True,
        "requires_session": False,
        "user_metadata": "<a> & 'b' \"ü\"",
    }
    for shown in (sdk.create_queue("a/Orders", **options), sdk.get_queue("A/orders")):
        assert {name: getattr(shown, name) for name in options} == options
        assert (shown.status, shown.availability_status) == ("Active", "Available")
    inside = admin.get_queue("a/orders")
    assert {name: getattr(inside, name) for name in options} == options
    sdk.create_queue("forwards", forward_to="target", forward_dead_lettered_messages_to="target")
    assert sdk.get_queue("forwards").forward_to == f"{sdk._endpoint.replace('https', 'sb')}/target"
    assert admin.get_queue("forwards").forward_to == "target"


def test_defaults_are_those_in_process(sdk: Any) -> None:
    """B-022, B-460: an absent option means the default; the longest duration of .NET means never."""
    queue = sdk.create_queue("orders")
    assert (queue.lock_duration, queue.max_delivery_count) == (timedelta(minutes=1), 10)
    assert (queue.default_message_time_to_live, queue.auto_delete_on_idle) == (NEVER, NEVER)
    assert (queue.enable_partitioning, queue.max_size_in_megabytes, queue.user_metadata) == (False, 1024, "")


def test_queue_is_changed_and_deleted(sdk: Any) -> None:
    """B-456: with If-Match; forwarding can be set and cleared; DELETE answers 200."""
    sdk.create_queue("target")
    queue = sdk.create_queue("orders", forward_to="target", default_message_time_to_live="PT1H")
    queue.forward_to = None
    queue.max_delivery_count = 3
    queue.status = "SendDisabled"
    sdk.update_queue(queue)
    changed = sdk.get_queue("orders")
    assert (changed.forward_to, changed.max_delivery_count, changed.status) == (None, 3, "SendDisabled")
    assert changed.default_message_time_to_live == timedelta(hours=1), "the update repeats it"
    sdk.update_queue(changed, auto_delete_on_idle=timedelta(minutes=6))
    assert sdk.get_queue("orders").auto_delete_on_idle == timedelta(minutes=6)
    sdk.delete_queue("ORDERS")
    with pytest.raises(ResourceNotFoundError):
        sdk.get_queue("orders")


def test_topic_subscription_and_rules(sdk: Any, admin: ServiceBusAdministrationClient, tier: str) -> None:
    """B-456, B-457, B-462: created, read, changed, listed, deleted."""
    topic = sdk.create_topic("news", support_ordering=False, enable_partitioning=True, user_metadata="m")
    assert (topic.enable_partitioning, topic.support_ordering, topic.user_metadata) == (tier == "standard", False, "m")
    topic.max_size_in_megabytes = 2048
    sdk.update_topic(topic)
    assert sdk.get_topic("news").max_size_in_megabytes == 2048
    subscription = sdk.create_subscription(
        "news", "All", lock_duration="PT30S", dead_lettering_on_filter_evaluation_exceptions=False
    )
    assert (subscription.name, subscription.lock_duration) == ("All", timedelta(seconds=30))
    assert subscription.dead_lettering_on_filter_evaluation_exceptions is False
    subscription.max_delivery_count = 2
    sdk.update_subscription("news", subscription)
    assert sdk.get_subscription("news", "all").max_delivery_count == 2
    assert [(rule.name, type(rule.filter)) for rule in sdk.list_rules("news", "all")] == [("$Default", TrueRuleFilter)]
    sql = sdk.create_rule(
        "news",
        "all",
        "sql",
        filter=SqlRuleFilter("a < @x AND b = @y", parameters={"@x": 5, "@y": "<&>"}),
        action=SqlRuleAction("SET c = @z", parameters={"@z": 2**40}),
    )
    assert (sql.filter.sql_expression, sql.filter.parameters) == ("a < @x AND b = @y", {"@x": 5, "@y": "<&>"})
    assert (sql.action.sql_expression, sql.action.parameters) == ("SET c = @z", {"@z": 2**40})
    properties: dict[str, Any] = {"i": 1, "s": "x", "d": 1.5, "b": True, "t": datetime(2020, 1, 1, tzinfo=UTC)}
    properties["span"] = timedelta(days=1, hours=2, minutes=3, microseconds=4)
    sdk.create_rule("news", "all", "equal", filter=CorrelationRuleFilter(label="x", to="y", properties=properties))
    equal = sdk.get_rule("news", "all", "equal").filter
    assert (equal.label, equal.to, equal.message_id, dict(equal.properties)) == ("x", "y", None, properties)
    inside = admin.get_rule("news", "all", "equal").filter
    assert inside.properties == properties  # type: ignore[union-attr]
    sdk.create_rule("news", "all", "none", filter=FalseRuleFilter())
    rule = sdk.get_rule("news", "all", "none")
    assert isinstance(rule.filter, FalseRuleFilter)
    rule.filter = TrueRuleFilter()
    sdk.update_rule("news", "all", rule)
    assert isinstance(sdk.get_rule("news", "all", "none").filter, TrueRuleFilter)
    assert [found.name for found in sdk.list_rules("news", "all")] == ["$Default", "equal", "none", "sql"]
    sdk.delete_rule("news", "all", "$Default")
    sdk.delete_subscription("news", "all")
    assert list(sdk.list_subscriptions("news")) == []
    sdk.delete_topic("news")
    assert list(sdk.list_topics()) == []


def test_rule_of_the_suite_of_the_sdk(sdk: Any, admin: ServiceBusAdministrationClient) -> None:
    """B-374, B-462: `test_mgmt_rule_create`; a time without a zone is returned without, and in process it is in UTC."""
    sdk.create_topic("news")
    sdk.create_subscription("news", "all")
    properties: dict[str, Any] = {
        "key_string": "str1",
        "key_int": 2,
        "key_long": 2**31 + 2,
        "key_bool": False,
        "key_datetime": datetime(2020, 7, 5, 11, 12, 13),  # noqa: DTZ001 -- the test needs a naive time
        "key_duration": timedelta(days=1, hours=2, minutes=3),
    }
    at = {"@at": properties["key_datetime"], "@span": -timedelta(seconds=1.5)}
    sdk.create_rule(
        "news",
        "all",
        "r",
        filter=CorrelationRuleFilter(correlation_id="testcid", properties=properties),
        action=SqlRuleAction("SET Priority = @at", parameters=at),
    )
    rule = sdk.get_rule("news", "all", "r")
    assert dict(rule.filter.properties) == properties
    assert dict(rule.action.parameters) == at
    inside: Any = admin.get_rule("news", "all", "r")
    assert inside.filter.properties == properties | {"key_datetime": datetime(2020, 7, 5, 11, 12, 13, tzinfo=UTC)}
    sdk.update_rule("news", "all", rule)
    assert dict(sdk.get_rule("news", "all", "r").filter.properties) == properties


def test_lists_are_returned_in_pages(sdk: Any, admin: ServiceBusAdministrationClient) -> None:
    """B-457: a hundred at a time, each once, names in their original letter case."""
    names = [f"Queue-{number:03}" for number in range(201)]
    for name in names:
        admin.create_queue(name)
    assert [queue.name for queue in sdk.list_queues()] == names
    pages = sdk.list_queues_runtime_properties(max_page_size=60).by_page()
    assert [len(list(page)) for page in pages] == [60, 60, 60, 21]
    # ATOM_PAGE_MAX: a request for more gets at most this many.
    pages = sdk.list_queues_runtime_properties(max_page_size=100_000).by_page()
    assert [len(list(page)) for page in pages] == [100, 100, 1]
    assert list(sdk.list_topics()) == []


def test_runtime_properties_count(
    sdk: Any, admin: ServiceBusAdministrationClient, client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    """B-389 … B-394, B-458: as in process, also on partitioned entities."""
    from oxbus import ServiceBusMessage  # noqa: PLC0415 -- the SDK has a class of that name

    queue = make_queue()
    with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        for number in range(4):
            sender.send_messages(ServiceBusMessage(bytes(100), partition_key=str(number)))
        sender.schedule_messages(ServiceBusMessage("later"), datetime(2130, 1, 1, tzinfo=UTC))
        receiver.dead_letter_message(receiver.receive_messages(max_wait_time=5)[0])
    shown, inside = sdk.get_queue_runtime_properties(queue), admin.get_queue_runtime_properties(queue)
    for name in (
        "active_message_count",
        "dead_letter_message_count",
        "scheduled_message_count",
        "transfer_message_count",
        "transfer_dead_letter_message_count",
        "total_message_count",
        "size_in_bytes",
        "created_at_utc",
        "updated_at_utc",
        "accessed_at_utc",
    ):
        assert getattr(shown, name) == getattr(inside, name), name
    assert (shown.active_message_count, shown.total_message_count) == (3, 5)
    admin.create_topic("news")
    admin.create_subscription("news", "all")
    with client.get_topic_sender("news") as sender:
        sender.send_messages(ServiceBusMessage("x"))
    topic = sdk.get_topic_runtime_properties("news")
    assert (topic.subscription_count, topic.scheduled_message_count) == (1, 0)
    assert topic.size_in_bytes == admin.get_topic_runtime_properties("news").size_in_bytes > 0
    assert sdk.get_subscription_runtime_properties("news", "all").active_message_count == 1
    assert [it.name for it in sdk.list_subscriptions_runtime_properties("news")] == ["all"]


def test_unused_entity_was_accessed_in_the_year_one(sdk: Any) -> None:
    """B-388: the SDK shows the year one for an entity that was never used."""
    sdk.create_queue("orders")
    assert sdk.get_queue_runtime_properties("orders").accessed_at_utc.year == 1


def test_namespace_has_its_properties(sdk: Any, tier: str) -> None:
    """B-457: `$namespaceinfo`, with the tier."""
    found = sdk.get_namespace_properties()
    assert (bool(found.name), found.namespace_type, found.messaging_sku) == (True, "Messaging", tier.capitalize())
    assert found.created_at_utc <= found.modified_at_utc


def test_authorization_rules_are_returned(sdk: Any) -> None:
    """B-046: with their keys, on queues and topics."""
    rule = AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=["Send", "Listen"],
        key_name="app",
        primary_key="a key of the tests",
        secondary_key="another key of the tests",
    )
    for made in (
        sdk.create_queue("orders", authorization_rules=[rule]),
        sdk.create_topic("news", authorization_rules=[rule]),
    ):
        (shown,) = made.authorization_rules
        assert (shown.key_name, shown.rights, shown.type) == ("app", ["Send", "Listen"], rule.type)
        assert (shown.primary_key, shown.secondary_key) == (rule.primary_key, rule.secondary_key)
        assert shown.created_at_utc == shown.modified_at_utc


def test_refusals(sdk: Any, admin: ServiceBusAdministrationClient) -> None:
    """B-008, B-459, B-463: existing entities, missing ones, invalid options."""
    queue = sdk.create_queue("orders", enable_partitioning=True)
    sdk.create_topic("news")
    sdk.create_subscription("news", "all")
    with pytest.raises(ResourceExistsError):
        sdk.create_queue("ORDERS")
    with pytest.raises(ResourceExistsError):
        sdk.create_subscription("news", "ALL")
    with pytest.raises(ResourceExistsError):
        sdk.create_rule("news", "all", "$Default")
    for missing in (
        lambda: sdk.get_queue("none"),
        lambda: sdk.get_topic("none"),
        lambda: sdk.get_subscription("news", "none"),
        lambda: sdk.get_rule("news", "all", "none"),
        lambda: sdk.delete_queue("none"),
        lambda: list(sdk.list_subscriptions("none")),
        lambda: list(sdk.list_rules("news", "none")),
        lambda: sdk.update_queue({**dict(queue), "name": "none"}),
    ):
        with pytest.raises(ResourceNotFoundError):
            missing()
    for name in ("enable_partitioning", "requires_session", "requires_duplicate_detection"):
        assert "SubCode=40000" in refused(400, partial(sdk.update_queue, queue, **{name: not queue[name]}))
    assert "lock_duration" in refused(400, lambda: sdk.create_queue("q", lock_duration=timedelta(days=1)))
    assert "destination" in refused(400, lambda: sdk.create_queue("q", forward_to="none"))
    refused(400, lambda: sdk.create_queue("has space"))
    refused(400, lambda: sdk.create_rule("news", "all", "r", filter=SqlRuleFilter("a =")))
    refused(400, lambda: sdk.create_rule("news", "all", ""))
    refused(400, lambda: sdk.create_rule("news", "all", "r", filter=SqlRuleFilter("a=@x", {"@x": timedelta.max})))
    assert [found.name for found in admin.list_queues()] == ["orders"]
    assert [rule.name for rule in admin.list_rules("news", "all")] == ["$Default"]
