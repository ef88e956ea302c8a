# SPDX-License-Identifier: Apache-2.0
"""The enumerations of the management plane, with the names and values of the SDK."""

from __future__ import annotations

from enum import Enum

from oxbus._options import Choice


class EntityStatus(Choice, str, Enum):
    """The operations that an entity allows. Programs cannot set the values from `CREATING` on.

    Source: docs/behaviour.md B-396.
    """

    ACTIVE = "Active"
    DISABLED = "Disabled"
    SEND_DISABLED = "SendDisabled"
    RECEIVE_DISABLED = "ReceiveDisabled"
    CREATING = "Creating"
    DELETING = "Deleting"
    RENAMING = "Renaming"
    RESTORING = "Restoring"
    UNKNOWN = "Unknown"


class EntityAvailabilityStatus(Choice, str, Enum):
    """The availability of an entity: whether all its partitions are in service.

    Source: docs/behaviour.md B-097, B-098.
    """

    UNKNOWN = "Unknown"
    AVAILABLE = "Available"
    LIMITED = "Limited"
    """At least one partition is out of service; counts and peeks cover the others only."""
    RESTORING = "Restoring"
    RENAMING = "Renaming"


class AccessRights(Choice, str, Enum):
    """The rights of an authorization rule.

    Source: docs/behaviour.md B-416.
    """

    MANAGE = "Manage"
    SEND = "Send"
    LISTEN = "Listen"


class MessagingSku(Choice, str, Enum):
    """The tier of a namespace.

    Source: docs/behaviour.md B-001.
    """

    BASIC = "Basic"
    STANDARD = "Standard"
    PREMIUM = "Premium"


class NamespaceType(Choice, str, Enum):
    """The kind of a namespace; here always `MESSAGING`."""

    MESSAGING = "Messaging"
    NOTIFICATION_HUB = "NotificationHub"
    MIXED = "Mixed"
    EVENT_HUB = "EventHub"
    RELAY = "Relay"


class ApiVersion(Choice, str, Enum):
    """Versions of the service's management interface; all behave the same here."""

    V2024_05 = "2024-05"
    V2021_05 = "2021-05"
    V2017_04 = "2017-04"
