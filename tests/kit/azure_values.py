# SPDX-License-Identifier: Apache-2.0
"""The bridge between tests, which speak of the classes of oxbus, and the SDK of Azure, which has its own.

Arguments become the SDK's, answers and errors become ours. Nothing else is changed, and nothing is made up:
what the SDK does not have is an `AttributeError` or a `TypeError` of the SDK.
"""

from __future__ import annotations

import functools
import html
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from azure import servicebus as sdk
from azure.core.exceptions import AzureError, HttpResponseError
from azure.core.paging import ItemPaged
from azure.servicebus import exceptions as sdk_exceptions
from azure.servicebus import management as sdk_management
from oxbus import ServiceBusMessage, exceptions, management

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

MESSAGE_FIELDS = (
    "application_properties",
    "session_id",
    "message_id",
    "scheduled_enqueue_time_utc",
    "time_to_live",
    "content_type",
    "correlation_id",
    "subject",
    "partition_key",
    "to",
    "reply_to",
    "reply_to_session_id",
)

RULE_FIELDS = {
    "SqlRuleFilter": ("sql_expression", "parameters"),
    "SqlRuleAction": ("sql_expression", "parameters"),
    "TrueRuleFilter": (),
    "FalseRuleFilter": (),
    "CorrelationRuleFilter": (
        "correlation_id",
        "message_id",
        "to",
        "reply_to",
        "label",
        "session_id",
        "reply_to_session_id",
        "content_type",
        "properties",
    ),
    "RuleProperties": ("name", "filter", "action", "created_at_utc"),
}
"""The parts of rules: classes of these names, with these attributes, are in both packages."""

OF_CONDITION = {
    "amqp:not-allowed": exceptions.InvalidOperationError,
    "amqp:not-implemented": exceptions.InvalidOperationError,
    "com.microsoft:argument-error": exceptions.InvalidRuleError,
}
"""What the SDK knows as nothing but an error, by its condition."""

OF_STATUS = {
    # A bad request is an operation, a rule or a value that cannot be: this class is all three.
    400: exceptions.InvalidRuleError,
    403: exceptions.ServiceBusQuotaExceededError,
    404: exceptions.MessagingEntityNotFoundError,
    409: exceptions.MessagingEntityAlreadyExistsError,
}
"""What the administration client knows by its HTTP status."""


PARTITION_SHIFT = 48


class Proxy:
    """An object of the SDK for tests that speak of oxbus."""

    _theirs: Any

    def __init__(self, theirs: Any) -> None:
        object.__setattr__(self, "_theirs", theirs)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._theirs, name)
        return translated(value) if callable(value) else to_ours(value)

    def __setattr__(self, name: str, value: Any) -> None:
        # The SDK's objects take any attribute, and forget those they do not know.
        if not hasattr(self._theirs, name):
            raise AttributeError(f"{type(self._theirs).__name__} of the SDK has no {name}")
        setattr(self._theirs, name, to_theirs(value))

    def __enter__(self) -> Self:
        translated(self._theirs.__enter__)()
        return self

    def __exit__(self, *exit_info: object) -> None:
        self._theirs.__exit__(*exit_info)

    def __str__(self) -> str:
        return str(self._theirs)

    def __len__(self) -> int:
        return len(self._theirs)


class ReceivedMessage(Proxy):
    """A message that was received: names and texts among its properties are text, which the SDK shows as bytes."""

    @property
    def application_properties(self) -> dict[Any, Any] | None:
        """What the application said about the message."""
        properties = self._theirs.application_properties
        return properties and {as_text(name): as_text(value) for name, value in properties.items()}

    @property
    def partition_id(self) -> int:
        """The partition, which is in the top 16 bits of the number."""
        number: int = self._theirs.sequence_number
        return number >> PARTITION_SHIFT


def as_text(value: Any) -> Any:
    """What was sent as text; the SDK does not tell it from bytes, so what can be text is taken for it."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def to_theirs(value: Any) -> Any:
    """Return what the SDK takes for a value of a test."""
    if isinstance(value, Proxy):
        return value._theirs
    if isinstance(value, ServiceBusMessage):
        return _their_message(value)
    if isinstance(value, list | tuple):
        return [to_theirs(item) for item in value]
    if type(value) is getattr(management, type(value).__name__, None):
        return _rule_part(value, sdk_management, to_theirs)
    return value


def _their_message(message: ServiceBusMessage) -> sdk.ServiceBusMessage:
    fields = {name: getattr(message, name) for name in MESSAGE_FIELDS}
    body = message.body
    return sdk.ServiceBusMessage(None if body is None else b"".join(body), **fields)


def _rule_part(value: Any, package: Any, convert: Callable[[Any], Any]) -> Any:
    """A filter, an action or a rule as the other package has it; anything else as it is."""
    name = type(value).__name__
    if name not in RULE_FIELDS:
        return value
    return getattr(package, name)(**{field: convert(getattr(value, field)) for field in RULE_FIELDS[name]})


def to_ours(value: Any) -> Any:
    """Return what a test takes for an answer of the SDK."""
    if isinstance(value, sdk.ServiceBusReceivedMessage):
        return ReceivedMessage(value)
    if isinstance(value, list | ItemPaged):
        return [to_ours(item) for item in value]
    if type(value) is getattr(sdk_management, type(value).__name__, None):
        part = _rule_part(value, management, to_ours)
        return Proxy(part) if part is value and not isinstance(value, str) else part
    if type(value) is getattr(sdk, type(value).__name__, None) and not isinstance(value, str | int):
        return Proxy(value)
    return value


def our_error(error: Exception) -> Exception:
    """Return the error of oxbus that says what an error of the SDK says."""
    if isinstance(error, HttpResponseError):
        kind = OF_STATUS.get(error.status_code or 0, exceptions.ServiceBusError)
        return kind(html.unescape(error.response.text()) if error.response else str(error))
    condition = getattr(error, "_condition", None)
    kind = getattr(exceptions, type(error).__name__, exceptions.ServiceBusError)
    if kind is exceptions.ServiceBusError:
        kind = OF_CONDITION.get(condition or "", kind)
    return kind(str(error), **({"condition": condition} if condition else {}))


@contextmanager
def our_errors() -> Iterator[None]:
    """Turn errors of the SDK into ours."""
    try:
        yield
    except (AzureError, sdk_exceptions.MessageAlreadySettled) as error:
        raise our_error(error) from error


def translated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of the SDK be called in the words of oxbus."""

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        theirs = [to_theirs(value) for value in arguments]
        with our_errors():
            return to_ours(function(*theirs, **{name: to_theirs(value) for name, value in options.items()}))

    return call
