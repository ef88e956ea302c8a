# SPDX-License-Identifier: Apache-2.0
"""The flights are published to a topic with three subscriptions that select by rules.

The subject of a message is its carrier; carrier, origin and destination are application properties.
The expected messages of each subscription are computed from the flights' own columns, without the broker.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

import oxbus
from oxbus import ServiceBusClient
from oxbus.demo import topic_checks
from oxbus.demo.scenarios import ScenarioResult, in_threads
from oxbus.management import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    RuleProperties,
    ServiceBusAdministrationClient,
    SqlRuleFilter,
    TrueRuleFilter,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TOPIC = "departures"
MESSAGES_PER_RECEIVE = 4096
PROPERTIES = ("carrier", "origin", "dest")
_COLUMNS = pa.schema([(name, pa.string()) for name in PROPERTIES])


@dataclass(frozen=True)
class ExpectedSubscription:
    """A subscription, and the messages that it must get."""

    name: str
    rules: dict[str, CorrelationRuleFilter | SqlRuleFilter | TrueRuleFilter | FalseRuleFilter]
    wants: str
    """Its selection, in words."""
    selects: Callable[[pa.Table], pa.ChunkedArray]
    """The same, as a mask over the flights' columns."""


SUBSCRIPTIONS = (
    ExpectedSubscription(
        "big-three",
        {
            "united": CorrelationRuleFilter(label="UA"),
            "delta": CorrelationRuleFilter(label="DL"),
            "american": CorrelationRuleFilter(properties={"carrier": "AA"}),
        },
        "UA, DL and AA by correlation rules",
        lambda flights: pc.is_in(flights["carrier"], pa.array(["UA", "DL", "AA"])),
    ),
    ExpectedSubscription(
        "kennedy-to-s",
        {"route": SqlRuleFilter("origin = 'JFK' AND dest LIKE 'S%'")},
        "JFK to S… by an SQL rule",
        lambda flights: pc.and_(pc.equal(flights["origin"], "JFK"), pc.starts_with(flights["dest"], "S")),
    ),
    ExpectedSubscription(
        "everything", {"all": TrueRuleFilter()}, "everything", lambda flights: pc.is_valid(flights["carrier"])
    ),
)


def run_scenario(
    messages: pa.Table, make_client: Callable[[oxbus.Namespace], ServiceBusClient] = ServiceBusClient
) -> ScenarioResult:
    """Publish the flights, drain every subscription, and compare with the flights' columns.

    Args:
        messages: Columns `message_id`, `partition_key` and `body`, in sending order.
        make_client: Creates the client; tests pass one that tampers.
    """
    flights = _columns_of(messages)
    departures = messages.select(["message_id", "partition_key", "body"])
    departures = departures.append_column("subject", flights["carrier"])
    departures = departures.append_column("application_properties", _properties(flights))
    with oxbus.Namespace() as namespace, make_client(namespace) as client:
        _create(ServiceBusAdministrationClient(namespace))
        began = time.perf_counter()
        with client.get_topic_sender(TOPIC) as sender:
            sender.send_arrow(departures)
        received_ids = in_threads([partial(_drain, client, subscription.name) for subscription in SUBSCRIPTIONS])
        seconds = time.perf_counter() - began
    checks = [
        topic_checks.check_subscription(
            f"topic: subscription {subscription.name} ({subscription.wants})",
            messages["message_id"].filter(subscription.selects(flights)),
            ids,
        )
        for subscription, ids in zip(SUBSCRIPTIONS, received_ids, strict=True)
    ]
    copies = sum(len(ids) for ids in received_ids)
    return ScenarioResult(checks, copies, seconds)


def _create(admin: ServiceBusAdministrationClient) -> None:
    admin.create_topic(TOPIC, enable_partitioning=True)
    for subscription in SUBSCRIPTIONS:
        (name, rule_filter), *others = subscription.rules.items()
        first = RuleProperties(name, filter=rule_filter, action=None, created_at_utc=None)
        admin.create_subscription(TOPIC, subscription.name, rule=first)
        for other_name, other_filter in others:
            admin.create_rule(TOPIC, subscription.name, other_name, filter=other_filter)


def _drain(client: ServiceBusClient, subscription: str) -> pa.ChunkedArray:
    """Return the ids of all messages of a subscription, after everything was sent."""
    ids = [pa.array([], pa.string())]
    with client.get_subscription_receiver(TOPIC, subscription, receive_mode="receiveanddelete") as receiver:
        while (batch := pa.table(receiver.receive_arrow(MESSAGES_PER_RECEIVE, max_wait_time=0))).num_rows:
            ids += batch["message_id"].cast(pa.string()).chunks
    return pa.chunked_array(ids)


def _columns_of(messages: pa.Table) -> pa.Table:
    """Read carrier, origin and destination from the bodies."""
    lines = pa.BufferReader(b"\n".join(messages["body"].to_pylist()))
    options = arrow_json.ParseOptions(explicit_schema=_COLUMNS, unexpected_field_behavior="ignore")
    return arrow_json.read_json(lines, parse_options=options).select(PROPERTIES).combine_chunks()


def _properties(flights: pa.Table) -> pa.MapArray:
    """Return the application properties of all flights."""
    width, rows = len(PROPERTIES), flights.num_rows
    column_after_column = pa.concat_arrays([flights[name].combine_chunks() for name in PROPERTIES])
    row_after_row = np.arange(width * rows).reshape(width, rows).T.ravel()
    names = pa.array(np.tile(np.arange(width, dtype=np.int32), rows))
    return pa.MapArray.from_arrays(
        pa.array(np.arange(0, width * rows + 1, width, dtype=np.int32)),
        pa.array(PROPERTIES).take(names),
        column_after_column.take(pa.array(row_after_row)),
    )
