# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin for the tests of azure-servicebus: server port, trusted certificate, asynchronous tests.

`OXBUS_TESTS` names the tests to run, separated by spaces.
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

# The SDK's default CA file.
certifi.where = lambda: os.environ["REQUESTS_CA_BUNDLE"]
# The SDK has one port for all hosts, unless the connection string is for an emulator.
for module in (_connection, _connection_async):
    vars(module)["SECURE_PORT"] = int(os.environ["SERVICEBUS_ENDPOINT_SUFFIX"].removeprefix(":"))


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Keep the named tests."""
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
