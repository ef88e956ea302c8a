# SPDX-License-Identifier: Apache-2.0
"""Selected columns against the whole table (`receive_arrow`, an extension; R-21)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import ManualClock

if TYPE_CHECKING:
    from datetime import timedelta

pa = pytest.importorskip("pyarrow")

COLUMNS = (
    "body",
    "message_id",
    "session_id",
    "partition_key",
    "subject",
    "correlation_id",
    "content_type",
    "to",
    "reply_to",
    "application_properties",
    "scheduled_enqueue_time_utc",
    "time_to_live",
    "sequence_number",
    "partition_id",
    "enqueued_time_utc",
    "locked_until_utc",
    "delivery_count",
    "lock_token",
    "state",
    "dead_letter_reason",
    "dead_letter_error_description",
)
"""In the documented order."""

TEXT = st.none() | st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "body": st.binary(max_size=40),
            "message_id": st.none() | st.text("abc", min_size=1, max_size=5),
            "subject": TEXT,
            "correlation_id": TEXT,
            "content_type": TEXT,
            "to": TEXT,
            "reply_to": TEXT,
            "time_to_live": st.none() | st.timedeltas().map(abs).filter(bool),
            "application_properties": st.none()
            | st.dictionaries(
                st.sampled_from(["a", "b", "DeadLetterReason"]), st.text(max_size=9) | st.integers(0, 99)
            ),
        }
    ),
    max_size=40,
)


def _send(client: ServiceBusClient, messages: list[dict[str, Any]]) -> None:
    def message(body: bytes, time_to_live: timedelta | None, **options: Any) -> ServiceBusMessage:
        return ServiceBusMessage(body, time_to_live=time_to_live, **options)

    with client.get_queue_sender("q") as sender:
        for options in messages:
            sender.send_messages(message(**options))


@given(
    messages=MESSAGES,
    subsets=st.lists(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=6), min_size=1, max_size=4),
    partitioned=st.booleans(),
    at_once=st.sampled_from([1, 7, 100]),
)
def test_each_selection_has_the_values_of_the_whole_table(
    messages: list[dict[str, Any]], subsets: list[list[str]], partitioned: bool, at_once: int
) -> None:
    """A column has the same values whichever others are selected, in the documented order of columns."""
    with Namespace(clock=ManualClock()) as namespace, ServiceBusClient(namespace) as client:
        admin = ServiceBusAdministrationClient(namespace)
        admin.create_queue("q", enable_partitioning=partitioned)
        _send(client, [message for message in messages if _is_alive(message)])
        with client.get_queue_receiver("q") as receiver:
            whole = _released(receiver, None, at_once)
            assert whole.column_names == list(COLUMNS)
            for count, subset in enumerate(subsets, 1):
                # The key finds the rows: a partitioned queue returns its partitions in any order.
                found = _released(receiver, [*subset, "sequence_number", "lock_token"], at_once)
                names = {*subset, "sequence_number", "lock_token"}
                assert found.column_names == [name for name in COLUMNS if name in names]
                assert found.schema.equals(whole.select(found.column_names).schema)
                for name in names - {"lock_token", "delivery_count"}:
                    assert found[name].to_pylist() == whole[name].to_pylist(), name
                assert set(found["delivery_count"].to_pylist() if "delivery_count" in names else [count]) <= {count}
                assert found["lock_token"].null_count == 0


def _is_alive(message: dict[str, Any]) -> bool:
    """Whether the message lives for at least the shortest time, a millisecond."""
    time_to_live = message["time_to_live"]
    return time_to_live is None or time_to_live.total_seconds() >= 0.001


def _released(receiver: Any, columns: list[str] | None, at_once: int) -> Any:
    """Receive every message, and abandon all of them; return their rows by number."""
    tables = []
    while True:
        table = pa.table(receiver.receive_arrow(at_once, max_wait_time=0, columns=columns))
        tables.append(table)
        if not table.num_rows:
            break
    rows = pa.concat_tables(tables)
    receiver.settle_arrow(rows, "abandon")
    return rows.sort_by("sequence_number").combine_chunks()
