# SPDX-License-Identifier: Apache-2.0
"""Locks of old owners: after a takeover, nobody can settle with one what somebody else has locked."""

from __future__ import annotations

import contextlib
from itertools import count
from typing import TYPE_CHECKING, Any

from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus.exceptions import ServiceBusError as SdkError
from fault_messages import TOKENS
from oxbus import ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import ServiceBusError
from stored_server import KEY, LOOPBACK, wait_until

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator


def _connection_string(port: int) -> str:
    return f"Endpoint=sb://{LOOPBACK}:{port}/;{KEY}"


class Tokens:
    """Locks that were held while their owner was taken over.

    Attributes:
        tried: How many were tried.
        accepted: What was accepted, one text for each.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._numbers = count()
        self.tried = 0
        self.accepted: list[str] = []

    @contextlib.contextmanager
    def held(self, port: int) -> Iterator[OldLock | None]:
        """Lock a message at the server with this port. None if that server does not answer."""
        uid = f"token-{next(self._numbers)}"
        try:
            client = ServiceBusClient.from_connection_string(_connection_string(port), retry_total=0)
            with client.get_queue_sender(TOKENS) as sender:
                sender.send_messages(ServiceBusMessage(uid, message_id=uid), timeout=10)
            receiver = client.get_queue_receiver(TOKENS)
            found = {str(message.message_id): message for message in receiver.receive_messages(50, max_wait_time=5)}
        except ServiceBusError:
            found = {}
        if uid not in found:
            yield None
            return
        yield OldLock(receiver, found[uid], uid)
        with contextlib.suppress(ServiceBusError):
            client.close()

    def use(self, old: OldLock, port: int, *, old_owner_runs: bool) -> None:
        """Try the lock at the new owner, and on its own connection if the old owner runs."""
        with (
            SdkClient.from_connection_string(_connection_string(port), retry_total=3) as client,
            client.get_queue_receiver(TOKENS) as receiver,
        ):
            mine: dict[str, Any] = {}

            def is_locked_again() -> bool:
                mine.update(
                    (str(message.message_id), message) for message in receiver.receive_messages(50, max_wait_time=1)
                )
                return old.uid in mine

            wait_until(is_locked_again, f"a delivery of {old.uid}, whose lock has ended")
            verb = self._chance.choice(["completed", "abandoned", "suspended"])
            self.tried += 1
            try:
                receiver._settle_message_via_mgmt_link(verb, [old.message.lock_token])
                self.accepted.append(f"{old.uid}: {verb} at the new owner")
            except SdkError:
                pass
            if old_owner_runs:
                self.tried += 1
                try:
                    old.receiver.complete_message(old.message)
                    self.accepted.append(f"{old.uid}: completed at the old owner")
                except (ServiceBusError, ValueError):
                    pass
            for uid, message in mine.items():
                try:
                    receiver._settle_message_via_mgmt_link("completed", [message.lock_token])
                except SdkError as error:
                    self.accepted.append(f"{uid}: its new holder cannot complete it: {error}")


class OldLock:
    """A message that is locked at one owner."""

    def __init__(self, receiver: Any, message: Any, uid: str) -> None:
        self.receiver, self.message, self.uid = receiver, message, uid
