# SPDX-License-Identifier: Apache-2.0
"""Partitioned message queues with the semantics of Azure Service Bus, inside this process.

Names follow the azure-servicebus SDK; docs/compat.md lists every difference.
Importing this package starts no thread and imports nothing heavy.
"""

from __future__ import annotations

import atexit as _atexit

from oxbus import _allocator as _allocator  # first: it loads the native module
from oxbus._auto_lock_renewer import AutoLockRenewer
from oxbus._client import ServiceBusClient
from oxbus._connection import ServiceBusConnectionStringProperties, parse_connection_string
from oxbus._enums import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessageState,
    ServiceBusReceiveMode,
    ServiceBusSessionFilter,
    ServiceBusSubQueue,
    TransportType,
)
from oxbus._exit_hook import run_at_exit as _run_at_exit
from oxbus._oxbus import (
    ArrowArray,
    MetricFamily,
    MetricHistogram,
    Namespace,
    PartitionHealth,
    Recovery,
    ServiceBusMessage,
    ServiceBusMessageBatch,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSession,
    _close_durable,
    _end_log,
    _wake_waiting,
    partition_id,
    partition_ids,
)
from oxbus._scan import Scan, scan
from oxbus._sessions import ServiceBusSessionInfo
from oxbus._transaction import Transaction

__all__ = [
    "NEXT_AVAILABLE_SESSION",
    "ArrowArray",
    "AutoLockRenewer",
    "MetricFamily",
    "MetricHistogram",
    "Namespace",
    "PartitionHealth",
    "Recovery",
    "Scan",
    "ServiceBusClient",
    "ServiceBusConnectionStringProperties",
    "ServiceBusMessage",
    "ServiceBusMessageBatch",
    "ServiceBusMessageState",
    "ServiceBusReceiveMode",
    "ServiceBusReceivedMessage",
    "ServiceBusReceiver",
    "ServiceBusSender",
    "ServiceBusSession",
    "ServiceBusSessionFilter",
    "ServiceBusSessionInfo",
    "ServiceBusSubQueue",
    "Transaction",
    "TransportType",
    "parse_connection_string",
    "partition_id",
    "partition_ids",
    "scan",
]

_run_at_exit(_wake_waiting)
# Hooks run in reverse order: closing logs its lines before the log ends.
_atexit.register(_end_log)
_atexit.register(_close_durable)


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 (slow to import, rarely used)

        return version("oxbus")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
