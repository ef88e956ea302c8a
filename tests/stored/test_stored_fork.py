# SPDX-License-Identifier: Apache-2.0
"""A fork after calls of an event loop to a store: the child has no threads of its parent, and starts its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from stored_server import LIVENESS_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import asyncio, os, sys
from oxbus import Namespace, ServiceBusMessage
from oxbus.aio import ServiceBusClient
from oxbus.exceptions import ForkedProcessError
from oxbus.management import ServiceBusAdministrationClient

async def work(sender, receiver):
    await sender.send_messages(ServiceBusMessage("first"))
    await asyncio.gather(*(sender.send_messages(ServiceBusMessage("x")) for _ in range(10)))
    messages = []
    while len(messages) < 11:
        messages += await receiver.receive_messages(11)
    await receiver.complete_messages(messages)

def handles(name):
    namespace = Namespace(f"objects://{sys.argv[1]}/{name}")
    ServiceBusAdministrationClient(namespace).create_queue("q")
    client = ServiceBusClient(namespace)
    return namespace, client.get_queue_sender("q"), client.get_queue_receiver("q")

namespace, *of_parent = handles("parent")
asyncio.run(work(*of_parent))
child = os.fork()
if child == 0:
    code = 1
    try:
        try:
            asyncio.run(work(*of_parent))
        except ForkedProcessError:
            own, *of_child = handles("child")
            asyncio.run(work(*of_child))
            own.close()
            code = 0
    finally:
        os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
asyncio.run(work(*of_parent))
namespace.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not available")
def test_parent_and_child_use_stores_after_a_fork(tmp_path: Path) -> None:
    """Handles of the parent are refused in the child, and those of its own work."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=LIVENESS_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
