# SPDX-License-Identifier: Apache-2.0
"""The part of the client that lists the sessions of queues and subscriptions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, overload

from oxbus._entity_path import subscription_path
from oxbus._handles import ClientHandles
from oxbus._paging import ItemPaged
from oxbus._sessions import list_session_ids, list_sessions

if TYPE_CHECKING:
    from datetime import datetime

    from oxbus._sessions import ServiceBusSessionInfo


class SessionListing(ClientHandles):
    """Lists sessions for a client."""

    @overload
    def list_queue_sessions(
        self,
        queue_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
        details: Literal[False] = False,
    ) -> ItemPaged[str]: ...

    @overload
    def list_queue_sessions(
        self,
        queue_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
        details: Literal[True],
    ) -> ItemPaged[ServiceBusSessionInfo]: ...

    def list_queue_sessions(
        self,
        queue_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
        details: bool = False,
    ) -> ItemPaged[str] | ItemPaged[ServiceBusSessionInfo]:
        """List the sessions of a queue that have active messages or a state, by id.

        Args:
            queue_name: A queue that requires sessions.
            state_updated_after: Only sessions whose state was set after this time; a time without a time zone counts as
                UTC.
            timeout: Seconds, more than 0, or None. It is checked and has no effect.
            details: Return a `ServiceBusSessionInfo` for each session instead of its id.

        Returns:
            Ids, or details. Sessions of partitions that are out of service are missing.

        Raises:
            MessagingEntityNotFoundError: The queue does not exist. Raised at the first item, like the next two.
            InvalidOperationError: The queue does not require sessions.
            ForkedProcessError: The namespace was opened before the process forked.
            ValueError: `timeout` is not more than 0, the client is closed, or its connection string is for another
                entity.

        Source: docs/behaviour.md B-214 to B-216.
        """
        self._check(queue_name, None)
        return self._list_sessions(queue_name, state_updated_after, timeout, details=details)

    @overload
    def list_subscription_sessions(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
        details: Literal[False] = False,
    ) -> ItemPaged[str]: ...

    @overload
    def list_subscription_sessions(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
        details: Literal[True],
    ) -> ItemPaged[ServiceBusSessionInfo]: ...

    def list_subscription_sessions(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        state_updated_after: datetime | None = None,
        timeout: float | None = None,
        details: bool = False,
    ) -> ItemPaged[str] | ItemPaged[ServiceBusSessionInfo]:
        """List the sessions of a subscription that have active messages or a state, by id.

        Args:
            topic_name: The topic.
            subscription_name: Its subscription, one that requires sessions.
            state_updated_after: Only sessions whose state was set after this time; a time without a time zone counts as
                UTC.
            timeout: Seconds, more than 0, or None. It is checked and has no effect.
            details: Return a `ServiceBusSessionInfo` for each session instead of its id.

        Returns:
            Ids, or details. Sessions of partitions that are out of service are missing.

        Raises:
            MessagingEntityNotFoundError: The subscription does not exist. Raised at the first item, like the next two.
            InvalidOperationError: The subscription does not require sessions.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A name is not a str.
            ValueError: `timeout` is not more than 0, a name is invalid, the client is closed, or its connection string
                is for another entity.

        Source: docs/behaviour.md B-214 to B-216.
        """
        self._check(topic_name, None)
        path = subscription_path(topic_name, subscription_name)
        return self._list_sessions(path, state_updated_after, timeout, details=details)

    def _list_sessions(
        self, entity_path: str, state_updated_after: datetime | None, timeout: float | None, *, details: bool
    ) -> ItemPaged[str] | ItemPaged[ServiceBusSessionInfo]:
        if timeout is not None and timeout <= 0:
            raise ValueError(f"timeout must be greater than 0; leave it out for the default: {timeout}")
        if details:
            return ItemPaged(partial(list_sessions, self._namespace, entity_path, state_updated_after))
        return ItemPaged(partial(list_session_ids, self._namespace, entity_path, state_updated_after, timeout))
