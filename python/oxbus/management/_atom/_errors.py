# SPDX-License-Identifier: Apache-2.0
"""From the status of an answer to the exception that the call raises.

Source: docs/behaviour.md B-455, B-459, B-463, B-464.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from oxbus.exceptions import (
    InvalidOperationError,
    InvalidRequestError,
    InvalidRuleError,
    MessagingEntityAlreadyExistsError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusCommunicationError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    ServiceBusServerBusyError,
)
from oxbus.management._atom._xml import MalformedXmlError, parse

if TYPE_CHECKING:
    from oxbus._remote._http import HttpAnswer
    from oxbus.exceptions import Effect

_SUB_CODE: Final = re.compile(r"SubCode=(\d{3,5})\.?\s*")
_MISSING_RIGHT: Final = 40100
_FORBIDDEN_OPERATION: Final = 40301
_CONFLICTING_OPERATION: Final = 40901
_DETAIL_MAX: Final = 1000
"""Longest text of a server in an error."""

BAD_REQUEST: Final = 400
CONFLICT: Final = 409
NOT_IMPLEMENTED: Final = 501
GATEWAY_TIMEOUT: Final = 504

REFUSED_FOR_NOW: Final = frozenset({408, 429, 503})
"""The server did nothing; the same request may succeed later."""

MAY_HAVE_WORKED: Final = frozenset({500, 502, GATEWAY_TIMEOUT})
"""The server, or something between, failed; the work may be done."""

_REFUSALS: Final[dict[int, type[ServiceBusError]]] = {
    BAD_REQUEST: InvalidRequestError,
    401: ServiceBusAuthenticationError,
    403: ServiceBusQuotaExceededError,
    405: InvalidRequestError,
    408: OperationTimeoutError,
    412: InvalidRequestError,
    413: InvalidRequestError,
    414: InvalidRequestError,
    429: ServiceBusServerBusyError,
    431: InvalidRequestError,
    503: ServiceBusServerBusyError,
}
_REFUSALS_BY_SUB_CODE: Final[dict[tuple[int, int | None], type[ServiceBusError]]] = {
    (401, _MISSING_RIGHT): ServiceBusAuthorizationError,
    (403, _FORBIDDEN_OPERATION): InvalidOperationError,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomCall:
    """What a request is for.

    Attributes:
        verb: ``"get"``, ``"create"``, ``"update"``, ``"delete"``, ``"purge"`` or ``"resubmit"``.
        path: The path of its resource, such as ``news/subscriptions/all``.
        is_rule: Whether the resource is a rule.
    """

    verb: str
    path: str
    is_rule: bool = False

    @property
    def is_repeatable(self) -> bool:
        """Whether doing it twice has the effect of doing it once, and the same answer."""
        return self.verb in {"get", "update"}

    @property
    def effect_of_a_lost_answer(self) -> Effect:
        """The effect of a call whose answer is missing."""
        return "none" if self.verb == "get" else "unknown"


def retry_after(answer: HttpAnswer) -> float | None:
    """Return the seconds that a server asks to wait before the next try; None if it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("x-ms-retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = answer.headers.get(name, "").strip()
        if text.isdigit():
            return min(int(text[:12]), 10**9) * unit
        if text and name == "retry-after":
            try:
                return max(parsedate_to_datetime(text).timestamp() - time.time(), 0)
            except ValueError:
                return None
    return None


def is_worth_a_retry(call: AtomCall, answer: HttpAnswer) -> bool:
    """Return whether the request may be sent again after this answer."""
    if answer.status in REFUSED_FOR_NOW or _is_conflicting(answer):
        return True
    return answer.status in MAY_HAVE_WORKED and call.is_repeatable


def error_of(call: AtomCall, answer: HttpAnswer, shown: str) -> ServiceBusError:
    """Return the error for an answer that is no success.

    Args:
        call: What the request was for.
        answer: The answer.
        shown: The address of the server.
    """
    sub_code, detail = _detail(answer)
    where = f"{call.verb} `{call.path}`, server=`{shown}`, status={answer.status}"
    text = f"{detail}: {where}" if detail else where
    status = answer.status
    if status in {404, 410}:
        return not_found(call, shown, detail)
    if 300 <= status < 400:  # noqa: PLR2004 (redirects)
        return _redirected(answer, where)
    if status in MAY_HAVE_WORKED:
        raised = OperationTimeoutError if status == GATEWAY_TIMEOUT else ServiceBusError
        return raised(
            f"the server failed; check whether the call took effect, then repeat it: {text}",
            effect=call.effect_of_a_lost_answer,
        )
    if status == NOT_IMPLEMENTED:
        return InvalidOperationError(text, condition="amqp:not-implemented")
    return _refusal(call, status, sub_code)(text)


def _refusal(call: AtomCall, status: int, sub_code: int | None) -> type[ServiceBusError]:
    """Return the class of error for a status with which the server did nothing."""
    if status == CONFLICT:
        is_existing = call.verb == "create" and sub_code != _CONFLICTING_OPERATION
        return MessagingEntityAlreadyExistsError if is_existing else ServiceBusServerBusyError
    if status == BAD_REQUEST and call.is_rule:
        return InvalidRuleError
    specific = _REFUSALS_BY_SUB_CODE.get((status, sub_code))
    return specific or _REFUSALS.get(status, ServiceBusError)


def not_found(call: AtomCall, shown: str, detail: str = "") -> MessagingEntityNotFoundError:
    """Return the error for a missing entity."""
    happened = detail or "the entity does not exist; create it first, or check its name"
    where = f"entity=`{call.path}`" + (f", server=`{shown}`" if shown else "")
    return MessagingEntityNotFoundError(f"{happened}: {where}")


def unusable(call: AtomCall, shown: str, why: object) -> ServiceBusCommunicationError:
    """Return the error for an answer that is no Atom document."""
    return ServiceBusCommunicationError(
        f"the answer is not the administration of Service Bus ({why}); check host and port: "
        f"{call.verb} `{call.path}`, server=`{shown}`",
        effect=call.effect_of_a_lost_answer,
    )


def _redirected(answer: HttpAnswer, where: str) -> ServiceBusCommunicationError:
    target = answer.headers.get("location", "")[:_DETAIL_MAX]
    return ServiceBusCommunicationError(
        "the server redirects to another address, which gets no token; "
        f"if you trust that address, name it in the endpoint: location=`{target}`, {where}"
    )


def _is_conflicting(answer: HttpAnswer) -> bool:
    return answer.status == CONFLICT and _detail(answer)[0] == _CONFLICTING_OPERATION


def _detail(answer: HttpAnswer) -> tuple[int | None, str]:
    """Return the sub code and the text of ``<Error><Code/><Detail/></Error>``, or a plain text."""
    try:
        text = parse(answer.body).text_of("Detail") or ""
    except MalformedXmlError:
        is_text = answer.headers.get("content-type", "").startswith("text/plain")
        text = answer.body.decode(errors="replace") if is_text else ""
    text = " ".join(text[:_DETAIL_MAX].split())
    found = _SUB_CODE.search(text)
    return (int(found[1]) if found else None), _SUB_CODE.sub("", text, count=1).rstrip(". ")
