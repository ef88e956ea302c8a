# SPDX-License-Identifier: Apache-2.0
"""The checks of the subscriptions find a rule that selects one flight too many or too few."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from oxbus.demo import carrier_topic
from oxbus.demo.carrier_topic import SUBSCRIPTIONS, ExpectedSubscription
from oxbus.demo.topic_checks import check_subscription
from oxbus.management import CorrelationRuleFilter, FalseRuleFilter, SqlRuleFilter, TrueRuleFilter

RuleFilter = CorrelationRuleFilter | SqlRuleFilter | TrueRuleFilter | FalseRuleFilter

FLIGHTS = 360
CARRIERS = ("UA", "DL", "AA", "B6", "EV", "ua")
ROUTES = (("JFK", "SEA"), ("JFK", "LAX"), ("LGA", "SFO"), ("JFK", "SFO"), ("EWR", "ORD"), ("JFK", "LAS"), ("EWR", "S"))


def flights() -> pa.Table:
    """Made-up flights of several carriers on several routes, every tenth without a tail number."""
    template = b'{"flight":%d,"carrier":"%s","origin":"%s","dest":"%s","distance":100}'
    bodies = []
    for row in range(FLIGHTS):
        origin, destination = ROUTES[row % len(ROUTES)]
        carrier = CARRIERS[row % len(CARRIERS)]
        bodies.append(template % (row, carrier.encode(), origin.encode(), destination.encode()))
    return pa.table(
        {
            "message_id": [f"flight-{row}" for row in range(FLIGHTS)],
            "partition_key": [None if row % 10 == 9 else f"N{row % 25:05}" for row in range(FLIGHTS)],
            "body": pa.array(bodies, pa.binary()),
        }
    )


def with_rule(name: str, rule_filter: RuleFilter) -> list[ExpectedSubscription]:
    """The subscriptions with one filter in place of that subscription's rules."""
    return [replace(one, rules={"other": rule_filter}) if one.name == name else one for one in SUBSCRIPTIONS]


def wrong_subscriptions() -> list[str]:
    """The subscriptions whose check fails."""
    checks = carrier_topic.run_scenario(flights()).checks
    return [one.name for one, check in zip(carrier_topic.SUBSCRIPTIONS, checks, strict=True) if not check.passed]


def test_honest_topic_passes() -> None:
    """Each subscription gets the number of flights in the table, and none of the three numbers is trivial."""
    trip = carrier_topic.run_scenario(flights())
    assert [check.finding for check in trip.checks if not check.passed] == []
    assert "180 flights" in trip.checks[0].claim
    assert 0 < int(trip.checks[1].claim.partition("got the ")[2].split()[0]) < FLIGHTS
    assert f"{FLIGHTS} flights" in trip.checks[2].claim


@pytest.mark.parametrize(
    ("name", "rule_filter"),
    [
        ("big-three", TrueRuleFilter()),
        ("big-three", CorrelationRuleFilter(label="UA")),
        ("big-three", SqlRuleFilter("carrier IN ('UA', 'DL', 'AA', 'ua')")),
        ("kennedy-to-s", SqlRuleFilter("origin = 'JFK'")),
        ("kennedy-to-s", SqlRuleFilter("origin = 'JFK' AND dest LIKE 'SEA'")),
        ("everything", FalseRuleFilter()),
    ],
    ids=["all", "one of three", "letter case", "half a filter", "too narrow", "nothing"],
)
def test_wrong_rule_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str, rule_filter: RuleFilter) -> None:
    """With too many, too few or other messages, exactly that subscription's check fails."""
    monkeypatch.setattr(carrier_topic, "SUBSCRIPTIONS", with_rule(name, rule_filter))
    assert wrong_subscriptions() == [name]


@pytest.mark.parametrize(
    ("received", "finding"),
    [
        (["a"], "1 received, 1 missing, 0 not selected, 0 more than once"),
        (["a", "b", "b"], "3 received, 0 missing, 0 not selected, 1 more than once"),
        (["a", "c"], "2 received, 1 missing, 1 not selected, 0 more than once"),
        (["a", "a"], "2 received, 1 missing, 0 not selected, 1 more than once"),
    ],
)
def test_right_number_of_wrong_messages_is_noticed(received: list[str], finding: str) -> None:
    """Ids are compared, so one message in place of another is found."""
    check = check_subscription("it", pa.chunked_array([["a", "b"]]), pa.chunked_array([received]))
    assert not check.passed
    assert check.finding == finding


def test_same_messages_in_another_order_pass() -> None:
    """A subscription with partitions promises no order over all messages."""
    assert check_subscription("it", pa.chunked_array([["a", "b"]]), pa.chunked_array([["b", "a"]])).passed
