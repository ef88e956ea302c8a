# SPDX-License-Identifier: Apache-2.0
"""State shared by the parts of a client: the namespace, and the senders and receivers to close with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oxbus._oxbus import Namespace, ServiceBusReceiver, ServiceBusSender, _RemoteNamespace


class ClientHandles:
    """The senders and receivers of a client."""

    _namespace: Namespace | _RemoteNamespace
    _entity_path: str | None
    _handles: dict[int, ServiceBusSender | ServiceBusReceiver]
    _closed: bool

    def _keep(self, handle: ServiceBusSender | ServiceBusReceiver) -> None:
        """Register a handle and drop the closed ones.

        Each step is atomic. A lock could stay locked in a child process that is forked while it is held.
        """
        for key, other in list(self._handles.items()):
            if other.closed:
                self._handles.pop(key, None)
        self._handles[id(handle)] = handle

    def _check(self, entity_name: str, socket_timeout: float | None) -> None:
        if self._closed:
            raise ValueError("the client is closed: create a new ServiceBusClient")
        if self._entity_path is not None and entity_name != self._entity_path:
            raise ValueError(
                "the connection string is for another entity: use one without EntityPath, "
                f"or that entity: entity=`{entity_name}` entity_path=`{self._entity_path}`"
            )
        if socket_timeout is not None and socket_timeout <= 0:
            raise ValueError(f"socket_timeout must be more than 0 seconds: socket_timeout={socket_timeout}")
