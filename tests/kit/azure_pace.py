# SPDX-License-Identifier: Apache-2.0
"""The Azure SDK with short sleeps.

While azure-servicebus waits for a frame it polls with sleeps of up to a second, so opening and closing a link takes
a second. Here it polls with short sleeps; the frames are the same.
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
"""The modules of the SDK that poll for frames."""


def _nap(seconds: float) -> None:
    time.sleep(min(seconds, NAP_SECONDS_MAX))


def hasten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the sleeps of the synchronous SDK until the test ends."""
    brisk = SimpleNamespace(time=time.time, monotonic=time.monotonic, time_ns=time.time_ns, sleep=_nap)
    for module in NAPPING:
        monkeypatch.setattr(module, "time", brisk)
