# SPDX-License-Identifier: Apache-2.0
"""The pytest of the suite of azure-servicebus: the port of the server, who is trusted, and asynchronous tests.

`OXBUS_TESTS` names the tests that run, with spaces between them.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from typing import TYPE_CHECKING, Any

import certifi
import pytest
from azure.servicebus._pyamqp import _connection
from azure.servicebus._pyamqp.aio import _connection_async

if TYPE_CHECKING:
    from collections.abc import Callable

# Where the SDK looks for issuers when a test does not say.
certifi.where = lambda: os.environ["REQUESTS_CA_BUNDLE"]
# It knows one port for all hosts, unless a connection string says that it speaks to an emulator.
for module in (_connection, _connection_async):
    vars(module)["SECURE_PORT"] = int(os.environ["SERVICEBUS_ENDPOINT_SUFFIX"].removeprefix(":"))


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Keep the tests that are named."""
    wanted = os.environ["OXBUS_TESTS"].split()
    items[:] = [item for item in items if item.originalname in wanted]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an asynchronous test."""
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    test: Callable[..., Any] = pyfuncitem.obj
    done = test(**arguments)
    if inspect.iscoroutine(done):
        asyncio.run(done)
    return True
