# SPDX-License-Identifier: Apache-2.0
"""What the suite of azure-servicebus takes from a package of Microsoft's repository, which is not published.

There is nothing to record here, and the credential is the key of the server.
"""

from __future__ import annotations

import asyncio
import functools
import os
from typing import TYPE_CHECKING, Any

from azure.servicebus._base_handler import ServiceBusSharedKeyCredential
from azure.servicebus.aio._base_handler_async import ServiceBusSharedKeyCredential as AsyncSharedKeyCredential

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class AzureMgmtRecordedTestCase:
    """What the classes of the suite begin with."""

    @staticmethod
    def await_prepared_test(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        """Run an asynchronous test."""

        @functools.wraps(test)
        def run(*arguments: Any, **options: Any) -> None:
            asyncio.run(test(*arguments, **options))

        return run


AzureRecordedTestCase = AzureMgmtRecordedTestCase


def recorded_by_proxy(test: Any) -> Any:
    """Leave a test as it is."""
    return test


def get_credential(*, is_async: bool = False) -> Any:
    """Return the name and the key of the server."""
    made = AsyncSharedKeyCredential if is_async else ServiceBusSharedKeyCredential
    return made(os.environ["OXBUS_KEY_NAME"], os.environ["OXBUS_KEY"])


def set_custom_default_matcher(**_options: object) -> None:
    """Match nothing: no recording is played."""


def CachedResourceGroupPreparer(**_options: object) -> Any:  # noqa: N802 -- its name there
    """Leave a test as it is: there are no resource groups."""
    return recorded_by_proxy
