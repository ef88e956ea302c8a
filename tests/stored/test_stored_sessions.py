# SPDX-License-Identifier: Apache-2.0
"""Sessions of a server whose store is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from oxbus import Namespace
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve
from proton import Described, Message, symbol
from proton.reactor import Filter
from proton.utils import BlockingConnection
from stored_server import LIVENESS_SECONDS

if TYPE_CHECKING:
    from pathlib import Path


SESSION_FILTER = symbol("com.microsoft:session-filter")
OF_SESSION = Filter({SESSION_FILTER: Described(SESSION_FILTER, "a")})


@pytest.mark.parametrize("is_in_progress", [False, True])
def test_a_session_is_free_once_its_detach_is_answered(tmp_path: Path, is_in_progress: bool) -> None:
    """A client that settles and closes finds the session free, though the settlement waits for the store.

    The settlement reaches the server together with the detach, or is already in progress.
    """
    with Namespace(f"objects://{tmp_path}/slow", storage_options={"max_puts_per_second": "2"}) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", requires_session=True)
        with serve(namespace) as server:
            url = f"amqp://RootManageSharedAccessKey:SAS_KEY_VALUE@{server.host}:{server.port}"
            connection = BlockingConnection(
                url, timeout=LIVENESS_SECONDS, allow_insecure_mechs=True, allowed_mechs="PLAIN"
            )
            sender = connection.create_sender("q")
            for body in "123":
                sender.send(Message(body=body, group_id="a"))
            for body in "123":
                receiver = connection.create_receiver("q", credit=1, options=OF_SESSION)
                assert receiver.receive(timeout=LIVENESS_SECONDS).body == body
                receiver.accept()
                if is_in_progress:
                    # Its answer shows that the server has read what was sent before.
                    connection.create_sender("q", name=f"after {body}").close()  # type: ignore[no-untyped-call]
                receiver.close()  # type: ignore[no-untyped-call]
            connection.close()
