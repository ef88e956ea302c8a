# SPDX-License-Identifier: Apache-2.0
"""Hostile bodies, names and properties are text on every page, and nothing else.

Source: docs/guide/console.md, "Access"; tests/kit/hostile.py has the corpus.
"""

from __future__ import annotations

import base64
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hostile import BODIES, TEXTS
from oxbus import ServiceBusMessage
from oxbus.exceptions import ServiceBusError

if TYPE_CHECKING:
    from console_browser import Person
    from console_http import Console
    from oxbus import ServiceBusClient
    from oxbus.management import ServiceBusAdministrationClient

DEAD = "/$deadletterqueue"


def is_untouched(person: Person) -> bool:
    """Whether no text ran, and no text became an element."""
    found: dict[str, Any] = person.page.evaluate(
        "() => ({ran: '__pwned' in window,"
        " strange: document.querySelectorAll('iframe, img, form[action], base').length,"
        " scripts: document.scripts.length, meta: document.querySelectorAll('meta[http-equiv]').length})"
    )
    return found == {"ran": False, "strange": 0, "scripts": 1, "meta": 0}


@pytest.fixture
def hostile(admin: ServiceBusAdministrationClient, client: ServiceBusClient) -> None:
    """A queue with a message for each body of the corpus, and each text in each field, and as dead letters."""
    admin.create_queue("orders", enable_partitioning=True, user_metadata=TEXTS["script"])
    admin.create_queue("sessions", enable_partitioning=True, requires_session=True)
    admin.create_topic("news")
    admin.create_subscription("news", "all")
    for name, body in BODIES.items():
        text = TEXTS.get(name, name)[:120]
        message = ServiceBusMessage(body, message_id=text, subject=text, correlation_id=text, content_type="text/html")
        message.application_properties = {text: text, "number": 1}
        with client.get_queue_sender("orders") as sender:
            sender.send_messages(message)
        with client.get_queue_sender("sessions") as sender:
            sender.send_messages(ServiceBusMessage(body, session_id=text))
    with client.get_queue_receiver("orders") as receiver:
        for message in receiver.receive_messages(len(BODIES), max_wait_time=5):
            text = str(message.subject)
            receiver.dead_letter_message(message, reason=text, error_description=text)
    with client.get_queue_sender("orders") as sender:
        for name, body in BODIES.items():
            text = TEXTS.get(name, name)[:120]
            sender.send_messages(ServiceBusMessage(body, subject=text, application_properties={text: text}))


@pytest.mark.usefixtures("hostile")
def test_hostile_bodies_and_properties_come_back_as_they_are(console: Console) -> None:
    """The server changes no byte, and splits no event."""
    found = {}
    page: dict[str, Any] = {"next": "0"}
    while page["next"] is not None:
        page = console.get("messages", path="orders" + DEAD, **{"from": page["next"]})
        for brief in page["messages"]:
            shown = console.get("message", path="orders" + DEAD, number=brief["number"])
            found[shown["subject"]] = base64.b64decode(shown["body"])
    assert found == {TEXTS.get(name, name)[:120]: body for name, body in BODIES.items()}
    connection, stream = console.live("dead-letters?path=orders")
    lines = [stream.readline(), stream.readline()]
    assert (lines[0].startswith(b"data: {"), lines[1]) == (True, b"\n")
    connection.close()


@pytest.mark.usefixtures("hostile")
@pytest.mark.timeout(300)
def test_hostile_texts_are_shown_and_nothing_runs(person: Person) -> None:
    """In lists, in a message with all its views, in dead letters, sessions, rules and settings."""
    for page, query in [
        ("messages", {"path": "orders"}),
        ("messages", {"path": "orders", "queue": "dead"}),
        ("dead-letters", {"path": "orders"}),
        ("sessions", {"path": "sessions"}),
        ("entity", {"path": "orders"}),
        ("locks", {"path": "orders"}),
        ("connections", {}),
    ]:
        person.open(page, **query)
        person.page.get_by_role("table").first.wait_for()
        assert is_untouched(person), page
    person.open("messages", path="orders", queue="dead")
    for at in range(len(BODIES)):
        link = person.table("Dead letters").get_by_role("link").nth(at)
        if link.count() == 0:
            break
        link.click()
        views = person.page.get_by_label("Body as")
        views.wait_for()
        for option in views.locator("option").all():
            views.select_option(option.evaluate("option => option.value"))
        assert is_untouched(person), at
        person.page.keyboard.press("Escape")
        person.page.get_by_role("dialog").wait_for(state="detached")
    assert at >= 30
    person.open("dead-letters", path="orders")
    assert person.page.get_by_text(TEXTS["script"]).first.is_visible()


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_hostile_searches_and_addresses_are_texts_too(console: Console, name: str) -> None:
    """As names of entities, sessions, filters and keys."""
    text = TEXTS[name][:2_000]
    assert console.get("overview", search=text)["page"]["rows"] == []
    assert console.get("messages", path="orders", text="zzz" + text)["messages"] == []
    assert console.get("messages", path="orders", property=text + "z=1")["messages"] == []
    assert console.get("sessions", path="sessions", search="zzz" + text)["page"]["rows"] == []
    answer = console.try_post("purge", path="orders" + DEAD, reason=text + "z", confirmation="orders")
    assert answer.body == b'{"count":0}', answer
    assert console.try_post("rule", path="news/Subscriptions/all", name=text, kind="sql", expression=text).status >= 400
    assert console.sign_in(text, text).status == 401


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_pages_of_hostile_addresses_are_pages(person: Person, admin: ServiceBusAdministrationClient, name: str) -> None:
    """An address that somebody was lured to shows a message that there is no such entity."""
    with contextlib.suppress(ServiceBusError, ValueError):
        admin.create_queue(TEXTS[name][:50])
    person.open("entity", path=TEXTS[name][:500])
    person.open(f"nothing-{name}", path=TEXTS[name][:500])
    assert is_untouched(person)
