# SPDX-License-Identifier: Apache-2.0
"""Managing rules (B-016, B-021, B-042, B-043, B-345, B-355 to B-360)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from oxbus.exceptions import (
    InvalidOperationError,
    MessagingEntityAlreadyExistsError,
    MessagingEntityNotFoundError,
    ServiceBusError,
)
from oxbus.management import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    RuleProperties,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusReceivedMessage
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

FILTERS: list[Any] = [
    TrueRuleFilter(),
    FalseRuleFilter(),
    SqlRuleFilter("amount > 100 AND sys.Label = 'order'", {}),
    SqlRuleFilter(
        "a = @text OR b = @int OR c = @float OR d = @bool OR e = @time OR f = @id",
        {
            "@text": "schlüssel 鍵",
            "@int": -(2**63),
            "@float": 2.5,
            "@bool": True,
            "@time": datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC),
            "@id": UUID("12345678-1234-5678-1234-567812345678"),
            "@span": timedelta(days=-1, microseconds=1),
        },
    ),
    CorrelationRuleFilter(correlation_id="c", properties={}),
    CorrelationRuleFilter(
        correlation_id="c",
        message_id="m",
        to="t",
        reply_to="r",
        label="l",
        session_id="s",
        reply_to_session_id="rs",
        content_type="ct",
        properties={"region": "EU", "size": 3, "ratio": 0.5, "big": False},
    ),
    CorrelationRuleFilter(properties={"region": "EU"}),
]

UNPARSABLE = [
    "",
    " ",
    "a >",
    "a = 'open",
    "(a = 1",
    "a = 1)",
    "a == 1",
    "a = 1 AND",
    "AND a = 1",
    "a BETWEEN 1 AND 2",
    "a LIKE",
    "a LIKE 'x' ESCAPE",
    "a LIKE 'x' ESCAPE 'ab'",
    "a IN ()",
    "a IN (1,",
    "EXISTS()",
    "EXISTS(1)",
    "nofunction(a) = 1",
    "newid(1) = 1",
    "p() = 1",
    "other.name = 1",
    "[a = 1",
    '"a = 1',
    "a = 1; b = 2",
    "a = #",
    "1..2 = 3",
    "a IS",
    "a IS 1",
    "SELECT 1",
    "a + = 1",
    "@p =",
]

BAD_ACTIONS = [
    "",
    "SET",
    "SET a",
    "SET a =",
    "SET = 1",
    "REMOVE",
    "REMOVE 1",
    "SET a = 1 SET b = 2 AND",
    "DROP a",
    "a = 1",
    "SET a = 'open",
    "SET a = (1",
]


def rules(admin: ServiceBusAdministrationClient, subscription: str = "all") -> list[str]:
    """Names of the rules of a subscription of `news`, as listed."""
    return [rule.name for rule in admin.list_rules("news", subscription)]


def values_of(filter_: Any) -> dict[str, Any]:
    """The parameters or properties of a filter."""
    return (filter_.parameters if isinstance(filter_, SqlRuleFilter) else filter_.properties) or {}


@pytest.fixture
def subscription(topic: str, subscribe: Callable[..., str]) -> str:
    """A subscription of `news` with `$Default`."""
    assert topic == "news"
    return subscribe("all")


def test_subscription_starts_with_the_default_rule(
    admin: ServiceBusAdministrationClient, subscription: str, clock: ManualClock
) -> None:
    """A subscription created without a rule gets `$Default`: true, no action (B-021, B-345)."""
    (rule,) = admin.list_rules("news", subscription)
    assert (rule.name, rule.filter, rule.action) == ("$Default", TrueRuleFilter(), None)
    assert rule.created_at_utc == clock.now()
    assert admin.get_rule("news", subscription, "$default").name == "$Default"


def test_rule_given_at_creation_replaces_the_default(
    admin: ServiceBusAdministrationClient, topic: str, subscribe: Callable[..., str]
) -> None:
    """Creating a subscription with a rule leaves out `$Default` (B-345)."""
    assert topic == "news"
    subscribe("all", filter=SqlRuleFilter("a = 1"), action=SqlRuleAction("SET b = 2"))
    (rule,) = admin.list_rules("news", "all")
    assert (rule.name, rule["filter"].sql_expression, rule["action"].sql_expression) == ("first", "a = 1", "SET b = 2")


def test_rule_added_later_leaves_the_default(admin: ServiceBusAdministrationClient, subscription: str) -> None:
    """Adding a rule keeps the default, which can be deleted like any other (B-345)."""
    admin.create_rule("news", subscription, "second", filter=FalseRuleFilter())
    assert rules(admin) == ["$Default", "second"]
    admin.delete_rule("news", subscription, "$DEFAULT")
    assert rules(admin) == ["second"]
    admin.create_rule("news", subscription, "$Default")
    assert rules(admin) == ["$Default", "second"]


@pytest.mark.parametrize("filter_", FILTERS, ids=repr)
def test_filter_comes_back_as_it_was_given(
    admin: ServiceBusAdministrationClient, subscription: str, clock: ManualClock, filter_: Any
) -> None:
    """A rule keeps its kind, fields, parameters with types, and action (B-355, B-356, B-374)."""
    action = SqlRuleAction("SET a = @a; REMOVE b", {"@a": 5})
    clock.advance(3)
    created = admin.create_rule("news", subscription, "Second", filter=filter_, action=action)
    listed = {rule.name: rule for rule in admin.list_rules("news", subscription)}["Second"]
    for rule in (created, admin.get_rule("news", subscription, "second"), listed):
        assert isinstance(rule, RuleProperties)
        assert (rule.name, rule.filter, rule.action) == ("Second", filter_, action)
        assert type(rule.filter) is type(filter_)
        assert rule.created_at_utc == clock.now()
        given, shown = values_of(filter_), values_of(rule.filter)
        assert [type(value) for value in shown.values()] == [type(value) for value in given.values()]


def test_default_of_create_rule_is_true_without_action(
    admin: ServiceBusAdministrationClient, subscription: str
) -> None:
    """`create_rule` without arguments selects everything, as in the SDK (B-355)."""
    rule = admin.create_rule("news", subscription, "second")
    assert (rule.filter, rule.action) == (TrueRuleFilter(), None)


def test_update_replaces_filter_and_action(admin: ServiceBusAdministrationClient, subscription: str) -> None:
    """An update replaces the whole rule, given as properties or as a mapping (B-351)."""
    rule = admin.create_rule(
        "news", subscription, "second", filter=SqlRuleFilter("a = 1"), action=SqlRuleAction("SET b = 2")
    )
    rule.filter, rule.action = CorrelationRuleFilter(label="l"), None
    admin.update_rule("news", subscription, rule)
    shown = admin.get_rule("news", subscription, "second")
    assert (shown.filter, shown.action) == (CorrelationRuleFilter(label="l", properties={}), None)
    admin.update_rule("news", subscription, {**shown, "filter": None})
    assert admin.get_rule("news", subscription, "second").filter == TrueRuleFilter()
    with pytest.raises(TypeError, match="action"):
        admin.update_rule("news", subscription, {"name": "second", "filter": None, "created_at_utc": None})
    assert rules(admin) == ["$Default", "second"]


def test_name_of_a_rule_is_unique_in_its_subscription(
    admin: ServiceBusAdministrationClient, subscription: str, subscribe: Callable[..., str]
) -> None:
    """A second rule of the same name in any case is refused, and the first one stays (B-018, B-360)."""
    admin.create_rule("news", subscription, "Second", filter=SqlRuleFilter("a = 1"))
    with pytest.raises(MessagingEntityAlreadyExistsError) as refusal:
        admin.create_rule("news", subscription, "sECOND", filter=SqlRuleFilter("a = 2"))
    assert refusal.value.condition == "com.microsoft:entity-already-exists"
    assert admin.get_rule("news", subscription, "second")["filter"].sql_expression == "a = 1"
    admin.create_rule("news", subscribe("other"), "second")
    assert rules(admin, "other") == ["$Default", "second"]


def test_unknown_rules_are_not_found(admin: ServiceBusAdministrationClient, subscription: str) -> None:
    """Every call on an unknown rule, subscription or topic is a not-found error (B-360)."""
    rule = admin.create_rule("news", subscription, "gone")
    admin.delete_rule("news", subscription, "gone")
    for call in (
        lambda: admin.get_rule("news", subscription, "gone"),
        lambda: admin.update_rule("news", subscription, rule),
        lambda: admin.delete_rule("news", subscription, "gone"),
        lambda: admin.create_rule("news", "gone", "r"),
        lambda: admin.create_rule("gone", "all", "r"),
        lambda: list(admin.list_rules("news", "gone")),
        lambda: list(admin.list_rules("gone", "all")),
    ):
        with pytest.raises(MessagingEntityNotFoundError, match="gone") as refusal:
            call()
        assert refusal.value.condition == "amqp:not-found"


@pytest.mark.parametrize("name", ["", "a/b", "a\\b", "x" * 51])
def test_bad_rule_names(admin: ServiceBusAdministrationClient, subscription: str, name: str) -> None:
    """Names over 50 characters or with slashes are refused and create no rule (B-016, B-017)."""
    with pytest.raises((ServiceBusError, ValueError)):
        admin.create_rule("news", subscription, name)
    assert rules(admin) == ["$Default"]
    assert admin.create_rule("news", subscription, "x" * 50).name == "x" * 50


@pytest.mark.parametrize("name", [None, 1, b"q"], ids=repr)
def test_names_must_be_text(admin: ServiceBusAdministrationClient, subscription: str, name: Any) -> None:
    """A name that is not text is a TypeError as in the SDK (B-017)."""
    for call in (
        lambda: admin.create_rule("news", subscription, name),
        lambda: admin.get_rule("news", subscription, name),
        lambda: admin.delete_rule("news", subscription, name),
        lambda: admin.list_rules("news", name),
        lambda: admin.create_rule(name, subscription, "r"),
    ):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("expression", UNPARSABLE)
def test_filter_that_does_not_parse_is_refused(
    admin: ServiceBusAdministrationClient, subscription: str, expression: str
) -> None:
    """It is refused at creation and update, of a rule or a subscription, and nothing changes (B-359)."""
    bad = RuleProperties("bad", filter=SqlRuleFilter(expression), action=None, created_at_utc=None)
    with pytest.raises((ServiceBusError, ValueError)):
        admin.create_rule("news", subscription, "bad", filter=SqlRuleFilter(expression))
    with pytest.raises((ServiceBusError, ValueError)):
        admin.create_subscription("news", "bad", rule=bad)
    rule = admin.get_rule("news", subscription, "$Default")
    rule.filter = SqlRuleFilter(expression)
    with pytest.raises((ServiceBusError, ValueError)):
        admin.update_rule("news", subscription, rule)
    assert rules(admin) == ["$Default"]
    assert admin.get_rule("news", subscription, "$Default").filter == TrueRuleFilter()
    assert [known.name for known in admin.list_subscriptions("news")] == ["all"]


@pytest.mark.parametrize("expression", BAD_ACTIONS)
def test_action_that_does_not_parse_is_refused(
    admin: ServiceBusAdministrationClient, subscription: str, expression: str
) -> None:
    """It is refused at creation and update, and nothing changes (B-359)."""
    with pytest.raises((ServiceBusError, ValueError)):
        admin.create_rule("news", subscription, "bad", action=SqlRuleAction(expression))
    rule = admin.get_rule("news", subscription, "$Default")
    rule.action = SqlRuleAction(expression)
    with pytest.raises((ServiceBusError, ValueError)):
        admin.update_rule("news", subscription, rule)
    assert rules(admin) == ["$Default"]
    assert admin.get_rule("news", subscription, "$Default").action is None


def test_refusal_shows_where_the_expression_is_wrong(admin: ServiceBusAdministrationClient, subscription: str) -> None:
    """An expression that does not parse is an invalid operation that shows the wrong part (B-359)."""
    with pytest.raises(InvalidOperationError, match="BETWEEN"):
        admin.create_rule("news", subscription, "bad", filter=SqlRuleFilter("amount BETWEEN 1 AND 2"))


@pytest.mark.parametrize("empty", [CorrelationRuleFilter(), CorrelationRuleFilter(properties={})], ids=repr)
def test_empty_correlation_filter_is_refused(
    admin: ServiceBusAdministrationClient, subscription: str, empty: CorrelationRuleFilter
) -> None:
    """A correlation filter needs at least one field (B-356)."""
    with pytest.raises((ServiceBusError, ValueError)):
        admin.create_rule("news", subscription, "bad", filter=empty)
    assert rules(admin) == ["$Default"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"filter": "a = 1"}, "SqlRuleFilter"),
        ({"filter": 1}, "filter"),
        ({"filter": SqlRuleFilter()}, "sql_expression"),
        ({"filter": SqlRuleFilter(7)}, "sql_expression"),  # type: ignore[arg-type]
        ({"filter": SqlRuleFilter("a = @p", {"@p": b"bytes"})}, "@p"),  # type: ignore[dict-item]
        ({"filter": SqlRuleFilter("a = @p", {"@p": [1]})}, "@p"),  # type: ignore[dict-item]
        ({"filter": SqlRuleFilter("a = @p", {1: 1})}, "parameters"),  # type: ignore[dict-item]
        ({"filter": CorrelationRuleFilter(label=1)}, "label"),  # type: ignore[arg-type]
        ({"filter": CorrelationRuleFilter(properties={"a": object()})}, "properties"),  # type: ignore[dict-item]
        ({"action": "SET a = 1"}, "SqlRuleAction"),
        ({"action": SqlRuleAction()}, "sql_expression"),
        ({"action": SqlRuleAction("SET a = @p", {"@p": {}})}, "@p"),  # type: ignore[dict-item]
    ],
)
def test_parts_of_the_wrong_type_are_refused(
    admin: ServiceBusAdministrationClient, subscription: str, options: dict[str, Any], match: str
) -> None:
    """A TypeError names the part and its expected type; no rule is created (B-359)."""
    with pytest.raises(TypeError, match=match):
        admin.create_rule("news", subscription, "bad", **options)
    assert rules(admin) == ["$Default"]


def test_length_of_expressions_is_limited(admin: ServiceBusAdministrationClient, subscription: str) -> None:
    """A filter or an action has up to 1,024 characters (B-043)."""
    longest = "a = '" + "x" * (1024 - 6) + "'"
    assert len(longest) == 1024
    admin.create_rule("news", subscription, "long-filter", filter=SqlRuleFilter(longest))
    longest_action = "SET a = '" + "é" * (1024 - 10) + "'"
    assert len(longest_action) == 1024
    admin.create_rule("news", subscription, "long-action", action=SqlRuleAction(longest_action))
    for options in ({"filter": SqlRuleFilter(longest + " ")}, {"action": SqlRuleAction(longest_action + " ")}):
        with pytest.raises((ServiceBusError, ValueError), match=r"1,?024"):
            admin.create_rule("news", subscription, "bad", **options)
    assert rules(admin) == ["$Default", "long-action", "long-filter"]


def test_number_of_statements_of_an_action_is_limited(admin: ServiceBusAdministrationClient, subscription: str) -> None:
    """An action has up to 32 statements (B-043)."""
    admin.create_rule("news", subscription, "many", action=SqlRuleAction(";".join(["SET a = 1"] * 32)))
    with pytest.raises((ServiceBusError, ValueError), match="32"):
        admin.create_rule("news", subscription, "bad", action=SqlRuleAction(";".join(["SET a = 1"] * 33)))
    assert rules(admin) == ["$Default", "many"]


def test_counts_of_filters_follow_the_rules(
    admin: ServiceBusAdministrationClient, subscription: str, subscribe: Callable[..., str]
) -> None:
    """A topic counts the SQL and the correlation filters of all its subscriptions (B-042)."""
    admin.create_rule("news", subscription, "sql", filter=SqlRuleFilter("a = 1"))
    admin.create_rule("news", subscription, "correlation", filter=CorrelationRuleFilter(label="l"))
    subscribe("other", filter=CorrelationRuleFilter(label="l"))
    runtime = admin.get_topic_runtime_properties("news")
    assert (runtime.sql_filter_count, runtime.correlation_filter_count) == (2, 2)
    admin.delete_subscription("news", "other")
    runtime = admin.get_topic_runtime_properties("news")
    assert (runtime.sql_filter_count, runtime.correlation_filter_count) == (2, 1)


def test_refused_rule_at_creation_leaves_nothing_to_receive(
    admin: ServiceBusAdministrationClient,
    subscription: str,
    publish: Callable[..., None],
    take_copies: Callable[..., list[ServiceBusReceivedMessage]],
) -> None:
    """After a refused rule the subscription works as before (B-359)."""
    with pytest.raises((ServiceBusError, ValueError)):
        admin.create_rule("news", subscription, "bad", filter=SqlRuleFilter("a ="))
    publish("x")
    assert [str(copy) for copy in take_copies()] == ["x"]


def test_lists_come_by_name_and_in_pages(admin: ServiceBusAdministrationClient, subscription: str) -> None:
    """`list_rules` returns an iterator with `by_page` (B-457)."""
    for number in range(120):
        admin.create_rule("news", subscription, f"r-{number:03}", filter=FalseRuleFilter())
    expected = ["$Default", *(f"r-{number:03}" for number in range(120))]
    assert rules(admin) == expected
    assert [len(list(page)) for page in admin.list_rules("news", subscription).by_page()] == [100, 21]
