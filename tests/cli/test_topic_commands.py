# SPDX-License-Identifier: Apache-2.0
"""`oxbus topic`, `oxbus subscription` and `oxbus rule` (B-343 to B-360)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def topic(ox: Callable[..., Any]) -> str:
    """A partitioned topic."""
    ox("topic", "create", "news", "--partitioned")
    return "news"


def test_topic_is_created_changed_and_deleted(ox: Callable[..., Any]) -> None:
    """The commands of a queue, with the options of a topic."""
    created = ox("topic", "create", "news", "--partitioned", "--no-support-ordering", "--json").json
    assert (created["enable_partitioning"], created["support_ordering"]) == (True, False)
    assert created["total_max_size_in_megabytes"] == 4 * created["max_size_in_megabytes"]
    updated = ox("topic", "update", "news", "--user-metadata", "mine", "--json").json
    assert updated == created | {"user_metadata": "mine"}
    assert ox("topic", "list", "--json").json == [updated]
    ox("topic", "delete", "news")
    assert ox("topic", "list", "--json").json == []


def test_subscription_is_created_changed_and_deleted(ox: Callable[..., Any], topic: str) -> None:
    """The name of its topic precedes its own."""
    created = ox("subscription", "create", topic, "all", "--requires-session", "--json").json
    assert (created["name"], created["requires_session"]) == ("all", True)
    updated = ox("subscription", "update", topic, "all", "--max-delivery-count", 2, "--json").json
    assert updated == created | {"max_delivery_count": 2}
    assert ox("subscription", "show", topic, "all", "--json").json == updated
    assert ox("subscription", "list", topic, "--json").json == [updated]
    ox("subscription", "delete", topic, "all")
    assert ox("subscription", "list", topic, "--json").json == []


def test_new_subscription_selects_everything(ox: Callable[..., Any], topic: str) -> None:
    """Without an explicit rule it has `$Default` (B-345)."""
    ox("subscription", "create", topic, "all")
    assert [rule["name"] for rule in ox("rule", "list", topic, "all", "--json").json] == ["$Default"]


def test_first_rule_replaces_the_default(ox: Callable[..., Any], topic: str) -> None:
    """No message is selected by `$Default` in between."""
    ox(
        "subscription",
        "create",
        topic,
        "big",
        "--rule",
        "size",
        "--sql",
        "amount > @least",
        "--parameter",
        "@least:int=9",
    )
    (rule,) = ox("rule", "list", topic, "big", "--json").json
    assert rule["name"] == "size"
    assert rule["filter"] == {"type": "SqlRuleFilter", "sql_expression": "amount > @least", "parameters": {"@least": 9}}
    for amount in (9, 10):
        ox("send", topic, f"{amount} EUR", "--property", f"amount:int={amount}")
    assert ox("receive", f"{topic}/Subscriptions/big", "--all").out == "10 EUR\n"


def test_filter_without_a_rule_is_wrong_usage(run: Callable[..., Any], topic: str) -> None:
    """A filter belongs to a rule with a name."""
    refused = run("subscription", "create", topic, "big", "--sql", "amount > 9")
    assert refused.code == 2
    assert "--rule" in refused.err


@pytest.mark.parametrize(
    ("options", "bodies"),
    [
        ([], "a\nb\n"),
        (["--true"], "a\nb\n"),
        (["--false"], ""),
        (["--sql", "sys.Label = 'x'"], "a\n"),
        (["--label", "x"], "a\n"),
        (["--subject", "x", "--property", "size:int=1"], "a\n"),
        (["--property", "size:int=2"], "b\n"),
        (["--subject", "x", "--property", "size:int=2"], ""),
        (["--property", "size=1"], ""),
    ],
    ids=" ".join,
)
def test_rule_selects_messages(ox: Callable[..., Any], topic: str, options: list[str], bodies: str) -> None:
    """Each kind of filter has options, and values have types (B-355 to B-357)."""
    ox("subscription", "create", topic, "some", "--rule", "none", "--false")
    ox("rule", "create", topic, "some", "chosen", *options)
    ox("rule", "delete", topic, "some", "none")
    ox("send", topic, "a", "--subject", "x", "--property", "size:int=1")
    ox("send", topic, "b", "--subject", "y", "--property", "size:int=2")
    assert (
        "".join(sorted(ox("receive", topic, "--subscription", "some", "--all").out.splitlines(keepends=True))) == bodies
    )


def test_filter_and_action_of_a_rule_change_separately(ox: Callable[..., Any], topic: str) -> None:
    """A new action keeps the filter, and a new filter keeps the action (B-351)."""
    ox("subscription", "create", topic, "all")
    ox("rule", "create", topic, "all", "r", "--sql", "a = 1")
    rule = ox("rule", "update", topic, "all", "r", "--action", "SET b = @b", "--parameter", "b=2", "--json").json
    assert rule["filter"]["sql_expression"] == "a = 1"
    assert rule["action"] == {"sql_expression": "SET b = @b", "parameters": {"@b": "2"}}
    rule = ox("rule", "update", topic, "all", "r", "--sql", "a = 2", "--json").json
    assert (rule["filter"]["sql_expression"], rule["action"]["sql_expression"]) == ("a = 2", "SET b = @b")
    assert ox("rule", "update", topic, "all", "r", "--no-action", "--json").json["action"] is None
    assert ox("rule", "show", topic, "all", "r", "--json").json["filter"]["sql_expression"] == "a = 2"


@pytest.mark.parametrize("verb", ["create", "update"])
def test_rule_has_one_filter(run: Callable[..., Any], ox: Callable[..., Any], topic: str, verb: str) -> None:
    """Two kinds of filter at once are wrong usage."""
    ox("subscription", "create", topic, "all")
    for options in (["--sql", "a = 1", "--label", "x"], ["--sql", "a = 1", "--false"]):
        assert run("rule", verb, topic, "all", "$Default", *options).code == 2


def test_rule_that_does_not_parse_is_refused(run: Callable[..., Any], ox: Callable[..., Any], topic: str) -> None:
    """The error shows where parsing failed, and no rule is created (B-359)."""
    ox("subscription", "create", topic, "all")
    refused = run("rule", "create", topic, "all", "r", "--sql", "a = = 1")
    assert (refused.code, refused.out) == (1, "")
    assert "=" in refused.err
    assert run("rule", "show", topic, "all", "r").code == 1


def test_table_of_rules_describes_their_filters(ox: Callable[..., Any], topic: str) -> None:
    """A filter on equality is shown in words."""
    ox("subscription", "create", topic, "all", "--rule", "r", "--label", "x", "--property", "a:int=1")
    assert "label = 'x' and a = 1" in ox("rule", "list", topic, "all").out
