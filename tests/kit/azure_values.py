# SPDX-License-Identifier: Apache-2.0
"""Conversions between the classes of oxbus, which tests use, and those of the Azure SDK.

Arguments are converted to the classes of the SDK, results and errors to those of oxbus. Nothing else is changed or
emulated: a feature that the SDK lacks raises its `AttributeError` or `TypeError`.
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
"""The classes of rules and their parts, and their attributes. Both packages have them."""

ERRORS_BY_CONDITION = {
    "amqp:not-allowed": exceptions.InvalidOperationError,
    "amqp:not-implemented": exceptions.InvalidOperationError,
    "com.microsoft:argument-error": exceptions.InvalidRuleError,
}
"""Error classes by condition, for errors that have no class of their own in the SDK."""

ERRORS_BY_STATUS = {
    # A bad request is an invalid operation, rule or value; this class covers all three.
    400: exceptions.InvalidRuleError,
    403: exceptions.ServiceBusQuotaExceededError,
    404: exceptions.MessagingEntityNotFoundError,
    409: exceptions.MessagingEntityAlreadyExistsError,
}
"""Error classes by HTTP status, for the administration client."""


PARTITION_SHIFT = 48


class Proxy:
    """An object of the SDK with the interface of oxbus."""

    _theirs: Any

    def __init__(self, theirs: Any) -> None:
        object.__setattr__(self, "_theirs", theirs)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._theirs, name)
        return translated(value) if callable(value) else to_ours(value)

    def __setattr__(self, name: str, value: Any) -> None:
        # The SDK's objects accept any attribute, and ignore unknown ones.
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
    """A received message. The SDK returns names and texts of properties as bytes; here they are str."""

    @property
    def application_properties(self) -> dict[Any, Any] | None:
        """The application properties."""
        properties = self._theirs.application_properties
        return properties and {as_text(name): as_text(value) for name, value in properties.items()}

    @property
    def partition_id(self) -> int:
        """The partition: the top 16 bits of the sequence number."""
        number: int = self._theirs.sequence_number
        return number >> PARTITION_SHIFT


def as_text(value: Any) -> Any:
    """Decode bytes as text if possible, since the SDK does not distinguish text from bytes."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def to_theirs(value: Any) -> Any:
    """Convert a value to the classes of the SDK."""
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
    """Convert a filter, an action or a rule to the other package; return other values unchanged."""
    name = type(value).__name__
    if name not in RULE_FIELDS:
        return value
    return getattr(package, name)(**{field: convert(getattr(value, field)) for field in RULE_FIELDS[name]})


def to_ours(value: Any) -> Any:
    """Convert a result of the SDK to the classes of oxbus."""
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
    """Return the oxbus error for an error of the SDK."""
    if isinstance(error, HttpResponseError):
        kind = ERRORS_BY_STATUS.get(error.status_code or 0, exceptions.ServiceBusError)
        return kind(html.unescape(error.response.text()) if error.response else str(error))
    condition = getattr(error, "_condition", None)
    kind = getattr(exceptions, type(error).__name__, exceptions.ServiceBusError)
    if kind is exceptions.ServiceBusError:
        kind = ERRORS_BY_CONDITION.get(condition or "", kind)
    return kind(str(error), **({"condition": condition} if condition else {}))


@contextmanager
def our_errors() -> Iterator[None]:
    """Convert errors of the SDK to those of oxbus."""
    try:
        yield
    except (AzureError, sdk_exceptions.MessageAlreadySettled) as error:
        raise our_error(error) from error


def translated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of the SDK: convert arguments, result and errors."""

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        theirs = [to_theirs(value) for value in arguments]
        with our_errors():
            return to_ours(function(*theirs, **{name: to_theirs(value) for name, value in options.items()}))

    return call
