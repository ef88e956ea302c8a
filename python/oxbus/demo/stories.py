# SPDX-License-Identifier: Apache-2.0
"""A lock expiry and a dead letter, shown with a small queue and a clock that is moved by hand.

Each story returns its steps with their actual results, and whether these are as expected.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import oxbus
from oxbus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from oxbus.exceptions import MessageLockLostError
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import ManualClock

LOCK_SECONDS = 30
MAX_DELIVERIES = 3


@dataclass(frozen=True)
class Story:
    """A short sequence of events."""

    title: str
    steps: list[str]
    as_it_should: bool


def lock_expiry() -> Story:
    """A receiver is too slow: another one gets the message, and the late completion is rejected."""
    clock = ManualClock()
    with oxbus.Namespace(clock=clock) as namespace, ServiceBusClient(namespace) as client:
        ServiceBusAdministrationClient(namespace).create_queue("gate", lock_duration=timedelta(seconds=LOCK_SECONDS))
        with client.get_queue_sender("gate") as sender:
            sender.send_messages(ServiceBusMessage(b"N14228 at gate 7"))

        with client.get_queue_receiver("gate") as slow, client.get_queue_receiver("gate") as other:
            (late,) = slow.receive_messages(max_wait_time=0)
            steps = [f"the slow receiver locks {str(late)!r} for {LOCK_SECONDS} s"]
            hidden = other.receive_messages(max_wait_time=0)
            steps.append(f"the other receiver sees {len(hidden)} messages")
            clock.advance(LOCK_SECONDS + 1)
            again = other.receive_messages(max_wait_time=0)
            steps.append(f"{LOCK_SECONDS + 1} s later it sees {len(again)}, delivery count {again[0].delivery_count}")
            rejected = False
            try:
                slow.complete_message(late)
                steps.append("the slow receiver completes a message it no longer holds")
            except MessageLockLostError as error:
                rejected = True
                steps.append(f"the slow receiver's completion is rejected: {type(error).__name__}")
            other.complete_message(again[0])
            left = other.peek_messages()
            steps.append(f"the other receiver completes it; {len(left)} messages are left")

    right = rejected and not hidden and not left and again[0].delivery_count == 1
    return Story("A lock that expires", steps, right and again[0].sequence_number == late.sequence_number)


def dead_letter() -> Story:
    """One message fails too often, another is rejected by its receiver; both keep the reason."""
    with oxbus.Namespace(clock=ManualClock()) as namespace, ServiceBusClient(namespace) as client:
        ServiceBusAdministrationClient(namespace).create_queue("gate", max_delivery_count=MAX_DELIVERIES)
        with client.get_queue_sender("gate") as sender:
            sender.send_messages([ServiceBusMessage(b"unreadable"), ServiceBusMessage(b"N00000")])

        steps = []
        with client.get_queue_receiver("gate") as receiver:
            unreadable, unknown = _receive(receiver, 2)
            receiver.dead_letter_message(unknown, reason="UnknownAircraft", error_description="no such tail number")
            steps.append(f"{str(unknown)!r} is dead-lettered by its receiver")
            receiver.abandon_message(unreadable)
            deliveries = 1
            for message in iter(lambda: receiver.receive_messages(max_wait_time=0), []):
                receiver.abandon_message(message[0])
                deliveries += 1
            steps.append(f"{str(unreadable)!r} is delivered and abandoned {deliveries} times")

        with client.get_queue_receiver("gate", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
            letters = _receive(dead, 2)
            for letter in letters:
                why = f"{letter.dead_letter_reason}, {letter.dead_letter_error_description}"
                steps.append(f"the dead-letter queue holds {str(letter)!r}: {why}")
            found = {str(letter): letter.dead_letter_reason for letter in letters}
            dead.complete_messages(letters)

    right = found == {"unreadable": "MaxDeliveryCountExceeded", "N00000": "UnknownAircraft"}
    return Story("Two dead letters", steps, right and deliveries == MAX_DELIVERIES)


def _receive(receiver: oxbus.ServiceBusReceiver, count: int) -> list[oxbus.ServiceBusReceivedMessage]:
    """Receive `count` messages; one receive may return fewer."""
    messages: list[oxbus.ServiceBusReceivedMessage] = []
    while len(messages) < count:
        more = receiver.receive_messages(count - len(messages), max_wait_time=0)
        if not more:
            break
        messages += more
    return messages
