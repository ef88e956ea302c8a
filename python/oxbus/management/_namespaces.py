# SPDX-License-Identifier: Apache-2.0
"""The properties of a namespace."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from oxbus._field_mapping import MutableFieldMapping

if TYPE_CHECKING:
    from datetime import datetime

    from oxbus.management._enums import MessagingSku, NamespaceType


@dataclass(slots=True, eq=False)
class NamespaceProperties(MutableFieldMapping):
    """The properties of a namespace; also readable like a mapping.

    Attributes:
        name: Its name; ``"memory"`` for a namespace opened without a name.
        alias: An alias of the name.
        created_at_utc: When it was created, if that is recorded.
        messaging_sku: Its tier; None without a tier.
        messaging_units: Its messaging units; None here.
        modified_at_utc: When it was last changed, if that is recorded.
        namespace_type: The kind of the namespace.

    Source: `azure.servicebus.management.NamespaceProperties`.
    """

    name: str
    _: KW_ONLY
    alias: str | None
    created_at_utc: datetime | None
    messaging_sku: str | MessagingSku | None
    messaging_units: int | None
    modified_at_utc: datetime | None
    namespace_type: str | NamespaceType | None
