# SPDX-License-Identifier: Apache-2.0
"""A server that is away, breaks off, is busy, or is not what it seems: each call ends, with an error that helps."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest
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
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    ServiceBusServerBusyError,
)
from oxbus.management import ServiceBusAdministrationClient, SqlRuleFilter
from scripted_http import CLOSE, SILENCE, answer, entry, error, feed

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE = answer(200, entry())
MADE = answer(201, entry())

CALLS: dict[str, Callable[[Any], object]] = {
    "get": lambda admin: admin.get_queue("orders"),
    "create": lambda admin: admin.create_queue("orders"),
    "delete": lambda admin: admin.delete_subscription("news", "all"),
    "list": lambda admin: list(admin.list_queues()),
}


def free_port() -> int:
    """A port of loopback at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_server_is_away(waits: list[float], call: Callable[[Any], object]) -> None:
    """Every call is tried again, since the server did nothing; the error says where it tried to connect."""
    port = free_port()
    text = f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true"
    admin = ServiceBusAdministrationClient.from_connection_string(text, retry_total=2)
    with pytest.raises(ServiceBusConnectionError, match=rf"cannot connect .*http://127\.0\.0\.1:{port}") as caught:
        call(admin)
    assert caught.value.effect is None
    assert isinstance(caught.value.inner_exception, OSError)
    assert waits == [0.8, 1.6]


def test_server_comes_back(scripted: Any, waits: list[float]) -> None:
    """A read is repeated after each kind of broken answer, with the waits of the options."""
    options: dict[str, Any] = {"retry_total": 5, "retry_backoff_factor": 1, "retry_backoff_max": 3}
    admin, server = scripted(CLOSE, QUEUE[:20], QUEUE[:-1], answer(500), answer(503), QUEUE, **options)
    assert admin.get_queue("orders").name == "orders"
    assert len(server.requests) == 6
    assert waits == [1, 2, 3, 3, 3]


def test_fixed_mode(scripted: Any, waits: list[float]) -> None:
    """The waits stay the same."""
    admin, _ = scripted(CLOSE, retry_total=3, retry_mode="fixed", retry_backoff_factor=0.5)
    with pytest.raises(ServiceBusConnectionError):
        admin.get_queue("orders")
    assert waits == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("lost", [CLOSE, MADE[:20], MADE[:-1], answer(500), answer(502), answer(504)])
@pytest.mark.parametrize("name", ["create", "delete"])
def test_lost_answer_of_a_call_that_is_not_repeatable(scripted: Any, lost: bytes, name: str) -> None:
    """Creating and deleting are not tried again: the work may be done, and the second try would fail."""
    admin, server = scripted(lost, MADE)
    with pytest.raises(ServiceBusError, match="check whether the call took effect") as caught:
        CALLS[name](admin)
    assert caught.value.effect == "unknown"
    assert len(server.requests) == 1


def test_lost_answer_of_an_update(scripted: Any) -> None:
    """An update is repeated, because doing it twice has the effect of doing it once."""
    admin, server = scripted(QUEUE, CLOSE, answer(500), QUEUE)
    admin.update_queue(admin.get_queue("orders"))
    assert [request.method for request in server.requests] == ["GET", "PUT", "PUT", "PUT"]
    assert [request.headers.get("if-match") for request in server.requests] == [None, "*", "*", "*"]


@pytest.mark.parametrize("name", ["get", "create"])
def test_silent_server(scripted: Any, name: str) -> None:
    """The call times out, and the error says whether it may have taken effect."""
    admin, _ = scripted(SILENCE, read_timeout=0.05, retry_total=0)
    with pytest.raises(OperationTimeoutError, match=r"did not answer within 0\.05 s") as caught:
        CALLS[name](admin)
    assert caught.value.effect == ("none" if name == "get" else "unknown")


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, 0.8),
        ({"Retry_After": "7"}, 7),
        ({"Retry_After": "0"}, 0),
        ({"Retry_After": "100000"}, 120),
        ({"Retry_After": "soon"}, 0.8),
        ({"retry_after_ms": "250"}, 0.25),
        ({"Retry_After": "Mon, 01 Jan 2001 00:00:00 GMT"}, 0),
    ],
)
def test_busy_server(scripted: Any, waits: list[float], status: int, headers: dict[str, str], wait: float) -> None:
    """Creating is tried again, too, because the server did nothing; the server says when."""
    admin, server = scripted(error(status, "SubCode=50004. Busy", **headers), MADE)
    admin.create_queue("orders")
    assert waits == [wait]
    assert len(server.requests) == 2


def test_busy_server_names_a_date(scripted: Any, waits: list[float]) -> None:
    """The wait ends at that time."""
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    admin, _ = scripted(error(503, "Busy", Retry_After=later), QUEUE)
    admin.get_queue("orders")
    assert 0 < waits[0] <= 100


def test_server_stays_busy(scripted: Any, waits: list[float]) -> None:
    """The last error is raised when no retry is left."""
    admin, server = scripted(error(503, "SubCode=50004. The service is busy"), retry_total=2)
    with pytest.raises(ServiceBusServerBusyError, match="The service is busy: create `orders`") as caught:
        admin.create_queue("orders")
    assert caught.value.is_transient
    assert (len(server.requests), len(waits)) == (3, 2)


def test_conflicting_change_is_tried_again(scripted: Any) -> None:
    """B-463: another change is in progress, which is not an existing entity."""
    admin, server = scripted(error(409, "SubCode=40901. Another conflicting operation is in progress"), MADE)
    admin.create_queue("orders")
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "detail", "expected"),
    [
        (400, "SubCode=40000. Bad", InvalidRequestError),
        (401, "SubCode=40100. Manage is missing", ServiceBusAuthorizationError),
        (401, "SubCode=40103. Bad signature", ServiceBusAuthenticationError),
        (401, "", ServiceBusAuthenticationError),
        (403, "SubCode=40300. Full", ServiceBusQuotaExceededError),
        (403, "SubCode=40301. Never", InvalidOperationError),
        (404, "SubCode=40400. Not found", MessagingEntityNotFoundError),
        (405, "", InvalidRequestError),
        (409, "SubCode=40900. Exists", MessagingEntityAlreadyExistsError),
        (410, "", MessagingEntityNotFoundError),
        (418, "Teapot", ServiceBusError),
        (501, "", InvalidOperationError),
    ],
)
def test_refusal(scripted: Any, status: int, detail: str, expected: type[ServiceBusError]) -> None:
    """B-463, B-464: each status is one exception, and is not tried again."""
    admin, server = scripted(error(status, detail))
    with pytest.raises(expected) as caught:
        admin.create_queue("orders")
    assert type(caught.value) is expected
    assert detail.partition(". ")[2] in str(caught.value)
    assert "SubCode" not in str(caught.value)
    assert len(server.requests) == 1


def test_refused_rule(scripted: Any) -> None:
    """A bad request for a rule is an error of the rule, as in process."""
    admin, _ = scripted(error(400, "SubCode=40000. Syntax"))
    with pytest.raises(InvalidRuleError, match="Syntax"):
        admin.create_rule("news", "all", "first", filter=SqlRuleFilter("a ="))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "reply",
    [b"AMQP\x03\x01\x00\x00", b"SSH-2.0-OpenSSH_9.6\r\n", b"\x15\x03\x03\x00\x02\x02\x16", b"\x00" * 200],
    ids=["amqp", "ssh", "tls", "zeros"],
)
def test_garbage(scripted: Any, reply: bytes, name: str) -> None:
    """Something else listens at the port: it is said, and not tried again."""
    admin, server = scripted(reply)
    with pytest.raises(ServiceBusCommunicationError, match="not HTTP; check the port"):
        CALLS[name](admin)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        "",
        "healthy",
        "{}",
        "<html><body>Sign in</body></html>",
        "<entry/>",
        f"<entry>{'x' * 100}</entry>",
        entry(description="<LockDuration>an hour</LockDuration>"),
        entry(description="<MaxDeliveryCount>many</MaxDeliveryCount>"),
        entry(description=f"<MaxDeliveryCount>{'9' * 5000}</MaxDeliveryCount>"),
        entry(description="<CreatedAt>yesterday</CreatedAt>"),
    ],
)
def test_answer_is_no_entry(scripted: Any, body: str) -> None:
    """A web server, a sign-in page, or values that cannot be read."""
    admin, _ = scripted(answer(200, body))
    with pytest.raises(ServiceBusCommunicationError, match="check host and port"):
        admin.get_queue("orders")


def test_answer_is_no_list(scripted: Any) -> None:
    """An entry in place of a list."""
    admin, _ = scripted(QUEUE)
    with pytest.raises(ServiceBusCommunicationError, match="no list"):
        list(admin.list_queues())


def test_empty_feed_is_a_missing_entity(scripted: Any) -> None:
    """B-459: the service's answer for an entity that does not exist."""
    admin, _ = scripted(answer(200, feed()))
    with pytest.raises(MessagingEntityNotFoundError, match="orders"):
        admin.get_queue("orders")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect_is_not_followed(scripted: Any, status: int) -> None:
    """A token is for one server; the error names the other one."""
    target = "https://elsewhere.example.net/orders"
    admin, server = scripted(answer(status, Location=target))
    with pytest.raises(ServiceBusCommunicationError, match=f"redirects.*{target}"):
        admin.get_queue("orders")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        answer(200, b"x" * (17 << 20)),
        b"HTTP/1.1 400 Bad\r\n\r\n" + b"x" * (17 << 20),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"100000\r\n" + b"x" * (1 << 20) + b"\r\n") * 17,
    ],
    ids=["length", "until the end", "chunked"],
)
def test_answer_is_too_large(scripted: Any, reply: bytes) -> None:
    """The client stops reading; it does not keep what it got."""
    admin, _ = scripted(reply)
    with pytest.raises(ServiceBusCommunicationError, match="larger than 16 MiB"):
        admin.get_queue("orders")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + entry("&b;"), "document type"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd">' + entry(), "document type"),
        (entry("&undefined;"), "undefined entity"),
        ("<a>" * 100 + "</a>" * 100, "levels"),
        (f"<a>{'<b/>' * 100_001}</a>", "elements"),
    ],
    ids=["billion laughs", "external", "undefined entity", "deep", "wide"],
)
def test_hostile_xml(scripted: Any, body: str, why: str) -> None:
    """A document type is refused before anything of it is read; the size of a document is limited."""
    admin, _ = scripted(answer(200, body))
    with pytest.raises(ServiceBusCommunicationError, match=why):
        admin.get_queue("orders")
    admin, _ = scripted(answer(400, body))
    with pytest.raises(InvalidRequestError):
        admin.get_queue("orders")


def test_list_that_never_ends(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client stops at a number of pages."""
    monkeypatch.setattr("oxbus.management._atom._transport.PAGES_MAX", 5)
    admin, server = scripted(answer(200, feed(entry(), has_next=True)))
    with pytest.raises(ServiceBusCommunicationError, match="more than 5 pages"):
        list(admin.list_queues())
    assert len(server.requests) == 5


def test_pages_may_be_small(scripted: Any) -> None:
    """A server may return less than asked for; the list goes on after what it returned."""
    pages = [answer(200, feed(entry("a"), entry("b"), has_next=True)), answer(200, feed(entry("c")))]
    admin, server = scripted(*pages)
    assert [queue.name for queue in admin.list_queues()] == ["a", "b", "c"]
    assert [request.target.partition("$skip=")[2] for request in server.requests] == ["0&$top=100", "2&$top=100"]


def test_values_that_a_server_may_omit_or_invent(scripted: Any) -> None:
    """Missing values are None, and an unknown status is `Unknown`."""
    admin, _ = scripted(answer(200, entry(description="<Status>Sleeping</Status><New>1</New>")))
    queue = admin.get_queue("orders")
    assert (queue.status, queue.lock_duration, queue.forward_to) == ("Unknown", None, None)
    counts = admin.get_queue_runtime_properties("orders")
    assert (counts.active_message_count, counts.locked_message_count, counts.partitions) == (0, None, ())
    assert counts.accessed_at_utc.year == 1


def test_no_error_shows_the_key(scripted: Any) -> None:
    """Neither the text nor the causes contain the key or a signature."""
    for reply in (CLOSE, b"garbage\r\n", answer(401), answer(500), answer(200, "x")):
        admin, server = scripted(reply, retry_total=0)
        with pytest.raises(ServiceBusError) as caught:
            admin.get_queue("orders")
        signature = server.requests[0].headers["authorization"].partition("sig=")[2].partition("&")[0]
        shown: BaseException | None = caught.value
        while shown is not None:
            assert "secret-key" not in repr(shown)
            assert signature not in repr(shown)
            shown = shown.__cause__ or shown.__context__
