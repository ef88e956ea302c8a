# SPDX-License-Identifier: Apache-2.0
"""What the administration client shows of a namespace."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from oxbus._field_mapping import MutableFieldMapping

if TYPE_CHECKING:
    from datetime import datetime

    from oxbus.management._enums import MessagingSku, NamespaceType


@dataclass(slots=True, eq=False)
class NamespaceProperties(MutableFieldMapping):
    """What is known about a namespace; also readable like a mapping.

    Attributes:
        name: Its name; ``"memory"`` for one that was opened without a name.
        alias: Another name that leads to it.
        created_at_utc: When it was created, where that is recorded.
        messaging_sku: Its tier; None without a tier.
        messaging_units: Its bought capacity; None here.
        modified_at_utc: When it was last changed, where that is recorded.
        namespace_type: What it may contain.
    """

    name: str
    _: KW_ONLY
    alias: str | None
    created_at_utc: datetime | None
    messaging_sku: str | MessagingSku | None
    messaging_units: int | None
    modified_at_utc: datetime | None
    namespace_type: str | NamespaceType | None
