# SPDX-License-Identifier: Apache-2.0
"""Copies dead letters: as messages, which are received and moved at once.

Until the entity has all its dead letters, each active message in the target is one that a killed copy has not moved. It
may hold the lock of some, so locks are short until the entity is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from oxbus import NEXT_AVAILABLE_SESSION
from oxbus._copy._messages import REASONS, MessageCopier, pages
from oxbus.exceptions import OperationTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
    from oxbus._copy._entities import CopiedEntity
    from oxbus._copy._progress import Counts

_WAIT_SECONDS: Final = 0.5
_AT_ONCE: Final = 100


def copy_dead_letters(
    entity: CopiedEntity,
    source: ServiceBusClient,
    target: ServiceBusClient,
    make_copier: Callable[[str | None], MessageCopier],
    counts: Counts,
) -> None:
    """Copy the dead letters that the target lacks."""
    _move_all(entity, target)
    copier = make_copier("deadletter")
    with source.get_queue_receiver(entity.path, sub_queue="deadletter") as receiver:
        for page in pages(receiver):
            missing = [message for message in page if not copier.is_stored(message)]
            counts.dead_letters += len(page)
            if missing:
                copier.send(missing)
                _move_all(entity, target)


def _move_all(entity: CopiedEntity, target: ServiceBusClient) -> None:
    """Move all active messages of the target to its dead-letter queue."""
    session: Any = NEXT_AVAILABLE_SESSION if entity.requires_session else None
    while _has_messages(entity, target):
        try:
            with target.get_queue_receiver(entity.path, session_id=session, max_wait_time=_WAIT_SECONDS) as receiver:
                _move(receiver)
        except OperationTimeoutError:
            # A copy that was killed holds a session. Its lock ends soon.
            continue


def _has_messages(entity: CopiedEntity, target: ServiceBusClient) -> bool:
    with target.get_queue_receiver(entity.path) as receiver:
        return bool(receiver.peek_messages(1))


def _move(receiver: ServiceBusReceiver) -> None:
    while messages := receiver.receive_messages(_AT_ONCE):
        groups: dict[tuple[str | None, ...], list[ServiceBusReceivedMessage]] = {}
        for message in messages:
            properties = {str(name): value for name, value in (message.application_properties or {}).items()}
            groups.setdefault(tuple(properties.get(name) for name in REASONS), []).append(message)
        for (reason, description), group in groups.items():
            receiver.dead_letter_messages(group, reason=reason, error_description=description)
