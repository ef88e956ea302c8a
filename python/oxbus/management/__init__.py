# SPDX-License-Identifier: Apache-2.0
"""Creating, updating, listing and counting the entities of a namespace."""

from oxbus._paging import ItemPaged
from oxbus._remote._options import ConnectionOptions
from oxbus.management._authorization import AuthorizationRule
from oxbus.management._client import ServiceBusAdministrationClient
from oxbus.management._counts import MessageCountDetails, PartitionRuntimeProperties
from oxbus.management._enums import (
    AccessRights,
    ApiVersion,
    EntityAvailabilityStatus,
    EntityStatus,
    MessagingSku,
    NamespaceType,
)
from oxbus.management._namespaces import NamespaceProperties
from oxbus.management._queues import QueueProperties, QueueRuntimeProperties
from oxbus.management._reservation_calls import ReservationProperties
from oxbus.management._rules import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    RuleProperties,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)
from oxbus.management._stages import StageProperties
from oxbus.management._subscriptions import SubscriptionProperties, SubscriptionRuntimeProperties
from oxbus.management._topics import TopicProperties, TopicRuntimeProperties

__all__ = [
    "AccessRights",
    "ApiVersion",
    "AuthorizationRule",
    "ConnectionOptions",
    "CorrelationRuleFilter",
    "EntityAvailabilityStatus",
    "EntityStatus",
    "FalseRuleFilter",
    "ItemPaged",
    "MessageCountDetails",
    "MessagingSku",
    "NamespaceProperties",
    "NamespaceType",
    "PartitionRuntimeProperties",
    "QueueProperties",
    "QueueRuntimeProperties",
    "ReservationProperties",
    "RuleProperties",
    "ServiceBusAdministrationClient",
    "SqlRuleAction",
    "SqlRuleFilter",
    "StageProperties",
    "SubscriptionProperties",
    "SubscriptionRuntimeProperties",
    "TopicProperties",
    "TopicRuntimeProperties",
    "TrueRuleFilter",
]
