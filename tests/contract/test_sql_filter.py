# SPDX-License-Identifier: Apache-2.0
"""The language of filters and actions, as tables (B-352, B-356 to B-358, B-361 to B-381).

Rules work the same in every store, so these tests use one topic in memory; tests/durable/test_reopen_topics.py tests
that a directory keeps rules and copies.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from oxbus.exceptions import ServiceBusError
from oxbus.management import (
    CorrelationRuleFilter,
    RuleProperties,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxbus import ServiceBusReceivedMessage
    from oxbus.testing import ManualClock

SELECTED, NOT_SELECTED, FAILED = "selected", "not selected", "failed"
SOME_ID = UUID("12345678-1234-5678-1234-567812345678")
SOME_TIME = datetime(2026, 3, 1, 11, 30, 0, tzinfo=UTC)

PROPERTIES: dict[str, Any] = {
    "color": "red",
    "Size": 10,
    "price": 2.5,
    "urgent": True,
    "empty": "",
    "nothing": None,
    "percent": "50%",
    "under_score": "a_b",
    "größe": 5,
    "two words": "spaced",
    "brack]et": "b",
    'quo"te': "q",
    "select": "a word of the language",
    "negative": -3,
    "big": 2**53 + 1,
    "id": SOME_ID,
    "at": SOME_TIME,
    "wait": timedelta(hours=1),
    "quote": "it's",
}
SYSTEM: dict[str, Any] = {
    "message_id": "m-1",
    "session_id": "s-1",
    "correlation_id": "c-1",
    "content_type": "application/json",
    "subject": "order",
    "to": "shop",
    "reply_to": "answers",
    "reply_to_session_id": "rs-1",
    "time_to_live": timedelta(hours=1),
}

TRUE: dict[str, list[str]] = {
    "B-355": ["1=1", "1 = 1", " 1=1 ", "NOT 1=0"],
    "B-361": [
        "color = 'red'",
        "color <> 'blue'",
        "color != 'blue'",
        "Size > 9",
        "Size >= 10",
        "Size < 11",
        "Size <= 10",
        "NOT color = 'blue'",
        "NOT NOT color = 'red'",
        "color = 'red' AND Size = 10",
        "color = 'blue' OR Size = 10",
        "(color = 'blue' OR Size = 10) AND price = 2.5",
        "color = 'blue' AND Size = 1 OR price = 2.5",
        "price = 2.5 OR color = 'blue' AND Size = 1",
        "NOT (color = 'blue' AND Size = 10)",
        "NOT color = 'blue' AND Size = 10",
        "color IS NOT NULL",
        "Size IN (1, 10, 100)",
        "color IN ('red')",
        "color NOT IN ('blue', 'green')",
        "Size IN (5 + 5)",
        "color LIKE 'r%'",
        "color NOT LIKE 'b%'",
        "EXISTS(color)",
        "NOT EXISTS(missing)",
        "((((color = 'red'))))",
        "color\n=\t'red'",
        "not color = 'blue' and Size = 10 or 1=0",
        "color > 'blue'",
        "urgent = TRUE",
    ],
    "B-362": [
        "Size + 1 = 11",
        "Size - 1 = 9",
        "Size * 2 = 20",
        "Size / 3 = 3",
        "Size % 3 = 1",
        "-Size = -10",
        "+Size = 10",
        "- -Size = 10",
        "2 + 3 * 4 = 14",
        "(2 + 3) * 4 = 20",
        "10 - 4 - 3 = 3",
        "100 / 10 / 2 = 5",
        "price * 2 = 5",
        "negative + 3 = 0",
        "Size = 5 + 5",
        "1 < 2",
    ],
    "B-363": ["user.color = 'red'", "USER.color = 'red'", "sys.Label = 'order'", "SYS.Label = 'order'"],
    "B-364": [
        "sys.MessageId = 'm-1'",
        "sys.SessionId = 's-1'",
        "sys.CorrelationId = 'c-1'",
        "sys.ContentType = 'application/json'",
        "sys.Label = 'order'",
        "sys.To = 'shop'",
        "sys.ReplyTo = 'answers'",
        "sys.ReplyToSessionId = 'rs-1'",
    ],
    "B-365": ["COLOR = 'red'", "size = 10", "sys.label = 'order'", "sys.MESSAGEID = 'm-1'"],
    "B-366": [
        "under_score = 'a_b'",
        "größe = 5",
        "[color] = 'red'",
        "[two words] = 'spaced'",
        "[brack]]et] = 'b'",
        "\"color\" = 'red'",
        "\"two words\" = 'spaced'",
        '"quo""te" = \'q\'',
        "[select] = 'a word of the language'",
        "user.[two words] = 'spaced'",
        "sys.[Label] = 'order'",
    ],
    "B-367": [
        "Size = 10",
        "big = 9007199254740993",
        "price = 2.5",
        "price = 25e-1",
        "price = 0.25E1",
        "price = 2.50",
        "urgent = TRUE",
        "urgent = true",
        "urgent <> FALSE",
        "quote = 'it''s'",
        "empty = ''",
        "9223372036854775807 > 0",
    ],
    "B-368": [
        "property('color') = 'red'",
        "p('color') = 'red'",
        "P('two words') = 'spaced'",
        "p('co' + 'lor') = 'red'",
        "newid() <> newid()",
    ],
    "B-369": [
        "color LIKE 'red'",
        "color LIKE '%'",
        "color LIKE '___'",
        "color LIKE '_e_'",
        "color LIKE '%e%'",
        "color LIKE '%d'",
        "color LIKE 'r%d'",
        "empty LIKE ''",
        "empty LIKE '%'",
        "color NOT LIKE '____'",
        "color NOT LIKE 're'",
        "percent LIKE '50!%' ESCAPE '!'",
        "percent LIKE '%!%' ESCAPE '!'",
        "under_score LIKE 'a!_b' ESCAPE '!'",
        "color NOT LIKE 'r!_d' ESCAPE '!'",
        "quote LIKE 'it''_'",
    ],
    "B-370": [
        "missing = 1 OR color = 'red'",
        "color = 'red' OR missing = 1",
        "NOT (missing = 1 AND color = 'blue')",
        "NOT (color = 'blue' AND missing LIKE 'x%')",
        "missing IS NULL AND color = 'red'",
    ],
    "B-371": [
        "missing IS NULL",
        "nothing IS NULL",
        "color IS NOT NULL",
        "empty IS NOT NULL",
        "EXISTS(color)",
        "EXISTS(nothing)",
        "EXISTS(user.color)",
        "EXISTS(sys.Label)",
        "NOT EXISTS(missing)",
        "NOT missing IS NOT NULL",
    ],
    "B-373": [
        "Size = 10.0",
        "price > 2",
        "Size + 0.5 = 10.5",
        "7 / 2 = 3",
        "7.0 / 2 = 3.5",
        "-7 / 2 = -3",
        "-7 % 3 = -1",
        "'a' + 'b' = 'ab'",
        "color + '!' = 'red!'",
    ],
}
NOT_TRUE: dict[str, list[str]] = {
    "B-355": ["1=0", "1>1", "NOT 1=1"],
    "B-361": [
        "color = 'blue'",
        "color <> 'red'",
        "Size > 10",
        "Size < 10",
        "color = 'red' AND Size = 11",
        "color = 'blue' OR Size = 11",
        "(color = 'red' OR Size = 11) AND price = 3.5",
        "NOT color = 'red'",
        "NOT (color = 'blue' OR Size = 10)",
        "color IS NULL",
        "Size IN (1, 100)",
        "Size NOT IN (1, 10)",
        "color LIKE 'b%'",
        "color NOT LIKE 'r%'",
        "EXISTS(missing)",
        "urgent = FALSE",
    ],
    "B-364": ["sys.MessageId = 'm-2'", "sys.To = 'Shop'"],
    "B-365": ["color = 'Red'", "color = 'RED'", "color LIKE 'R%'"],
    "B-367": ["big = 9007199254740992", "empty = ' '"],
    "B-369": [
        "color LIKE ''",
        "color LIKE 'e'",
        "color LIKE '__'",
        "color LIKE '____'",
        "color LIKE 'r%x'",
        "color LIKE 'r!_d' ESCAPE '!'",
        "percent LIKE '51!%' ESCAPE '!'",
        "empty LIKE '_'",
    ],
    "B-370": [
        "missing = 1",
        "missing <> 1",
        "NOT missing = 1",
        "NOT missing <> 1",
        "missing + 1 = 2",
        "missing + 1 <> 2",
        "missing > 1",
        "NOT missing > 1",
        "missing LIKE '%'",
        "missing NOT LIKE '%'",
        "missing IN (1, 2)",
        "missing NOT IN (1, 2)",
        "missing = missing",
        "missing = 1 OR color = 'blue'",
        "missing = 1 AND color = 'red'",
        "NOT (missing = 1 AND color = 'red')",
        "NOT (missing = 1 OR color = 'blue')",
        "nothing = 1",
        "nothing <> 1",
        "-missing = -1",
        "p('missing') = 1",
    ],
    "B-371": ["missing IS NOT NULL", "nothing IS NOT NULL", "empty IS NULL", "NOT EXISTS(nothing)"],
}
ERRORS: dict[str, list[str]] = {
    "B-358": ["Size / 0 = 1", "Size % 0 = 1"],
    "B-372": ["sys.NoSuchProperty = 'x'", "1=1 AND sys.NoSuchProperty = 'x'"],
}


def flat(table: dict[str, list[str]]) -> list[Any]:
    """One parameter per line of a table, named for its rule."""
    return [pytest.param(text, id=f"{rule}: {text}") for rule, texts in table.items() for text in texts]


class Bench:
    """A topic with one rule at a time and one message."""

    def __init__(self, namespace: Namespace, client: ServiceBusClient) -> None:
        self.admin = ServiceBusAdministrationClient(namespace)
        self.client = client
        self.admin.create_topic("news")

    def subscribe(self, filter_: Any = None, action: Any = None, **options: Any) -> None:
        """Create the subscription with one rule."""
        rule = RuleProperties("rule", filter=filter_, action=action, created_at_utc=None)
        self.admin.create_subscription("news", "all", rule=rule, **options)

    def send(self, body: Any = b"x", **properties: Any) -> None:
        """Send one message."""
        with self.client.get_topic_sender("news") as sender:
            sender.send_messages(ServiceBusMessage(body, **properties))

    def take(self, **options: Any) -> list[ServiceBusReceivedMessage]:
        """Receive and delete the messages of the subscription."""
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with self.client.get_subscription_receiver("news", "all", receive_mode=mode, **options) as receiver:
            return receiver.receive_messages(max_message_count=100, max_wait_time=0)

    def outcome(self, filter_: Any, properties: dict[str, Any] | None = None, **system: Any) -> str:
        """The outcome of a filter for a message with these properties."""
        self.subscribe(filter_)
        self.send(application_properties=properties, **system)
        runtime = self.admin.get_subscription_runtime_properties("news", "all")
        self.admin.delete_subscription("news", "all")
        counts = (runtime.active_message_count, runtime.dead_letter_message_count)
        return {(1, 0): SELECTED, (0, 0): NOT_SELECTED, (0, 1): FAILED}[counts]

    def changed(self, action: str, parameters: Any = None, **properties: Any) -> ServiceBusReceivedMessage:
        """The copy of a message after an action."""
        self.subscribe(action=SqlRuleAction(action, parameters))
        self.send(**properties)
        (copy,) = self.take()
        return copy


@pytest.fixture
def bench(clock: ManualClock) -> Iterator[Bench]:
    """A topic in memory."""
    with Namespace(clock=clock) as namespace, ServiceBusClient(namespace) as client:
        yield Bench(namespace, client)


@pytest.mark.parametrize("expression", flat(TRUE))
def test_message_is_selected(bench: Bench, expression: str) -> None:
    """The condition is true of the message (B-355, B-361 to B-373)."""
    assert bench.outcome(SqlRuleFilter(expression), PROPERTIES, **SYSTEM) == SELECTED


@pytest.mark.parametrize("expression", flat(NOT_TRUE))
def test_message_is_not_selected(bench: Bench, expression: str) -> None:
    """The condition is false of the message, or unknown, and neither is an error (B-361 to B-371)."""
    assert bench.outcome(SqlRuleFilter(expression), PROPERTIES, **SYSTEM) == NOT_SELECTED


@pytest.mark.parametrize("expression", flat(ERRORS))
def test_failing_filter_dead_letters_the_copy(bench: Bench, expression: str) -> None:
    """A copy whose filter fails goes to the dead-letter queue (B-358, B-372)."""
    assert bench.outcome(SqlRuleFilter(expression), PROPERTIES, **SYSTEM) == FAILED


@pytest.mark.parametrize("expression", flat(ERRORS))
def test_failing_filter_drops_the_copy_if_configured(bench: Bench, expression: str) -> None:
    """Without dead-lettering of filter errors the copy is dropped, and the send succeeds (B-358)."""
    bench.subscribe(SqlRuleFilter(expression), dead_lettering_on_filter_evaluation_exceptions=False)
    bench.send(application_properties=PROPERTIES, **SYSTEM)
    assert bench.admin.get_subscription_runtime_properties("news", "all").total_message_count == 0


def test_dead_letter_of_a_failing_filter_names_the_reason(bench: Bench) -> None:
    """The dead letter has the whole message and a reason (B-267, B-358)."""
    bench.subscribe(SqlRuleFilter("Size / 0 = 1"))
    bench.send("body", application_properties={"Size": 1})
    (dead,) = bench.take(sub_queue="deadletter")
    assert (str(dead), (dead.application_properties or {})["Size"]) == ("body", 1)
    assert dead.dead_letter_reason
    assert dead.dead_letter_error_description


@pytest.mark.parametrize("name", ["sys.To", "sys.Label", "sys.CorrelationId", "sys.ReplyTo", "sys.ContentType"])
def test_system_property_that_is_not_set_is_unknown(bench: Bench, name: str) -> None:
    """It is not an error, and neither `IN` nor `NOT IN` selects by it (B-370, B-372, B-375)."""
    assert bench.outcome(SqlRuleFilter(f"{name} IN ('a', 'b')")) == NOT_SELECTED
    assert bench.outcome(SqlRuleFilter(f"{name} NOT IN ('a', 'b')")) == NOT_SELECTED
    assert bench.outcome(SqlRuleFilter(f"{name} = 'a'")) == NOT_SELECTED
    assert bench.outcome(SqlRuleFilter(f"{name} IS NULL")) == SELECTED


@pytest.mark.parametrize(
    ("expression", "parameters", "outcome"),
    [
        ("color = @c", {"@c": "red"}, SELECTED),
        ("color = @c", {"@c": "blue"}, NOT_SELECTED),
        ("Size = @n", {"@n": 10}, SELECTED),
        ("Size = @n", {"@n": 10.0}, SELECTED),
        ("price = @n", {"@n": 2.5}, SELECTED),
        ("urgent = @b", {"@b": True}, SELECTED),
        ("urgent = @b", {"@b": False}, NOT_SELECTED),
        ("id = @id", {"@id": SOME_ID}, SELECTED),
        ("id <> @id", {"@id": SOME_ID}, NOT_SELECTED),
        ("at = @t", {"@t": SOME_TIME}, SELECTED),
        ("at < @t", {"@t": SOME_TIME}, NOT_SELECTED),
        ("at < @t", {"@t": SOME_TIME + timedelta(seconds=1)}, SELECTED),
        ("wait = @d", {"@d": timedelta(minutes=60)}, SELECTED),
        ("wait = @d", {"@d": timedelta(hours=1, microseconds=1)}, NOT_SELECTED),
        ("wait < @d", {"@d": timedelta(days=1)}, SELECTED),
        ("wait > @d", {"@d": timedelta(days=-1)}, SELECTED),
        ("wait = @d", {"@d": 3600}, NOT_SELECTED),
        ("wait = @d", {"@d": 36_000_000_000}, NOT_SELECTED),
        ("'' + wait = '01:00:00'", {}, SELECTED),
        ("color LIKE @p", {"@p": "r%"}, SELECTED),
        ("color IN (@a, @b)", {"@a": "blue", "@b": "red"}, SELECTED),
        ("Size > @low AND Size < @high", {"@low": 9, "@high": 11}, SELECTED),
        ("p(@name) = 'red'", {"@name": "color"}, SELECTED),
    ],
)
def test_parameters_stand_for_values(bench: Bench, expression: str, parameters: dict[str, Any], outcome: str) -> None:
    """A name with an `@` is replaced by its value, with the value's type (B-374)."""
    assert bench.outcome(SqlRuleFilter(expression, parameters), PROPERTIES, **SYSTEM) == outcome


def test_value_of_a_parameter_is_never_read_as_language(bench: Bench) -> None:
    """A value that looks like a condition stays text (B-374)."""
    hostile = "' OR 1=1 --"
    assert bench.outcome(SqlRuleFilter("color = @c", {"@c": hostile}), PROPERTIES) == NOT_SELECTED
    assert bench.outcome(SqlRuleFilter("color = @c", {"@c": hostile}), {"color": hostile}) == SELECTED


def test_parameter_without_a_value_is_refused_or_unknown(bench: Bench) -> None:
    """A parameter without a value selects nothing (B-374)."""
    try:
        outcome = bench.outcome(SqlRuleFilter("color = @c", {"@d": "red"}), PROPERTIES)
    except (ServiceBusError, ValueError):
        outcome = NOT_SELECTED
    assert outcome != SELECTED


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"label": "order"}, SELECTED),
        ({"label": "Order"}, NOT_SELECTED),
        ({"label": "order", "to": "shop"}, SELECTED),
        ({"label": "order", "to": "elsewhere"}, NOT_SELECTED),
        ({"correlation_id": "c-1"}, SELECTED),
        ({"message_id": "m-1"}, SELECTED),
        ({"message_id": "m-2"}, NOT_SELECTED),
        ({"to": "shop"}, SELECTED),
        ({"reply_to": "answers"}, SELECTED),
        ({"session_id": "s-1"}, SELECTED),
        ({"reply_to_session_id": "rs-1"}, SELECTED),
        ({"content_type": "application/json"}, SELECTED),
        ({"properties": {"color": "red"}}, SELECTED),
        ({"properties": {"color": "RED"}}, NOT_SELECTED),
        ({"properties": {"missing": "red"}}, NOT_SELECTED),
        ({"properties": {"color": "red", "Size": 10}}, SELECTED),
        ({"properties": {"color": "red", "Size": 11}}, NOT_SELECTED),
        ({"label": "order", "properties": {"color": "blue"}}, NOT_SELECTED),
        ({"properties": {"Size": 10.0}}, SELECTED),
        ({"properties": {"Size": "10"}}, NOT_SELECTED),
        ({"properties": {"urgent": True}}, SELECTED),
        ({"properties": {"urgent": "True"}}, NOT_SELECTED),
        ({"properties": {"urgent": False}}, NOT_SELECTED),
        ({"properties": {"id": SOME_ID}}, SELECTED),
        ({"properties": {"id": str(SOME_ID)}}, NOT_SELECTED),
        ({"properties": {"at": SOME_TIME}}, SELECTED),
        ({"properties": {"wait": timedelta(seconds=3600)}}, SELECTED),
        ({"properties": {"wait": timedelta(seconds=3601)}}, NOT_SELECTED),
        ({"properties": {"wait": 36_000_000_000}}, NOT_SELECTED),
    ],
    ids=repr,
)
def test_correlation_filter(bench: Bench, fields: dict[str, Any], outcome: str) -> None:
    """All given fields must be equal, including the case of text and the type of values (B-356, B-357)."""
    assert bench.outcome(CorrelationRuleFilter(**fields), PROPERTIES, **SYSTEM) == outcome


def test_empty_message_matches_no_correlation_filter(bench: Bench) -> None:
    """A property that is not set equals nothing, not even empty text (B-356)."""
    assert bench.outcome(CorrelationRuleFilter(label="")) == NOT_SELECTED
    assert bench.outcome(CorrelationRuleFilter(label=""), subject="") == SELECTED


def test_filters_ignore_the_body(bench: Bench) -> None:
    """A filter sees properties only (B-352)."""
    assert bench.outcome(SqlRuleFilter("color = 'red'")) == NOT_SELECTED
    bench.subscribe(SqlRuleFilter("color IS NULL"))
    bench.send(b'{"color": "red"}')
    assert len(bench.take()) == 1


ACTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("B-376", "SET color = 'blue'", {"color": "blue"}),
    ("B-376", "SET color = 'blue';", {"color": "blue"}),
    ("B-376", "SET color = 'blue'; SET Size = 11", {"color": "blue", "Size": 11}),
    ("B-376", "set color = 'blue'; remove Size", {"color": "blue", "Size": None}),
    ("B-376", "REMOVE color; REMOVE Size", {"color": None, "Size": None}),
    ("B-376", "SET user.color = 'blue'", {"color": "blue"}),
    ("B-376", "SET [two words] = 'x'", {"two words": "x"}),
    ("B-376", "SET total = Size * price", {"total": 25.0}),
    ("B-376", "SET Size = Size + 1; SET Size = Size * 2", {"Size": 22}),
    ("B-376", "SET copy = color; REMOVE color", {"copy": "red", "color": None}),
    ("B-376", "SET label = sys.Label", {"label": "order"}),
    ("B-377", "SET fresh = 'x'", {"fresh": "x"}),
    ("B-377", "SET COLOR = 'blue'", {"color": "blue"}),
    ("B-377", "REMOVE missing", {"color": "red", "Size": 10}),
    ("B-377", "REMOVE COLOR", {"color": None}),
    ("B-377", "SET Size = '12'", {"Size": 12}),
    ("B-377", "SET Size = 12.0", {"Size": 12}),
    ("B-377", "SET color = 12", {"color": "12"}),
    ("B-377", "SET price = 3", {"price": 3.0}),
]


@pytest.mark.parametrize(
    ("action", "expected"), [pytest.param(text, after, id=f"{rule}: {text}") for rule, text, after in ACTIONS]
)
def test_action_changes_the_copy(bench: Bench, action: str, expected: dict[str, Any]) -> None:
    """SET creates or changes a property, keeping its type if possible; REMOVE removes it (B-376, B-377)."""
    copy = bench.changed(action, application_properties={"color": "red", "Size": 10, "price": 2.5}, subject="order")
    properties = copy.application_properties or {}
    shown = {name: properties.get(name) for name in expected}
    assert shown == expected
    assert [type(value) for value in shown.values()] == [type(value) for value in expected.values()]
    assert {name for name, value in expected.items() if value is None} & properties.keys() == set()


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("To", "to"),
        ("Label", "subject"),
        ("ReplyTo", "reply_to"),
        ("CorrelationId", "correlation_id"),
        ("ContentType", "content_type"),
        ("ReplyToSessionId", "reply_to_session_id"),
        ("MessageId", "message_id"),
    ],
)
def test_action_sets_system_properties(bench: Bench, name: str, attribute: str) -> None:
    """Writable system properties are set with the scope `sys` (B-378)."""
    copy = bench.changed(f"SET sys.{name} = 'changed'", **{attribute: "as sent"})
    assert getattr(copy, attribute) == "changed"


def test_action_takes_parameters(bench: Bench) -> None:
    """Values of parameters keep their types (B-374, B-376)."""
    values: dict[str, Any] = {"@text": "t", "@int": 7, "@float": 0.5, "@bool": True, "@id": SOME_ID, "@at": SOME_TIME}
    action = ";".join(f"SET {name[1:]}_ = {name}" for name in values)
    copy = bench.changed(action, values)
    properties = copy.application_properties or {}
    assert {f"@{name[:-1]}": value for name, value in properties.items() if name.endswith("_")} == values


def test_new_ids_differ(bench: Bench) -> None:
    """`newid()` makes a GUID each time (B-368)."""
    copy = bench.changed("SET a = newid(); SET b = newid()")
    properties = copy.application_properties or {}
    assert isinstance(properties["a"], UUID)
    assert properties["a"] != properties["b"]


@pytest.mark.parametrize("action", ["SET a = 1 / 0", "SET sys.NoSuchProperty = 'x'"])
def test_failing_action_dead_letters_the_copy(bench: Bench, action: str) -> None:
    """A failing action dead-letters the copy like a failing filter, as it was sent (B-378, B-381)."""
    bench.subscribe(action=SqlRuleAction(action))
    bench.send("body", application_properties={"Size": 10})
    assert bench.take() == []
    (dead,) = bench.take(sub_queue="deadletter")
    assert (str(dead), (dead.application_properties or {})["Size"]) == ("body", 10)
    assert dead.dead_letter_reason


def test_action_runs_after_the_filter(bench: Bench) -> None:
    """The filter sees the message as it was sent (B-379)."""
    bench.subscribe(SqlRuleFilter("color = 'red'"), SqlRuleAction("SET color = 'blue'"))
    bench.send(application_properties={"color": "blue"})
    bench.send(application_properties={"color": "red"})
    assert [(copy.application_properties or {})["color"] for copy in bench.take()] == ["blue"]


def test_action_cannot_schedule_the_copy(bench: Bench, clock: ManualClock) -> None:
    """The scheduled time that an action sets is ignored in the subscription (B-242, B-380)."""
    action = SqlRuleAction("SET sys.ScheduledEnqueueTimeUtc = @t", {"@t": clock.now() + timedelta(hours=1)})
    bench.subscribe(action=action)
    bench.send()
    assert len(bench.take()) == 1


def nested(depth: int) -> str:
    """A condition in that many parentheses."""
    return "(" * depth + "1=1" + ")" * depth


@pytest.mark.parametrize(
    "expression",
    [
        "x" * 1025,
        "a = '" + "x" * 1020 + "'",
        nested(10_000),
        nested(5_000),
        "NOT " * 10_000 + "1=1",
        "-" * 10_000 + "1 = 1",
        "(" * 10_000,
        "1=1" + " AND 1=1" * 5_000,
        "a IN (" + ",".join(["1"] * 100_000) + ")",
        "'" * 1025,
        "[" * 1025,
        "\x00" * 2000,
        "é" * 1025,
    ],
    ids=lambda text: f"{text[:12]!r}, {len(text)} characters",
)
def test_long_filters_are_refused(bench: Bench, expression: str) -> None:
    """More than 1,024 characters are refused before parsing, and the namespace continues to work (B-043, B-359)."""
    with pytest.raises((ServiceBusError, ValueError)):
        bench.subscribe(SqlRuleFilter(expression))
    assert list(bench.admin.list_subscriptions("news")) == []
    assert bench.outcome(SqlRuleFilter("1=1")) == SELECTED


@pytest.mark.parametrize(
    "expression",
    [
        nested(500),
        "NOT " * 254 + "1=1",
        "1=1" + " AND 1=1" * 127,
        "1=1" + " OR 1=0" * 140,
        "1 = " + "-" * 500 + "1",
        "1 = " + "- " * 500 + "1",
        "0 = " + "0+" * 500 + "0",
    ],
    ids=lambda text: text[:16],
)
def test_deep_filters_are_evaluated_or_refused(bench: Bench, expression: str) -> None:
    """A condition of up to 1,024 characters, however deep, is evaluated correctly or refused (B-043, B-361)."""
    assert len(expression) <= 1024
    try:
        outcome = bench.outcome(SqlRuleFilter(expression))
    except (ServiceBusError, ValueError):
        outcome = SELECTED
    assert outcome == SELECTED


@pytest.mark.parametrize(
    "statements", ["SET a = 1;" * 33, "REMOVE a;" * 33, "SET a = " + "(" * 10_000, "SET a = 1;" * 10_000]
)
def test_long_actions_are_refused(bench: Bench, statements: str) -> None:
    """More than 32 statements or 1,024 characters are refused, and the namespace continues to work (B-043, B-359)."""
    with pytest.raises((ServiceBusError, ValueError)):
        bench.subscribe(action=SqlRuleAction(statements))
    assert bench.outcome(SqlRuleFilter("1=1")) == SELECTED


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("%a" * 300 + "b", "a" * 10_000),
        ("%" * 900 + "b", "a" * 10_000),
        ("%_" * 400 + "b", "a" * 10_000),
        ("%a%a%a%a%a%a%a%a%a%a%b", "a" * 30_000),
    ],
    ids=lambda text: text[:12],
)
def test_like_takes_no_exponential_time(
    bench: Bench, in_background: Callable[..., Any], pattern: str, text: str
) -> None:
    """LIKE takes time in the order of pattern length times text length, so a send ends soon (B-369)."""
    bench.subscribe(SqlRuleFilter(f"name LIKE '{pattern}'"))
    in_background(bench.send, application_properties={"name": text}).result()
    assert bench.take() == []
