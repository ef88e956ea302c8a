# SPDX-License-Identifier: Apache-2.0
"""Calls of a Spark job are repeated while the broker is away, depending on the call and on the effect in the error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from oxbus._oxbus import BulkClient
from oxbus.exceptions import (
    Effect,
    OperationTimeoutError,
    PartialSendError,
    PartitionUnavailableError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusServerBusyError,
)
from oxbus.spark.source.retries import ONCE, REPEATABLE, Repeating

if TYPE_CHECKING:
    from collections.abc import Callable

AWAY = (ServiceBusConnectionError, ServiceBusServerBusyError, PartitionUnavailableError)


class Client:
    """A client whose calls fail with the given errors, and then succeed."""

    def __init__(self, *errors: ServiceBusError) -> None:
        self.errors = list(errors)
        self.made = 0

    def __getattr__(self, _name: str) -> Callable[[str], str]:
        """Return the same call for every name."""
        return self._call

    def _call(self, answer: str) -> str:
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return answer


def repeating(client: Client, seconds: float = 30.0) -> Any:
    """The repeating calls of the client."""
    return Repeating(client, seconds)


@pytest.mark.parametrize("error_class", AWAY)
@pytest.mark.parametrize("effect", [None, "none"])
def test_send_without_an_effect_is_repeated(error_class: type[ServiceBusError], effect: Effect | None) -> None:
    """A send without a connection, or rejected before it began, cannot cause a duplicate."""
    client = Client(error_class(effect=effect), error_class(effect=effect))
    assert repeating(client).send("stored") == "stored"
    assert client.made == 3


@pytest.mark.parametrize("error_class", AWAY)
@pytest.mark.parametrize("effect", ["partial", "unknown"])
def test_send_with_a_possible_effect_is_not_repeated(error_class: type[ServiceBusError], effect: Effect) -> None:
    """Rows that may have been stored could be doubled: the task fails, and Spark decides."""
    client = Client(error_class(effect=effect))
    with pytest.raises(error_class):
        repeating(client).send("stored")
    assert client.made == 1


@pytest.mark.parametrize("error", [PartialSendError(), OperationTimeoutError(effect="unknown"), ServiceBusError("no")])
def test_other_errors_are_raised_at_once(error: ServiceBusError) -> None:
    """Only a broker that is away is waited for."""
    for name in ("send", "stage"):
        client = Client(error)
        with pytest.raises(type(error)) as raised:
            getattr(repeating(client), name)("stored")
        assert raised.value is error
        assert client.made == 1


@pytest.mark.parametrize("effect", [None, "none", "partial", "unknown"])
@pytest.mark.parametrize("name", ["acquire", "commit_stages", "describe", "reserve", "settle_reserved", "stage"])
def test_others_are_repeated_with_any_effect(name: str, effect: Effect | None) -> None:
    """The broker recognises them, or they change nothing."""
    client = Client(ServiceBusConnectionError(effect=effect))
    assert getattr(repeating(client), name)("done") == "done"
    assert client.made == 2


def test_a_broker_that_stays_away_is_one_clear_error() -> None:
    """It names the time and the option, and keeps the class, the effect and the cause."""
    cause = ServiceBusConnectionError("refused", effect="none")
    client = Client(*[cause] * 100)
    with pytest.raises(ServiceBusConnectionError, match=r"0\.2 seconds.*client\.retryTimeout.*refused") as raised:
        repeating(client, 0.2).describe("orders")
    assert raised.value.effect == "none"
    assert raised.value.__cause__ is cause
    assert client.made > 1


def test_each_call_of_a_job_is_one_of_the_client() -> None:
    """A call that is not classified is an error, and so is a classified one that the client lacks."""
    with pytest.raises(AttributeError, match="cancel_reservation"):
        repeating(Client()).cancel_reservation("orders")
    assert {name for name in REPEATABLE | ONCE if not hasattr(BulkClient, name)} == set()
