# SPDX-License-Identifier: Apache-2.0
"""The data plane for asyncio: the names of `oxbus`, awaitable.

Waiting for messages does not occupy a thread. Calls that may wait for a disk run in the event loop's thread pool; in a
store, sends, receives and completions hold no thread while they wait. In memory, and when sending, receiving and
completing at the durability ``"os"``, a call that needs no wait does not suspend its task; after 5 ms of such calls a
client lets other tasks run before its next call.
"""

from __future__ import annotations

from oxbus.aio._auto_lock_renewer import AutoLockRenewer
from oxbus.aio._client import ServiceBusClient
from oxbus.aio._receiver import ServiceBusReceiver
from oxbus.aio._sender import ServiceBusSender
from oxbus.aio._session import ServiceBusSession
from oxbus.aio._transaction import Transaction

__all__ = [
    "AutoLockRenewer",
    "ServiceBusClient",
    "ServiceBusReceiver",
    "ServiceBusSender",
    "ServiceBusSession",
    "Transaction",
]
