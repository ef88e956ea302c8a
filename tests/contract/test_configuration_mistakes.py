# SPDX-License-Identifier: Apache-2.0
"""A wrong configuration is refused with its place in the file, and nothing is opened or created."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

import pytest
from oxbus.exceptions import InvalidRuleError
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from oxbus import Namespace

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


GOOD_RULE = rule("s", FilterType="Sql", SqlFilter={"SqlExpression": "a = 1"})


@pytest.mark.parametrize("text", ["", "{", '{"UserConfig": {}} x', '{"UserConfig": 1, "UserConfig": 2}', "\xff"])
def test_file_that_is_no_json(open_namespace: Callable[..., Namespace], tmp_path: Path, text: str) -> None:
    """The error names the file; a duplicate key is an error too."""
    file = tmp_path / "config.json"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=r"config: `.*config\.json` is not valid JSON"):
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
        (Q, "orders", "must be an object, not a string"),
        (f"{Q}.Name", None, "is missing"),
        (f"{Q}.Name", 5, "must be a string, not an integer"),
        (f"{Q}.LockDuration", "PT1M", "unknown key"),
        (f"{Q}.Properties.LockDuraton", "PT1M", "unknown key; did you mean LockDuration?"),
        (f"{Q}.Properties.LockDuration", "1 minute", "must be an ISO 8601 duration"),
        (f"{Q}.Properties.LockDuration", 60, "must be a string, not an integer"),
        (f"{Q}.Properties.MaxDeliveryCount", "3", "must be an integer, not a string"),
        (f"{Q}.Properties.MaxDeliveryCount", True, "must be an integer, not true or false"),
        (f"{Q}.Properties.MaxDeliveryCount", 1.5, "must be an integer, not `1.5`"),
        (f"{Q}.Properties.RequiresSession", 1, "must be true or false, not an integer"),
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
        (f"{EQUAL}.CorrelationFilter.Properties.n", [1], "must be a string, a number, true or false, not a list"),
    ],
)
def test_error_names_the_place(
    open_namespace: Callable[..., Namespace], tmp_path: Path, store: str, place: str, value: Any, problem: str
) -> None:
    """Unknown keys, missing keys and wrong values are refused, and nothing is opened or created."""
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


def test_duplicate_name(open_namespace: Callable[..., Namespace]) -> None:
    """Names differ by more than letter case, also between topics and queues (B-016, B-018)."""
    for two in (
        config(queues=[{"Name": "orders"}, {"Name": "ORDERS"}]),
        config(queues=[{"Name": "news"}], topics=[topic()]),
        config(topics=[topic({"Name": "a"}, {"Name": "A"})]),
        config(topics=[topic({"Name": "a", "Rules": [GOOD_RULE, GOOD_RULE | {"Name": "S"}]})]),
    ):
        with pytest.raises(ValueError, match=r"has the same name as UserConfig\.Namespaces\[0\]"):
            open_namespace(config=two)


def test_rule_that_does_not_parse(open_config: Callable[..., ServiceBusAdministrationClient]) -> None:
    """The error is that of the rule, with its place (B-359)."""
    bad = rule("bad", FilterType="Sql", SqlFilter={"SqlExpression": "a = = 1"})
    with pytest.raises(InvalidRuleError, match=r"Subscriptions\[0\]\.Rules\[1\]: "):
        open_config(config(topics=[topic({"Name": "all", "Rules": [GOOD_RULE, bad]})]))
