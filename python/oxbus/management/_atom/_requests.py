# SPDX-License-Identifier: Apache-2.0
"""Requests with tokens, retries, and the errors of `oxbus.exceptions`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NoReturn

from oxbus._remote._http import AnswerLate, AnswerLost, NotSent, RequestFailed
from oxbus.exceptions import OperationTimeoutError, ServiceBusCommunicationError, ServiceBusConnectionError
from oxbus.management._atom._errors import error_of, is_worth_a_retry, retry_after

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oxbus._remote._address import HttpAddress
    from oxbus._remote._credentials import RequestCredential
    from oxbus._remote._http import HttpAnswer, HttpClient
    from oxbus._remote._retry import RetryOptions
    from oxbus.management._atom._errors import AtomCall

ATOM_TYPE: Final = "application/atom+xml;type=entry;charset=utf-8"
_METHODS: Final = {
    "get": "GET",
    "create": "PUT",
    "update": "PUT",
    "delete": "DELETE",
    "purge": "POST",
    "resubmit": "POST",
}
_SUCCESSES: Final = {
    "get": {200},
    "create": {200, 201},
    "update": {200, 201},
    "delete": {200, 204},
    "purge": {200},
    "resubmit": {200},
}

sleep = time.sleep
"""Waits before a retry; a test replaces it."""


class AtomRequests:
    """Sends the requests of administration calls."""

    def __init__(
        self, http: HttpClient, address: HttpAddress, credential: RequestCredential, retry: RetryOptions, version: str
    ) -> None:
        """Create it.

        Args:
            http: Sends a request.
            address: The server.
            credential: Gives tokens.
            retry: When to try again.
            version: The version of the service's management interface, such as ``"2024-05"``.
        """
        self._http = http
        self._credential = credential
        self._retry = retry
        self._version = version
        self._namespace = f"{address.scheme}://{address.authority}"
        self.shown: Final = address.shown

    def send(
        self,
        call: AtomCall,
        target: str,
        *,
        query: str = "",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """Send a request until it succeeds, fails, or has no retry left.

        Args:
            call: What it is for.
            target: The path, escaped.
            query: Further parameters, each with a leading ``&``.
            body: The body.
            headers: Further headers.

        Raises:
            ServiceBusError: It failed.
        """
        retry = 0
        while True:
            asked = None
            try:
                answer = self._try(call, target, query, body, headers or {})
            except RequestFailed as failure:
                if retry >= self._retry.total or not _may_retry(call, failure):
                    self._raise_failed(call, failure)
            else:
                if answer.status in _SUCCESSES[call.verb]:
                    return answer
                if retry >= self._retry.total or not is_worth_a_retry(call, answer):
                    raise error_of(call, answer, self.shown)
                asked = retry_after(answer)
            sleep(self._retry.delay(retry, asked))
            retry += 1

    def token(self, address: str) -> str:
        """Return a token for another entity, such as the destination of forwarding."""
        return self._credential.authorization(address)

    def close(self) -> None:
        """Close the idle connections."""
        self._http.close()

    def _try(
        self, call: AtomCall, target: str, query: str, body: bytes | None, headers: Mapping[str, str]
    ) -> HttpAnswer:
        own = {
            "Accept": "application/atom+xml, application/xml",
            "Authorization": self._credential.authorization(f"{self._namespace}{target}"),
            "User-Agent": "oxbus",
        }
        if body is not None:
            own["Content-Type"] = ATOM_TYPE
        if call.verb == "update":
            own["If-Match"] = "*"
        return self._http.request(
            _METHODS[call.verb], f"{target}?api-version={self._version}{query}", own | dict(headers), body
        )

    def _raise_failed(self, call: AtomCall, failure: RequestFailed) -> NoReturn:
        text = f"{failure}, {call.verb} `{call.path}`"
        effect = None if isinstance(failure, NotSent) else call.effect_of_a_lost_answer
        if isinstance(failure, AnswerLate):
            raise OperationTimeoutError(text, effect=effect, error=failure.__cause__) from failure.__cause__
        if isinstance(failure, NotSent | AnswerLost):
            raise ServiceBusConnectionError(text, effect=effect, error=failure.__cause__) from failure.__cause__
        raise ServiceBusCommunicationError(text, effect=effect, error=failure.__cause__) from failure.__cause__


def _may_retry(call: AtomCall, failure: RequestFailed) -> bool:
    """Return whether another try cannot do the work twice."""
    return isinstance(failure, NotSent) or (isinstance(failure, AnswerLost) and call.is_repeatable)
