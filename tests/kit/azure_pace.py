# SPDX-License-Identifier: Apache-2.0
"""The SDK of Azure without its naps.

Where azure-servicebus waits for a frame of its server it sleeps between two looks, up to a second, and so takes a
second to open and close a link, nearly all of it asleep. Here it looks again at once; what it says is the same.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

from azure.servicebus import _servicebus_receiver, _servicebus_sender, _session_browser
from azure.servicebus._pyamqp import _connection, client, session

if TYPE_CHECKING:
    import pytest

NAP_SECONDS_MAX = 0.005

NAPPING = (_connection, _servicebus_receiver, _servicebus_sender, _session_browser, client, session)
"""The modules of the SDK that wait for frames in their sleep."""


def _nap(seconds: float) -> None:
    time.sleep(min(seconds, NAP_SECONDS_MAX))


def hasten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the synchronous half of the SDK take short naps until the test ends."""
    brisk = SimpleNamespace(time=time.time, monotonic=time.monotonic, time_ns=time.time_ns, sleep=_nap)
    for module in NAPPING:
        monkeypatch.setattr(module, "time", brisk)
