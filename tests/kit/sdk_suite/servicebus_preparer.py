# SPDX-License-Identifier: Apache-2.0
"""Decorators that give tests of azure-servicebus namespaces and queues of the server.

It has the name of the module that creates them in Azure, and precedes it on the path.
"""

from __future__ import annotations

import functools
import os
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from azure.servicebus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable

SERVICEBUS_ENDPOINT_SUFFIX = os.environ["SERVICEBUS_ENDPOINT_SUFFIX"]
CONNECTION_STRING = os.environ["OXBUS_CONNECTION_STRING"]
HOST = "localhost"

# The queue options that the administration client accepts.
QUEUE_OPTIONS = (
    "requires_duplicate_detection",
    "dead_lettering_on_message_expiration",
    "requires_session",
    "enable_partitioning",
    "lock_duration",
)


def _giving(given: Callable[[], dict[str, Any]]) -> Any:
    """Pass further arguments to a test, created for each run."""

    def decorate(test: Any) -> Any:
        @functools.wraps(test)
        def run(*arguments: Any, **options: Any) -> Any:
            return test(*arguments, **given(), **options)

        return run

    return decorate


def ServiceBusResourceGroupPreparer(**_options: object) -> Any:  # noqa: N802 -- its name there
    """Pass no arguments: there are no resource groups."""
    return _giving(dict)


def ServiceBusNamespacePreparer(**_options: object) -> Any:  # noqa: N802 -- its name there
    """Pass the namespace of the server."""
    return _giving(
        lambda: {
            "servicebus_namespace": SimpleNamespace(name=HOST),
            "servicebus_namespace_connection_string": CONNECTION_STRING,
            "servicebus_namespace_key_name": os.environ["OXBUS_KEY_NAME"],
            "servicebus_namespace_primary_key": os.environ["OXBUS_KEY"],
        }
    )


def ServiceBusQueuePreparer(name_prefix: str = "", **options: Any) -> Any:  # noqa: N802 -- its name there
    """Pass a new queue."""

    def given() -> dict[str, Any]:
        name = name_prefix + uuid.uuid4().hex[:8]
        chosen: dict[str, Any] = {key: options[key] for key in QUEUE_OPTIONS if key in options}
        with ServiceBusAdministrationClient.from_connection_string(CONNECTION_STRING) as admin:
            admin.create_queue(name, **chosen)
        return {"servicebus_queue": SimpleNamespace(name=name)}

    return _giving(given)


def _unknown(**_options: object) -> Any:
    raise NotImplementedError("no test that runs here needs it: add it to the kit")


CachedServiceBusResourceGroupPreparer = ServiceBusResourceGroupPreparer
CachedServiceBusNamespacePreparer = ServiceBusNamespacePreparer
CachedServiceBusQueuePreparer = ServiceBusQueuePreparer


def _later(**options: object) -> Any:
    """Fail when a test that needs it runs, not at import."""
    return _giving(functools.partial(_unknown, **options))


ServiceBusTopicPreparer = CachedServiceBusTopicPreparer = _later
ServiceBusSubscriptionPreparer = CachedServiceBusSubscriptionPreparer = _later
ServiceBusNamespaceAuthorizationRulePreparer = ServiceBusQueueAuthorizationRulePreparer = _later
