# SPDX-License-Identifier: Apache-2.0
"""Which calls of a Spark job are made again after an error, by what the error says the call did."""

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
    """A call that fails so often, and then works."""

    def __init__(self, *errors: ServiceBusError) -> None:
        self.errors = list(errors)
        self.made = 0

    def __call__(self, answer: str) -> str:
        """Fail, or answer."""
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return answer


@pytest.mark.parametrize("error_class", AWAY)
@pytest.mark.parametrize("effect", [None, "none"])
def test_call_that_did_nothing_is_made_again(error_class: type[ServiceBusError], effect: Effect | None) -> None:
    """A send that reached nobody, or was refused, cannot double."""
    call = Call(error_class(effect=effect), error_class(effect=effect))
    assert retry_without_effect(call, "stored") == "stored"
    assert call.made == 3


@pytest.mark.parametrize("error_class", AWAY)
@pytest.mark.parametrize("effect", ["partial", "unknown"])
def test_call_that_may_have_done_something_is_not_made_again(
    error_class: type[ServiceBusError], effect: Effect
) -> None:
    """Sending rows again that may be stored would double them: the task fails, and Spark decides."""
    call = Call(error_class(effect=effect))
    with pytest.raises(error_class):
        retry_without_effect(call, "stored")
    assert call.made == 1


def test_error_that_will_not_pass_is_raised_at_once() -> None:
    """Rows that were stored in part, and a call that took too long, are for the caller."""
    for error in (PartialSendError(), OperationTimeoutError(effect="unknown")):
        call = Call(error)
        with pytest.raises(type(error)):
            retry_without_effect(call, "stored")
        assert call.made == 1


@pytest.mark.parametrize("effect", [None, "none", "partial", "unknown"])
def test_call_that_may_be_made_twice_is_made_again_whatever_it_did(effect: Effect | None) -> None:
    """Reserving, completing and committing under a number change nothing the second time."""
    call = Call(ServiceBusConnectionError(effect=effect))
    assert retry_idempotent(call, "done") == "done"
    assert call.made == 2
