# SPDX-License-Identifier: Apache-2.0
"""Pytest fixtures: a namespace in memory, a client for it, and the clock that both follow.

The fixtures import the package, not this module: every pytest run loads the plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxbus import Namespace, ServiceBusClient
    from oxbus.testing import ManualClock


@pytest.fixture
def oxbus_clock() -> ManualClock:
    """A clock that only moves when the test calls `advance`."""
    from oxbus.testing import ManualClock  # noqa: PLC0415

    return ManualClock()


@pytest.fixture
def oxbus_namespace(oxbus_clock: ManualClock) -> Iterator[Namespace]:
    """An empty namespace in memory that follows `oxbus_clock`; closed after the test."""
    from oxbus import Namespace  # noqa: PLC0415

    with Namespace(clock=oxbus_clock) as namespace:
        yield namespace


@pytest.fixture
def oxbus_client(oxbus_namespace: Namespace) -> Iterator[ServiceBusClient]:
    """A client for `oxbus_namespace`; closed after the test."""
    from oxbus import ServiceBusClient  # noqa: PLC0415

    with ServiceBusClient(oxbus_namespace) as client:
        yield client
