# SPDX-License-Identifier: Apache-2.0
"""Authorization rules, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oxbus._options import explains_options

if TYPE_CHECKING:
    from datetime import datetime

    from oxbus.management._enums import AccessRights


@explains_options
@dataclass(slots=True, kw_only=True)
class AuthorizationRule:
    """A key with its rights.

    Attributes:
        type: The kind of rule.
        claim_type: The kind of claim.
        claim_value: The claim.
        rights: The operations that it allows.
        created_at_utc: When it was created.
        modified_at_utc: When it was last changed.
        key_name: The name of its keys.
        primary_key: One key.
        secondary_key: A second key, so that the first can be replaced without an outage.

    Source: docs/behaviour.md B-416.
    """

    type: str | None = None
    claim_type: str | None = None
    claim_value: str | None = None
    rights: list[str | AccessRights] | None = None
    created_at_utc: datetime | None = None
    modified_at_utc: datetime | None = None
    key_name: str | None = None
    primary_key: str | None = None
    secondary_key: str | None = None
