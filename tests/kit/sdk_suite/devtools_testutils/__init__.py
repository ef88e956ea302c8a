# SPDX-License-Identifier: Apache-2.0
"""Replacements for an unpublished package that the tests of azure-servicebus import.

Nothing is recorded, and the credential is the server's key.
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
    """The base class of the suite's test classes."""

    @staticmethod
    def await_prepared_test(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        """Run an asynchronous test."""

        @functools.wraps(test)
        def run(*arguments: Any, **options: Any) -> None:
            asyncio.run(test(*arguments, **options))

        return run


AzureRecordedTestCase = AzureMgmtRecordedTestCase


def recorded_by_proxy(test: Any) -> Any:
    """Return the test unchanged."""
    return test


def get_credential(*, is_async: bool = False) -> Any:
    """Return the name and the key of the server."""
    made = AsyncSharedKeyCredential if is_async else ServiceBusSharedKeyCredential
    return made(os.environ["OXBUS_KEY_NAME"], os.environ["OXBUS_KEY"])


def set_custom_default_matcher(**_options: object) -> None:
    """Do nothing: there are no recordings."""


def CachedResourceGroupPreparer(**_options: object) -> Any:  # noqa: N802 -- its name there
    """Return the test unchanged: there are no resource groups."""
    return recorded_by_proxy
