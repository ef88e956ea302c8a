# SPDX-License-Identifier: Apache-2.0
"""Who may open the console, and what a browser is told to protect.

Source: docs/guide/console.md, "Access".
"""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
import ssl
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from console_http import Console
from oxbus.management import AuthorizationRule, ServiceBusAdministrationClient
from oxbus.server import replace_authorization_rules, serve
from signatures import KEY, KEY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxbus import Namespace
    from oxbus.server import Server

CHANGES: dict[str, dict[str, Any]] = {
    "settings": {"path": "orders", "name": "max_delivery_count", "value": 3},
    "rule": {"path": "news/Subscriptions/all", "name": "r", "kind": "true"},
    "rule-delete": {"path": "news/Subscriptions/all", "name": "$Default"},
    "send": {"path": "orders", "body": ""},
    "send-edited": {"path": "orders/$deadletterqueue", "body": "", "number": "1"},
    "resubmit": {"path": "orders"},
    "purge": {"path": "orders/$deadletterqueue", "confirmation": "orders"},
    "job-cancel": {"id": 1},
    "heal": {"partition": 0},
}
"""Every change of the console."""


@pytest.fixture
def entities(admin: ServiceBusAdministrationClient) -> None:
    """The entities that the changes name."""
    admin.create_queue("orders")
    admin.create_topic("news")
    admin.create_subscription("news", "all")


def test_without_the_option_there_is_no_console(bus: Namespace) -> None:
    """In process it is off by default, and the paths mean what they meant."""
    with serve(bus) as server:
        browser = Console(server)
        assert browser.ask("GET", "/$console/", Accept="text/html").status != HTTPStatus.OK
        assert browser.ask("GET", "/", Accept="text/html").status == HTTPStatus.BAD_REQUEST


def test_the_root_leads_a_browser_to_the_console(server: Server) -> None:
    """Other clients get the answer that they got before."""
    browser = Console(server)
    answer = browser.ask("GET", "/", Accept="text/html,*/*")
    assert (answer.status, answer.headers["location"]) == (HTTPStatus.SEE_OTHER, "/$console/")
    assert browser.ask("GET", "/").status == HTTPStatus.BAD_REQUEST
    assert browser.ask("GET", "/$console").headers["location"] == "/$console/"


def test_pages_load_only_their_own_files_and_no_inline_script(server: Server) -> None:
    """The page has a strict policy; the files that it names exist and are kept for ever."""
    browser = Console(server)
    page = browser.ask("GET", "/$console/entity?path=x")
    text = gzip.decompress(page.body).decode()
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<script(?![^>]* src=)|<style|style=|https?://|onclick", text)
    files = re.findall(r'(?:src|href)="(/[^"]+)"', text)
    assert len(files) == 2
    for file in files:
        answer = browser.ask("GET", file)
        assert answer.status == HTTPStatus.OK
        assert "immutable" in answer.headers["cache-control"]
    assert browser.ask("GET", "/$console/assets/other.js").status == HTTPStatus.NOT_FOUND
    again = browser.ask("GET", "/$console/", If_None_Match=page.headers["etag"])
    assert again.status == HTTPStatus.NOT_MODIFIED


def test_signing_in_sets_a_cookie_that_scripts_and_other_sites_cannot_use(server: Server) -> None:
    """Until then nothing is shown."""
    browser = Console(server)
    assert browser.get("state")["signed_in"] is None
    for resource in ("overview", "messages?path=orders", "live?resource=overview", "connections"):
        assert browser.ask("GET", f"/$console/api/{resource}").status == HTTPStatus.UNAUTHORIZED
    answer = browser.sign_in()
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Path=/$console" in cookie
    assert "Secure" not in cookie, "loopback without TLS"
    assert browser.get("state")["signed_in"]["rights"] == ["Manage", "Send", "Listen"]
    browser.post("sign-out")
    assert browser.get("state")["signed_in"] is None
    assert browser.ask("GET", "/$console/api/overview").status == HTTPStatus.UNAUTHORIZED


def test_failed_attempts_are_limited(server: Server) -> None:
    """After five in a minute even the right key has to wait; the answer does not tell which part was wrong."""
    browser = Console(server)
    details = {json.loads(browser.sign_in(name, key).body)["error"] for name, key in [(KEY_NAME, "x"), ("x", KEY)]}
    assert len(details) == 1
    for _ in range(3):
        assert browser.sign_in(KEY_NAME, "wrong").status == HTTPStatus.UNAUTHORIZED
    answer = browser.sign_in()
    assert answer.status == HTTPStatus.TOO_MANY_REQUESTS
    assert 0 < int(answer.headers["retry-after"]) <= 60


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "oxbus"])
def test_other_host_names_are_refused(server: Server, host: str) -> None:
    """Otherwise a page of another site could point its own name at the server (DNS rebinding)."""
    browser = Console(server)
    for path in ("/$console/", "/$console/api/state"):
        answer = browser.ask("GET", path, Host=host)
        assert answer.status == HTTPStatus.MISDIRECTED_REQUEST, answer
        assert b"--console-host" in answer.body


def test_further_host_names_are_an_option(bus: Namespace) -> None:
    """A server behind a name."""
    with serve(bus, console=True, console_hosts=["bus.example"]) as server:
        assert Console(server).ask("GET", "/$console/api/state", Host="BUS.example:443").status == HTTPStatus.OK


@pytest.mark.usefixtures("entities")
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_needs_the_token_against_forgery(console: Console, change: str) -> None:
    """A page of another site has the cookie of no request, and could not know the token."""
    for csrf in ("", "guessed"):
        console.csrf = csrf
        answer = console.try_post(change, **CHANGES[change])
        assert answer.status == HTTPStatus.FORBIDDEN, answer
        assert b"forgery" in answer.body


def test_requests_from_pages_of_other_sites_are_refused(console: Console) -> None:
    """Browsers tell where a request comes from; forms cannot send JSON."""
    path = "/$console/api/overview"
    assert console.ask("GET", path, Sec_Fetch_Site="cross-site").status == HTTPStatus.FORBIDDEN
    assert console.ask("GET", path, Sec_Fetch_Site="same-origin").status == HTTPStatus.OK
    answer = console.ask("POST", "/$console/api/heal", "{}", Content_Type="text/plain", X_CSRF_Token=console.csrf)
    assert answer.status == HTTPStatus.UNSUPPORTED_MEDIA_TYPE


@pytest.fixture
def limited(bus: Namespace) -> Iterator[Server]:
    """A server with a key for each right."""
    rights: list[list[Any]] = [["Listen"], ["Send"], ["Send", "Listen"]]
    rules = [AuthorizationRule(key_name="-".join(it), primary_key=KEY + "x" * 40, rights=it) for it in rights]
    with serve(bus, rules=rules, console=True) as server:
        yield server


@pytest.mark.usefixtures("entities")
@pytest.mark.parametrize("change", CHANGES)
def test_listen_looks_and_changes_nothing(limited: Server, change: str) -> None:
    """The right to manage changes; the right to send sends."""
    looker = Console(limited)
    assert looker.sign_in("Listen", KEY + "x" * 40).status == HTTPStatus.OK
    assert [row["name"] for row in looker.get("overview")["page"]["rows"]]
    answer = looker.try_post(change, **CHANGES[change])
    assert answer.status == HTTPStatus.FORBIDDEN, answer
    assert b"has not the right" in answer.body


@pytest.mark.usefixtures("entities")
def test_send_alone_opens_nothing_and_with_listen_it_sends(limited: Server) -> None:
    """Who may only send may not look."""
    assert Console(limited).sign_in("Send", KEY + "x" * 40).status == HTTPStatus.UNAUTHORIZED
    sender = Console(limited)
    sender.sign_in("Send-Listen", KEY + "x" * 40)
    assert sender.post("send", **CHANGES["send"])["number"]
    assert sender.try_post("purge", **CHANGES["purge"]).status == HTTPStatus.FORBIDDEN


def test_a_sign_in_ends_with_its_key(console: Console, server: Server) -> None:
    """Rotated keys lock out those who signed in with the old one."""
    console.get("overview")
    replace_authorization_rules(
        server, [AuthorizationRule(key_name=KEY_NAME, primary_key="another" * 8, rights=["Manage", "Send", "Listen"])]
    )
    assert console.ask("GET", "/$console/api/overview").status == HTTPStatus.UNAUTHORIZED


def test_off_loopback_it_needs_tls_and_the_cookie_is_secure(bus: Namespace) -> None:
    """Keys and messages never cross a network in clear text."""
    rules = [AuthorizationRule(key_name="root", primary_key=KEY * 4, rights=["Manage", "Send", "Listen"])]
    with serve(bus, host="0.0.0.0", rules=rules, console=True) as server:  # noqa: S104 (that is what is tested)
        plain = http.client.HTTPConnection("127.0.0.1", server.port)
        plain.request("GET", "/$console/")
        answer = plain.getresponse()
        assert (answer.status, b"TLS" in answer.read()) == (HTTPStatus.FORBIDDEN, True)
        plain.close()
        trusting = ssl.create_default_context(cadata=server.certificate)
        secure = http.client.HTTPSConnection("127.0.0.1", server.port, context=trusting)
        body = json.dumps({"key_name": "root", "key": KEY * 4})
        secure.request("POST", "/$console/api/sign-in", body, {"Content-Type": "application/json"})
        answer = secure.getresponse()
        assert answer.status == HTTPStatus.OK
        assert "; Secure" in str(answer.getheader("set-cookie"))
        secure.close()


LOGGED = """
from console_http import Console
from oxbus import Namespace
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve
from printed_log import print_log

print_log()
with Namespace() as bus, serve(bus, console=True) as server:
    ServiceBusAdministrationClient(bus).create_queue("orders")
    console = Console(server)
    console.sign_in()
    for _ in range(20):
        console.post("send", path="orders", body="")
    console.post("settings", path="orders", name="max_delivery_count", value=3)
"""


def test_every_change_is_a_log_line(tmp_path: Path) -> None:
    """With who, from where, what and how many; none is left out, however many there are."""
    kit = Path(__file__).parents[1] / "kit"
    path = os.pathsep.join([str(kit), str(kit.parent / "logging/kit")])
    done = subprocess.run(
        [sys.executable, "-c", LOGGED],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        check=True,
        capture_output=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    lines = [line for line in lines if line["event"].startswith("console.")]
    assert [line.get("action", "sign in") for line in lines] == ["sign in", *["send"] * 20, "update"]
    assert {line["key_name"] for line in lines} == {KEY_NAME}
    assert all(line["peer"].startswith("127.0.0.1:") for line in lines)
    assert {line["entity"] for line in lines[1:]} == {"orders"}


@pytest.mark.parametrize(("options", "status"), [([], HTTPStatus.OK), (["--no-console"], HTTPStatus.UNAUTHORIZED)])
def test_the_command_serves_the_console_unless_it_is_switched_off(options: list[str], status: HTTPStatus) -> None:
    """On by default for `oxbus serve`."""
    command = [sys.executable, "-m", "oxbus.cli", "serve", "--memory", "--amqp-port", "0", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["amqp_port"]
        server: Any = SimpleNamespace(host="127.0.0.1", port=port)
        # Without the console the path names an entity, for which a token is missing.
        answer = Console(server).ask("GET", "/$console/api/state")
        process.terminate()
        assert process.wait(60) == 0
        assert answer.status == status
