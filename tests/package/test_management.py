# SPDX-License-Identifier: Apache-2.0
"""The models and durations of the administration client; their effect on a queue is in contract/test_entity.py."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import isodate
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oxbus import Namespace
from oxbus._paging import ITEMS_PER_PAGE, ItemPaged
from oxbus.management import (
    AccessRights,
    AuthorizationRule,
    MessageCountDetails,
    NamespaceType,
    QueueProperties,
    ServiceBusAdministrationClient,
    SqlRuleFilter,
)
from oxbus.management._durations import NEVER, NEVER_MS, to_milliseconds, to_timedelta


@pytest.fixture
def admin(oxbus_namespace: Namespace) -> ServiceBusAdministrationClient:
    """An administration client of an empty namespace."""
    return ServiceBusAdministrationClient(oxbus_namespace)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=100_000)))
def test_iso_text_and_timedelta_mean_the_same(duration: timedelta) -> None:
    """All ISO 8601 text of the SDK's library is parsed to the millisecond."""
    duration -= duration % timedelta(milliseconds=1)
    text = isodate.duration_isoformat(duration)
    assert to_milliseconds("d", text) == to_milliseconds("d", duration) == duration // timedelta(milliseconds=1)


@pytest.mark.parametrize("never", [timedelta.max, NEVER, "P10675199DT2H48M5.4775807S", "P999999999999D"])
def test_longest_duration_has_no_end(never: timedelta | str) -> None:
    """The service's maximum and longer durations mean "never" and are shown as the service's maximum (B-022)."""
    assert to_milliseconds("d", never) == NEVER_MS
    assert to_timedelta(NEVER_MS) == NEVER == isodate.parse_duration("P10675199DT2H48M5.4775807S")


@pytest.mark.parametrize("text", ["", "P", "PT", "P1", "1M", "PT1", "P1Y", "P1M", "-PT1S", "P1DT", "PT1H1D", "PT٣S"])
def test_malformed_duration_is_a_value_error(text: str) -> None:
    """Years and months have no fixed length, and an error is better than a guess."""
    with pytest.raises(ValueError, match="lock_duration"):
        to_milliseconds("lock_duration", text)


@pytest.mark.parametrize("seconds", [60, 60.0, b"PT1M"])
def test_duration_of_another_type_is_a_type_error(admin: ServiceBusAdministrationClient, seconds: object) -> None:
    """A bare number has no unit."""
    with pytest.raises(TypeError, match="lock_duration"):
        admin.create_queue("orders", lock_duration=seconds)  # type: ignore[arg-type]
    assert list(admin.list_queues()) == []


def test_properties_read_and_write_like_a_mapping(admin: ServiceBusAdministrationClient) -> None:
    """Attributes and items are the same, and unknown names are rejected."""
    queue = admin.create_queue("orders", lock_duration="PT30S")
    assert queue["lock_duration"] == queue.lock_duration == queue.get("lock_duration") == timedelta(seconds=30)
    assert len(queue) == len(list(queue.keys())) == len(list(queue.values())) == len(dict(queue.items()))
    assert queue.has_key("status")
    queue["max_delivery_count"] = 3
    queue.update({"user_metadata": "mine"})
    assert (queue.max_delivery_count, queue.user_metadata) == (3, "mine")
    del queue["user_metadata"]
    assert queue.user_metadata is None
    with pytest.raises(KeyError):
        queue["max_delivery_counts"] = 3
    with pytest.raises(KeyError):
        queue.update({"max_delivery_count": 4, "unknown": 1})
    assert queue.max_delivery_count == 3
    with pytest.raises(AttributeError):
        queue.max_delivery_counts = 3  # type: ignore[attr-defined]


def test_update_takes_properties_or_a_whole_mapping(admin: ServiceBusAdministrationClient) -> None:
    """The result of `get_queue` is accepted, changed or not; a mapping that lacks an option is rejected."""
    admin.create_queue("orders")
    before = admin.get_queue("orders")
    admin.update_queue(before)
    assert admin.get_queue("orders") == before
    admin.update_queue({**before, "max_delivery_count": 7})
    assert admin.get_queue("orders").max_delivery_count == 7
    with pytest.raises(TypeError, match="lock_duration"):
        admin.update_queue({"name": "orders", "max_delivery_count": 8})
    assert admin.get_queue("orders").max_delivery_count == 7
    assert isinstance(before, QueueProperties)


def test_update_takes_changes_as_keywords(admin: ServiceBusAdministrationClient) -> None:
    """They replace the values of the object, which stays as it is; an unknown one is rejected."""
    admin.create_queue("orders", max_delivery_count=3)
    queue = admin.get_queue("orders")
    admin.update_queue(queue, max_delivery_count=7)
    assert (queue.max_delivery_count, admin.get_queue("orders").max_delivery_count) == (3, 7)
    with pytest.raises(TypeError, match="did you mean 'max_delivery_count'"):
        admin.update_queue(queue, max_delivery_counts=8)
    admin.create_topic("news")
    admin.update_topic(admin.get_topic("news"), user_metadata="mine")
    assert admin.get_topic("news").user_metadata == "mine"
    admin.create_subscription("news", "all")
    admin.update_subscription("news", admin.get_subscription("news", "all"), max_delivery_count=4)
    assert admin.get_subscription("news", "all").max_delivery_count == 4
    admin.update_rule("news", "all", admin.get_rule("news", "all", "$Default"), filter=SqlRuleFilter("a = 1"))
    changed: Any = admin.get_rule("news", "all", "$Default").filter
    assert changed.sql_expression == "a = 1"


def test_lists_iterate_by_item_and_by_page() -> None:
    """Pages have up to 100 items (B-457), and a list is fetched on first access."""
    fetched = []

    def fetch() -> list[int]:
        fetched.append(True)
        return list(range(2 * ITEMS_PER_PAGE + 1))

    items = ItemPaged(fetch)
    assert fetched == []
    assert next(items) == 0
    assert sum(1 for _ in items) == 2 * ITEMS_PER_PAGE
    assert [len(list(page)) for page in items.by_page()] == [ITEMS_PER_PAGE, ITEMS_PER_PAGE, 1]
    assert [len(list(page)) for page in items.by_page("150")] == [51]
    with pytest.raises(ValueError, match="continuation_token"):
        items.by_page("-1")


def test_small_models_keep_their_arguments() -> None:
    """The models are plain data classes."""
    rule = AuthorizationRule(key_name="root", rights=[AccessRights.SEND])
    assert (rule.key_name, rule.rights, rule.type) == ("root", [AccessRights.SEND], None)
    assert MessageCountDetails(active_message_count=2).active_message_count == 2


def test_counts_are_available_as_one_value(admin: ServiceBusAdministrationClient) -> None:
    """`message_count_details` is the service's own set of counts."""
    admin.create_queue("orders")
    assert admin.get_queue_runtime_properties("orders").message_count_details == MessageCountDetails(
        active_message_count=0,
        dead_letter_message_count=0,
        scheduled_message_count=0,
        transfer_dead_letter_message_count=0,
        transfer_message_count=0,
    )


def test_namespace_properties_say_what_is_known(admin: ServiceBusAdministrationClient) -> None:
    """A namespace in memory has a name and a kind, and no tier."""
    properties = admin.get_namespace_properties()
    assert (properties.name, properties["namespace_type"]) == ("memory", NamespaceType.MESSAGING)
    assert properties.messaging_sku is None
    named = ServiceBusAdministrationClient.from_connection_string("Endpoint=memory://Parity-Five")
    assert named.get_namespace_properties().name == "parity-five"


def test_closing_the_client_leaves_the_namespace_open(admin: ServiceBusAdministrationClient) -> None:
    """The client has no separate connection to close."""
    with admin:
        admin.create_queue("orders")
    admin.close()
    assert [queue.name for queue in admin.list_queues()] == ["orders"]


def test_client_needs_an_address_or_a_namespace() -> None:
    """A host needs a credential, a namespace has none, and other types are refused."""
    with pytest.raises(TypeError, match="from_connection_string"):
        ServiceBusAdministrationClient("bus.example.net")
    with pytest.raises(TypeError, match="takes no credential"):
        ServiceBusAdministrationClient(Namespace(), ("name", "key"))
    with pytest.raises(TypeError, match=r"oxbus\.Namespace, not int"):
        ServiceBusAdministrationClient(7)  # type: ignore[arg-type]
