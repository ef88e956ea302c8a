# SPDX-License-Identifier: Apache-2.0
"""Creating, changing, listing and counting the entities of a namespace."""

from oxbus._paging import ItemPaged
from oxbus.management._client import ServiceBusAdministrationClient
from oxbus.management._enums import (
    AccessRights,
    ApiVersion,
    EntityAvailabilityStatus,
    EntityStatus,
    MessagingSku,
    NamespaceType,
)
from oxbus.management._models import (
    AuthorizationRule,
    MessageCountDetails,
    NamespaceProperties,
    PartitionRuntimeProperties,
    QueueProperties,
    QueueRuntimeProperties,
)

__all__ = [
    "AccessRights",
    "ApiVersion",
    "AuthorizationRule",
    "EntityAvailabilityStatus",
    "EntityStatus",
    "ItemPaged",
    "MessageCountDetails",
    "MessagingSku",
    "NamespaceProperties",
    "NamespaceType",
    "PartitionRuntimeProperties",
    "QueueProperties",
    "QueueRuntimeProperties",
    "ServiceBusAdministrationClient",
]
