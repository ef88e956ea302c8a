# SPDX-License-Identifier: Apache-2.0
"""Copies the states of sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxbus.exceptions import SessionCannotBeLockedError

if TYPE_CHECKING:
    from oxbus import ServiceBusClient
    from oxbus._copy._entities import CopiedEntity
    from oxbus._copy._progress import Counts


def copy_session_states(
    entity: CopiedEntity, source: ServiceBusClient, target: ServiceBusClient, counts: Counts
) -> None:
    """Set the state of each session that has one. Doing it twice does no harm.

    Raises:
        SessionCannotBeLockedError: Somebody receives from the session.
    """
    if entity.topic is None:
        sessions = list(source.list_queue_sessions(entity.name))
    else:
        sessions = list(source.list_subscription_sessions(entity.topic, entity.name))
    for session_id in sessions:
        try:
            with source.get_queue_receiver(entity.path, session_id=session_id, max_wait_time=0) as receiver:
                state = None if receiver.session is None else receiver.session.get_state()
        except SessionCannotBeLockedError as error:
            raise SessionCannotBeLockedError(
                f"the session is in use; stop its receivers, then run the command again: entity=`{entity.path}`"
            ) from error
        if state:
            with target.get_queue_receiver(entity.path, session_id=session_id, max_wait_time=0) as receiver:
                if receiver.session is not None:
                    receiver.session.set_state(state)
            counts.session_states += 1
