# SPDX-License-Identifier: Apache-2.0
"""Session lists of `ServiceBusClient`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from oxbus._oxbus import Namespace
from oxbus.exceptions import InvalidOperationError

if TYPE_CHECKING:
    from oxbus._oxbus import _RemoteNamespace

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ServiceBusSessionInfo:
    """A session that has active messages or a state.

    Attributes:
        session_id: The id of the session.
        partition_id: Its partition; None on an entity without partitions.
        message_count: Active messages, including locked ones; deferred and scheduled messages are not counted.
        oldest_message_age: Time since the oldest of them was stored; None without messages.
        state_updated_at_utc: When its state was set; None without a state.
        lock_owner: `client_identifier` of the receiver that holds it; None if it is not locked.
        locked_until_utc: When that lock ends.

    Source: docs/behaviour.md B-214 to B-216.
    """

    session_id: str
    partition_id: int | None
    message_count: int
    oldest_message_age: timedelta | None
    state_updated_at_utc: datetime | None
    lock_owner: str | None
    locked_until_utc: datetime | None


def list_session_ids(
    namespace: Namespace | _RemoteNamespace,
    entity_path: str,
    state_updated_after: datetime | None,
    timeout: float | None,
) -> list[str]:
    """Return the ids of the sessions of an entity: all, or those whose state was set after a time."""
    if isinstance(namespace, Namespace):
        return [session.session_id for session in list_sessions(namespace, entity_path, state_updated_after)]
    after = None if state_updated_after is None else (_utc(state_updated_after) - _EPOCH) // timedelta(milliseconds=1)
    return namespace._session_ids(entity_path, after, timeout)


def list_sessions(
    namespace: Namespace | _RemoteNamespace, entity_path: str, state_updated_after: datetime | None
) -> list[ServiceBusSessionInfo]:
    """Return the sessions of an entity by id: all, or those whose state was set after a time."""
    if not isinstance(namespace, Namespace):
        raise InvalidOperationError(
            "a server lists only the ids of sessions: leave details out", condition="amqp:not-implemented"
        )
    if state_updated_after is not None:
        state_updated_after = _utc(state_updated_after)
    sessions = map(_info, namespace._list_sessions(entity_path))
    if state_updated_after is None:
        return [session for session in sessions if session.message_count or session.state_updated_at_utc]
    return [
        session
        for session in sessions
        if session.state_updated_at_utc and session.state_updated_at_utc > state_updated_after
    ]


def _utc(time: datetime) -> datetime:
    """Return a time with its time zone; without one it counts as UTC."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def _info(session: dict[str, Any]) -> ServiceBusSessionInfo:
    oldest = session["oldest_message_ms"]
    return ServiceBusSessionInfo(
        session_id=session["session_id"],
        partition_id=session["partition_id"],
        message_count=session["message_count"],
        oldest_message_age=None if oldest is None else timedelta(milliseconds=max(session["now_ms"] - oldest, 0)),
        state_updated_at_utc=_time(session["state_updated_ms"]),
        lock_owner=session["lock_owner"],
        locked_until_utc=_time(session["locked_until_ms"]),
    )


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else _EPOCH + timedelta(milliseconds=ms)
