# SPDX-License-Identifier: Apache-2.0
"""Every page and every action of the console in a real browser.

Source: docs/guide/console.md.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus import ServiceBusClient as SdkClient
from console_browser import Person
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import AuthorizationRule, ServiceBusAdministrationClient, SqlRuleFilter
from oxbus.server import serve
from oxbus.testing import inject_fault
from signatures import KEY

if TYPE_CHECKING:
    from oxbus.server import Server

SUBSCRIPTION = "news/Subscriptions/all"


def send(client: ServiceBusClient, queue: str, *messages: ServiceBusMessage) -> None:
    """Send messages one by one."""
    with client.get_queue_sender(queue) as sender:
        for message in messages:
            sender.send_messages(message)


def dead_letter(client: ServiceBusClient, queue: str, count: int, reason: str) -> None:
    """Dead-letter the next messages."""
    with client.get_queue_receiver(queue) as receiver:
        for message in receiver.receive_messages(count, max_wait_time=5):
            receiver.dead_letter_message(message, reason=reason, error_description="ValueError: no 7")


@pytest.fixture
def scene(admin: ServiceBusAdministrationClient, client: ServiceBusClient) -> None:
    """A queue with messages and dead letters, one with sessions, and a subscription."""
    admin.create_queue("orders", enable_partitioning=True)
    admin.create_queue("sessions", enable_partitioning=True, requires_session=True)
    admin.create_topic("news")
    admin.create_subscription("news", "all")
    orders = [ServiceBusMessage(f'{{"order": {at}, "big": 9007199254740993}}') for at in range(8)]
    send(client, "orders", *orders[:4])
    dead_letter(client, "orders", 4, "bad")
    send(client, "orders", *orders[4:])
    send(client, "sessions", *(ServiceBusMessage("x", session_id=f"customer {number % 3}") for number in range(6)))
    with client.get_topic_sender("news") as sender:
        sender.send_messages(ServiceBusMessage("one", subject="a", application_properties={"n": 1}))
        sender.send_messages(ServiceBusMessage("two", subject="b", application_properties={"n": 2}))


@pytest.fixture
def at_once(person: Person) -> Person:
    """Dialogs of the browser, such as a question, are answered with yes."""
    person.page.on("dialog", lambda dialog: dialog.accept())
    return person


def test_signing_in_with_the_keyboard_alone(chromium_browser: Any, server: Server) -> None:
    """Tab, type, Enter; a wrong key is told; signing out shows the page for signing in again."""
    with chromium_browser.new_context() as context:
        person = Person(context.new_page(), server)
        page = person.page
        page.goto(person.root)
        page.get_by_label("Name of the key").wait_for()
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        person.sees("the name of the key or the key is wrong")
        page.get_by_label("Key", exact=True).focus()
        page.keyboard.type(KEY)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Sign out").focus()
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Sign in").wait_for()
        assert context.cookies() == []
        assert person.complaints == []


@pytest.mark.usefixtures("scene")
def test_the_keyboard_reaches_everything_and_the_focus_is_visible(person: Person) -> None:
    """The first stop skips the menu; a link opens with Enter, and the focus goes to the heading of the new page."""
    person.open("")
    page = person.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent.trim()") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    link = page.get_by_role("link", name="orders", exact=True)
    link.focus()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    person.table("Partitions").wait_for()
    assert page.evaluate("document.activeElement.tagName") == "H1"
    assert page.title() == "orders - Entity - oxbus console"


@pytest.mark.usefixtures("scene")
def test_overview_searches_and_sorts(person: Person) -> None:
    """The address keeps both, so that a reload shows the same."""
    person.open("")
    person.row("Entities", "orders").wait_for()
    person.page.get_by_label("Search").fill("sess")
    person.row("Entities", "orders").wait_for(state="detached")
    person.page.get_by_label("Search").fill("")
    person.row("Entities", "orders").wait_for()
    person.press("Dead letters")
    first = person.table("Entities").get_by_role("rowheader").first.filter(has_text="orders")
    first.wait_for()
    assert person.page.get_by_role("columnheader", name="Dead letters").get_attribute("aria-sort") == "descending"
    person.page.reload()
    first.wait_for()


@pytest.mark.usefixtures("scene")
def test_pages_are_live(person: Person, client: ServiceBusClient) -> None:
    """A page that is open shows what happens, without a reload."""
    person.open("")
    person.row("Entities", "orders").get_by_role("link", name="4", exact=True).first.wait_for()
    send(client, "orders", ServiceBusMessage("x"))
    person.row("Entities", "orders").get_by_role("link", name="5", exact=True).wait_for()


@pytest.mark.usefixtures("scene")
def test_settings_are_edited_within_their_limits(person: Person, admin: ServiceBusAdministrationClient) -> None:
    """A wrong value is told beside the field, and changes nothing."""
    person.open("entity", path="orders")
    person.press("Change lock_duration")
    field = person.page.get_by_label("New lock_duration")
    field.fill("nonsense")
    person.press("Save")
    person.sees("That is not a value of this setting")
    field.fill("1 ms")
    person.press("Save")
    person.sees("lock_duration is out of range")
    field.fill("45 s")
    person.press("Save")
    person.row("Settings and their limits", "lock_duration").get_by_text("45 s").wait_for()
    person.press("Change status")
    person.page.get_by_label("New status").select_option("SendDisabled")
    person.press("Save")
    person.row("Settings and their limits", "status").get_by_text("SendDisabled").wait_for()
    queue = admin.get_queue("orders")
    assert (queue.lock_duration, queue.status) == (timedelta(seconds=45), "SendDisabled")


@pytest.mark.usefixtures("scene")
def test_rules_are_tested_made_and_deleted(at_once: Person, admin: ServiceBusAdministrationClient) -> None:
    """The test shows the messages that would match."""
    at_once.open("entity", path=SUBSCRIPTION)
    at_once.press("New rule")
    at_once.page.get_by_label("Name", exact=True).fill("second")
    at_once.page.get_by_label("Expression").fill("n = 2")
    at_once.press("Which messages would match?")
    at_once.sees("1 of 2 messages would match.")
    at_once.row("Messages that would match", "two").wait_for()
    at_once.press("Save")
    at_once.row("Rules of the subscription", "second").wait_for()
    at_once.press("Delete $Default")
    at_once.row("Rules of the subscription", "$Default").wait_for(state="detached")
    (rule,) = admin.list_rules("news", "all")
    assert isinstance(rule.filter, SqlRuleFilter)
    assert rule.filter.sql_expression == "n = 2"


@pytest.mark.usefixtures("scene")
def test_messages_are_filtered_and_shown_as_json_text_and_hex(person: Person) -> None:
    """Numbers keep all their digits; Escape closes the message."""
    person.open("messages", path="orders")
    person.page.get_by_label("Text of the body").fill('"order": 5')
    person.sees("1 found;")
    person.table("Messages").get_by_role("link").first.click()
    body = person.page.get_by_label("Body of the message")
    body.wait_for()
    assert body.text_content() == '{\n  "order": 5,\n  "big": 9007199254740993\n}'
    person.page.get_by_label("Body as").select_option("hex")
    assert "7b 22 6f 72 64 65 72" in str(body.text_content())
    person.page.get_by_label("Body as").select_option("text")
    assert body.text_content() == '{"order": 5, "big": 9007199254740993}'
    person.sees("Given by the broker; unique in the entity.")
    person.page.keyboard.press("Escape")
    person.page.get_by_role("dialog").wait_for(state="detached")


@pytest.mark.usefixtures("scene")
def test_a_test_message_is_sent(person: Person, client: ServiceBusClient) -> None:
    """With a property, to a session."""
    person.open("messages", path="sessions")
    person.press("Send a test message")
    person.page.get_by_label("Body", exact=True).fill("from the console")
    person.page.get_by_label("Session id").fill("mine")
    person.press("Add a property")
    person.page.get_by_label("Name 1").fill("n")
    person.page.get_by_label("Type 1").select_option("integer")
    person.page.get_by_label("Value 1").fill("7")
    person.press("Send")
    person.sees("Sent as number ")
    with client.get_queue_receiver("sessions", session_id="mine") as receiver:
        (message,) = receiver.receive_messages(1, max_wait_time=5)
    assert (str(message), message.application_properties) == ("from the console", {"n": 7})


@pytest.mark.usefixtures("scene")
def test_dead_letters_are_sampled_and_resubmitted_with_progress(person: Person, client: ServiceBusClient) -> None:
    """Slowly, so that the bar is seen to move, and cancelled."""
    send(client, "orders", *(ServiceBusMessage("x") for _ in range(26)))
    dead_letter(client, "orders", 26, "bad")
    person.open("dead-letters", path="orders")
    person.row("By reason and exception", "ValueError: no #").wait_for()
    person.press("Sample of bad")
    person.table("Sample of bad").wait_for()
    person.press("Resubmit all")
    person.page.get_by_label("Messages per second, at most").fill("1")
    person.page.get_by_role("dialog").get_by_role("button", name="Resubmit").click()
    person.page.get_by_role("progressbar").wait_for()
    person.sees(re.compile("[1-9][0-9]* of [23]"))
    person.page.get_by_role("button", name="Cancel job").click()
    person.sees("ended: it was cancelled")
    person.press("Resubmit reason bad")
    person.page.get_by_role("dialog").get_by_role("button", name="Resubmit").click()
    person.sees("0 dead letters.")
    person.sees("finished")


@pytest.mark.usefixtures("scene")
def test_purge_needs_the_name_to_be_typed(person: Person) -> None:
    """The button works only then."""
    person.open("dead-letters", path="orders")
    person.press("Purge all")
    button = person.page.get_by_role("dialog").get_by_role("button", name="Purge")
    person.page.get_by_label("Type orders to confirm").fill("order")
    assert button.is_disabled()
    person.page.get_by_label("Type orders to confirm").fill("orders")
    button.click()
    person.sees("4 dead letters were removed.")
    person.press("Close")
    person.sees("There are no dead letters.")


@pytest.mark.usefixtures("scene")
def test_a_dead_letter_is_edited_and_resubmitted(person: Person, client: ServiceBusClient) -> None:
    """Its reason does not go along."""
    person.open("messages", path="orders", queue="dead")
    person.table("Dead letters").get_by_role("link").first.click()
    person.press("Edit and resubmit")
    person.page.get_by_label("Body", exact=True).fill("mended")
    person.press("Send and remove the dead letter")
    person.page.get_by_role("dialog").wait_for(state="detached")
    person.sees("3 found")
    with client.get_queue_receiver("orders") as receiver:
        found = {str(it): it for it in receiver.receive_messages(10, max_wait_time=1)}
    assert not found["mended"].application_properties


@pytest.mark.usefixtures("scene")
def test_sessions_and_locks_name_their_holder(person: Person, server: Server) -> None:
    """Who holds a session or a message, from which connection."""
    with (
        SdkClient.from_connection_string(server.connection_string) as sdk,
        sdk.get_queue_receiver("sessions", session_id="customer 1") as session,
        sdk.get_queue_receiver("orders") as receiver,
    ):
        assert session.session.session_id == "customer 1"
        (message,) = receiver.receive_messages(1, max_wait_time=5)
        person.open("sessions", path="sessions")
        person.row("Sessions (3)", "customer 1").get_by_role("link", name="127.0.0.1:").wait_for()
        person.page.get_by_label("Sessions", exact=True).select_option("free")
        person.row("Sessions (3)", "customer 1").wait_for(state="detached")
        person.open("locks", path="orders")
        person.row("Locked messages", str(message.sequence_number)).get_by_role("link", name="127.0.0.1:").wait_for()
        person.row("Receivers of connections", "azsdk-python").wait_for()
        person.open("connections")
        person.row("AMQP connections (2)", "azsdk-python").first.wait_for()
        person.page.get_by_text("links of 127.0.0.1").first.click()
        person.page.get_by_role("cell", name="receive", exact=True).first.wait_for()


@pytest.mark.usefixtures("scene")
def test_a_partition_is_healed(person: Person, bus: Namespace) -> None:
    """The button is there while the partition is out of service."""
    inject_fault(bus, 2, "unavailable")
    person.open("partitions")
    person.press("Heal partition 2 now")
    person.sees("Partition 2 is in service again.")
    person.page.get_by_role("button", name="Heal partition 2 now").wait_for(state="detached")


@pytest.mark.usefixtures("scene")
def test_who_may_only_look_sees_no_change(chromium_browser: Any, bus: Namespace) -> None:
    """The pages leave out what the server would refuse."""
    rules = [AuthorizationRule(key_name="look", primary_key=KEY * 4, rights=["Listen"])]
    with serve(bus, rules=rules, console=True) as server, chromium_browser.new_context() as context:
        person = Person(context.new_page(), server)
        person.sign_in("look", KEY * 4)
        for page, query, button in [
            ("entity", {"path": "orders"}, "Change status"),
            ("messages", {"path": "orders"}, "Send a test message"),
            ("dead-letters", {"path": "orders"}, "Purge all"),
        ]:
            person.open(page, **query)
            assert person.page.get_by_role("button", name=button).count() == 0
        person.open("entity", path=SUBSCRIPTION)
        person.press("Test a filter")
        person.page.get_by_label("Expression").fill("n > 1")
        person.press("Which messages would match?")
        person.sees("1 of 2 messages would match.")
        assert person.page.get_by_role("button", name="Save").count() == 0
        assert person.complaints == []
