# SPDX-License-Identifier: Apache-2.0
"""The checks of the sessions find a flight that is late, lost, duplicated or in the session of another aircraft."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import oxbus
import pyarrow as pa
import pytest
from oxbus.demo import aircraft_sessions
from oxbus.demo.aircraft_sessions import SessionTurn, TurnLog
from oxbus.demo.session_checks import check_sessions

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus.demo.scenarios import ScenarioResult

FLIGHTS, AIRCRAFT = 400, 20


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every aircraft several turns."""
    monkeypatch.setattr(aircraft_sessions, "FLIGHTS_PER_TURN", 3)


def flights() -> pa.Table:
    """Made-up flights, every tenth without a tail number."""
    return pa.table(
        {
            "message_id": [f"flight-{row}" for row in range(FLIGHTS)],
            "partition_key": [None if row % 10 == 9 else f"N{row % AIRCRAFT:05}" for row in range(FLIGHTS)],
            "body": pa.array([b"%d" % row for row in range(FLIGHTS)], pa.binary()),
        }
    )


class Tampering:
    """A client or sender that changes the messages that it sends."""

    def __init__(self, inner: Any, change: Callable[[pa.Table], pa.Table]) -> None:
        self._inner, self._change = inner, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._inner.__exit__(*details)

    def get_queue_sender(self, name: str) -> Tampering:
        """A sender that tampers."""
        return Tampering(self._inner.get_queue_sender(name), self._change)

    def send_arrow(self, data: pa.Table) -> Any:
        """Send the changed table."""
        return self._inner.send_arrow(self._change(data))


def run_scenario(change: Callable[[pa.Table], pa.Table]) -> ScenarioResult:
    """Run the sessions with the changed flights."""

    def make_client(namespace: oxbus.Namespace) -> Any:
        return Tampering(oxbus.ServiceBusClient(namespace), change)

    return aircraft_sessions.run_scenario(flights(), make_client)


def exchanged(table: pa.Table, first: int, second: int) -> pa.Table:
    """The table with two rows swapped."""
    rows = list(range(table.num_rows))
    rows[first], rows[second] = rows[second], rows[first]
    return table.take(rows)


def failed_claims(trip: ScenarioResult) -> list[str]:
    """The failed claims, by a word for each check."""
    words = ("once", "own session", "order")
    return [word for word, check in zip(words, trip.checks, strict=True) if not check.passed]


def test_honest_sessions_pass() -> None:
    """All flights with a tail number are received, and the others are counted."""
    trip = run_scenario(lambda table: table)
    assert failed_claims(trip) == []
    assert trip.rows == FLIGHTS * 9 // 10
    assert "40 without a tail number were left out" in trip.checks[0].claim


def test_wrong_order_is_noticed() -> None:
    """Two swapped flights of one aircraft are found, although all counts are right."""
    row_of_the_same_aircraft = flights()["partition_key"].drop_null().to_pylist().index("N00000", 1)
    assert failed_claims(run_scenario(lambda table: exchanged(table, 0, row_of_the_same_aircraft))) == ["order"]


def test_order_between_aircraft_is_free() -> None:
    """Flights of two aircraft may overtake each other."""
    assert failed_claims(run_scenario(lambda table: exchanged(table, 0, 1))) == []


def test_lost_flight_is_noticed() -> None:
    """A flight that never reached the queue is reported as lost."""
    assert failed_claims(run_scenario(lambda table: table.slice(1))) == ["once"]


def test_duplicated_flight_is_noticed() -> None:
    """A flight that is stored twice is received twice, the second time too late."""
    assert failed_claims(run_scenario(lambda table: pa.concat_tables([table, table.slice(0, 1)]))) == ["once", "order"]


def test_flight_in_the_session_of_another_aircraft_is_noticed() -> None:
    """A session id that is not the flight's tail number is found."""

    def change(table: pa.Table) -> pa.Table:
        ids = table["session_id"].to_pylist()
        ids[-1] = "N00000"
        return table.set_column(table.schema.get_field_index("session_id"), "session_id", pa.array(ids))

    assert "own session" in failed_claims(run_scenario(change))


def test_session_with_two_holders_is_noticed() -> None:
    """A session that is accepted while another receiver holds it is found."""
    sent = pa.table({"message_id": ["flight-0"], "session_id": ["N00000"]})
    book = TurnLog()
    book.accepted("N00000")
    book.accepted("N00000")
    book.ends(SessionTurn(0, "N00000", sent))
    passed = [check.passed for check in check_sessions(sent, 0, book, left_in_queue=0)]
    assert passed == [True, False, True]


def test_late_flight_of_another_receiver_is_noticed() -> None:
    """The order is checked from one receiver's turn to the next one's."""
    sent = pa.table({"message_id": ["flight-0", "flight-1"], "session_id": ["N00000", "N00000"]})
    book = TurnLog()
    book.ends(SessionTurn(0, "N00000", sent.slice(1, 1)))
    book.ends(SessionTurn(1, "N00000", sent.slice(0, 1)))
    passed = [check.passed for check in check_sessions(sent, 0, book, left_in_queue=0)]
    assert passed == [True, True, False]


def test_receiver_that_fails_stops_the_demo() -> None:
    """The caller gets an error of a thread."""

    class FailingClient(Tampering):
        def get_queue_receiver(self, _name: str, **_options: Any) -> Any:
            raise RuntimeError("no more receivers")

    with pytest.raises(RuntimeError, match="no more receivers"):
        aircraft_sessions.run_scenario(
            flights(),
            lambda it: FailingClient(oxbus.ServiceBusClient(it), lambda table: table),  # type: ignore[arg-type,return-value]
        )
