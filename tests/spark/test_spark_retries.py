# SPDX-License-Identifier: Apache-2.0
"""Calls of a Spark job that are retried after an error, depending on the effect in the error."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from oxbus.exceptions import (
    Effect,
    OperationTimeoutError,
    PartialSendError,
    PartitionUnavailableError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusServerBusyError,
)
from oxbus.spark.source.retries import retry_idempotent, retry_without_effect

AWAY = (ServiceBusConnectionError, ServiceBusServerBusyError, PartitionUnavailableError)


class Call:
    """A call that fails with the given errors, and then succeeds."""

    def __init__(self, *errors: ServiceBusError) -> None:
        self.errors = list(errors)
        self.made = 0

    def __call__(self, answer: str) -> str:
        """Fail, or return the answer."""
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return answer


@pytest.mark.parametrize("error_class", AWAY)
@pytest.mark.parametrize("effect", [None, "none"])
def test_call_without_an_effect_is_retried(error_class: type[ServiceBusError], effect: Effect | None) -> None:
    """A send without a connection, or rejected before it began, cannot cause a duplicate."""
    call = Call(error_class(effect=effect), error_class(effect=effect))
    assert retry_without_effect(call, "stored") == "stored"
    assert call.made == 3


@pytest.mark.parametrize("error_class", AWAY)
@pytest.mark.parametrize("effect", ["partial", "unknown"])
def test_call_with_a_possible_effect_is_not_retried(error_class: type[ServiceBusError], effect: Effect) -> None:
    """A retry of rows that may have been stored could duplicate them: the task fails, and Spark decides."""
    call = Call(error_class(effect=effect))
    with pytest.raises(error_class):
        retry_without_effect(call, "stored")
    assert call.made == 1


def test_permanent_error_is_raised_at_once() -> None:
    """The caller must handle a partial send and a timeout."""
    for error in (PartialSendError(), OperationTimeoutError(effect="unknown")):
        call = Call(error)
        with pytest.raises(type(error)):
            retry_without_effect(call, "stored")
        assert call.made == 1


@pytest.mark.parametrize("effect", [None, "none", "partial", "unknown"])
def test_idempotent_call_is_retried_with_any_effect(effect: Effect | None) -> None:
    """Reserving, completing and committing under a number are idempotent."""
    call = Call(ServiceBusConnectionError(effect=effect))
    assert retry_idempotent(call, "done") == "done"
    assert call.made == 2
