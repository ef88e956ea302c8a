# SPDX-License-Identifier: Apache-2.0
"""Every error states what happened and how to resolve it, and has the condition that a server would send."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest
from oxbus import exceptions
from oxbus.exceptions import MessageLockLostError, PartialSendError, ServiceBusError

CLASSES = sorted(
    {value for value in vars(exceptions).values() if inspect.isclass(value) and issubclass(value, ServiceBusError)},
    key=lambda error: error.__name__,
)

ADVICE = {
    "Accept", "Change", "Check", "Choose", "Close", "Create", "Open", "Peek", "Receive", "Report", "Retry", "Send",
    "Set", "Stop", "Use", "Wait",
}  # fmt: skip


@pytest.mark.parametrize("error_class", CLASSES)
def test_error_has_a_condition_and_shows_whether_to_retry(error_class: type[ServiceBusError]) -> None:
    """Each class carries an AMQP symbol and a plain yes or no (B-437)."""
    error = error_class()
    assert error.condition is not None
    assert re.fullmatch(r"(amqp|com\.microsoft):[a-z:-]+", error.condition)
    assert isinstance(error.is_transient, bool)


@pytest.mark.parametrize("error_class", CLASSES)
def test_error_text_has_a_remedy(error_class: type[ServiceBusError]) -> None:
    """The text of a class ends with a sentence that begins with the remedy."""
    sentences = re.findall(r"[^.]+(?:\.\w[^.]*)*\.", str(error_class()))
    assert len(sentences) >= 2
    assert sentences[-1].split()[0].strip(",:") in ADVICE


@pytest.mark.parametrize("error_class", CLASSES)
def test_own_text_condition_and_cause_are_kept(error_class: type[ServiceBusError]) -> None:
    """Arguments of the raiser override the defaults of the class."""
    cause = OSError("disk")
    error = error_class("own text", condition="amqp:decode-error", error=cause)
    assert str(error) == error.message == "own text"
    assert error.condition == "amqp:decode-error"
    assert error.inner_exception is cause
    assert error.__cause__ is cause
    assert error_class().condition != "amqp:decode-error"


@pytest.mark.parametrize("error_class", CLASSES)
def test_error_survives_pickling_and_copying(error_class: type[ServiceBusError]) -> None:
    """Errors are sent between processes, for example from a Spark worker to the driver."""
    error = error_class("own text", condition="amqp:decode-error")
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 (pickled on this line)
        assert type(twin) is error_class
        assert (str(twin), twin.condition) == ("own text", "amqp:decode-error")


def test_details_survive_pickling() -> None:
    """The rows and numbers that an error names are kept."""
    partial = pickle.loads(pickle.dumps(PartialSendError("text", rows=[1, 4], partitions={3: 2})))  # noqa: S301
    assert (partial.rows, partial.partitions) == ([1, 4], {3: 2})
    lost = pickle.loads(pickle.dumps(MessageLockLostError("text", sequence_numbers=(7, 9))))  # noqa: S301
    assert lost.sequence_numbers == [7, 9]


def test_tree_at_the_top_of_the_module_is_the_tree() -> None:
    """The drawing names each class once, and every class is exported."""
    assert exceptions.__doc__ is not None
    drawn = re.findall(r"(?:[├└]── )(\w+)", exceptions.__doc__)
    assert sorted([*drawn, "ServiceBusError"]) == [error.__name__ for error in CLASSES]
    assert {error.__name__ for error in CLASSES} <= set(exceptions.__all__)


def test_no_built_in_name_is_shadowed() -> None:
    """`from oxbus.exceptions import *` cannot change the meaning of a program."""
    import builtins  # noqa: PLC0415

    assert not set(exceptions.__all__) & set(dir(builtins))
