# SPDX-License-Identifier: Apache-2.0
"""Forked processes: a client keeps working with new connections, a server stays with the parent.

Each test runs a script in its own process, because forking a process with threads disturbs pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

SCRIPT = """
import os, sys
import oxbus, pyarrow as pa
from oxbus.bulk import BulkClient
from oxbus.exceptions import ForkedProcessError, ServiceBusConnectionError
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve

namespace = oxbus.Namespace()
ServiceBusAdministrationClient(namespace).create_queue("q")
server = serve(namespace)
client = BulkClient(server.connection_string)

def send(client, body):
    return sum(client.send("q", pa.table({"body": [body]})).values())

assert send(client, b"parent") == 1

def in_child(work):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException as error:
            print("child:", repr(error), flush=True)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


def run(script: str) -> None:
    """Run the script, which fails or ends with "done"."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT + script],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout + done.stderr


def test_children_and_parent_use_one_client() -> None:
    """Children of children work too, and no process reads the answers of another."""
    run("""
def grandchild():
    assert send(client, b"grandchild") == 1

def child():
    for _ in range(5):
        assert send(client, b"child") == 1
    in_child(grandchild)
    assert send(client, b"child") == 1

in_child(child)
in_child(child)
assert send(client, b"parent") == 1
assert client.describe("q")["active_messages"] == 1 + 2 * 7 + 1
print("done")
""")


def test_server_belongs_to_the_parent() -> None:
    """A child can neither use nor stop it, and does not keep its port."""
    run("""
ready, go = os.pipe()
def child():
    for call in (server.close, lambda: server.connection_string, lambda: serve(namespace)):
        try:
            call()
        except ForkedProcessError:
            continue
        raise AssertionError(call)
in_child(child)
assert send(client, b"parent") == 1
pid = os.fork()
if pid == 0:
    os.read(ready, 1)
    os._exit(0)
server.close()
try:
    client.describe("q")
except ServiceBusConnectionError:
    print("done")
os.write(go, b"x")
os.waitpid(pid, 0)
""")
