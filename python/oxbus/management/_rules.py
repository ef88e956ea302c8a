# SPDX-License-Identifier: Apache-2.0
"""Rules of a subscription: which messages it gets a copy of, and how the copy is changed.

A rule has a filter and, optionally, an action. Filters see the properties of a message, never its body.

Source: docs/behaviour.md B-343 to B-381.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from oxbus._field_mapping import MutableFieldMapping
from oxbus._options import explains_options

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID

RuleValue: TypeAlias = "str | int | float | bool | datetime | timedelta | UUID | None"
"""The types of parameters and properties in rules."""


@explains_options
@dataclass
class SqlRuleFilter:
    """Selects the messages for which a condition on their properties is true.

    Attributes:
        sql_expression: The condition, such as ``"sys.Label = 'order' AND amount > @least"``; up to 1,024 characters.
        parameters: Values of the ``@`` names in the condition, by name: ``{"@least": 100}``.

    Source: docs/behaviour.md B-361 to B-375.
    """

    sql_expression: str | None = None
    parameters: dict[str, RuleValue] | None = None

    requires_preprocessing: ClassVar[bool] = True


class TrueRuleFilter(SqlRuleFilter):
    """Selects every message.

    Source: docs/behaviour.md B-345, B-355.
    """

    def __init__(self) -> None:
        """Create the filter. Raises nothing."""
        super().__init__("1=1")


class FalseRuleFilter(SqlRuleFilter):
    """Selects no message.

    Source: docs/behaviour.md B-355.
    """

    def __init__(self) -> None:
        """Create the filter. Raises nothing."""
        super().__init__("1>1")


@explains_options
@dataclass(kw_only=True)
class CorrelationRuleFilter:
    """Selects the messages whose properties equal all given values; at least one must be given.

    Text comparison is case-sensitive.

    Attributes:
        correlation_id: The correlation id of the message.
        message_id: Its id.
        to: Its destination address.
        reply_to: The address for replies.
        label: Its subject.
        session_id: Its session.
        reply_to_session_id: The session for replies.
        content_type: The content type of its body.
        properties: Application properties by name. Values are equal if they have the same type and value; numbers of
            any type compare by value.

    Source: docs/behaviour.md B-356, B-357.
    """

    correlation_id: str | None = None
    message_id: str | None = None
    to: str | None = None
    reply_to: str | None = None
    label: str | None = None
    session_id: str | None = None
    reply_to_session_id: str | None = None
    content_type: str | None = None
    properties: dict[str, RuleValue] | None = None


@explains_options
@dataclass
class SqlRuleAction:
    """Changes the properties of a copy before it enters the subscription.

    Attributes:
        sql_expression: The statements, such as ``"SET urgent = TRUE; REMOVE draft; SET sys.Label = @label"``; up to
            1,024 characters and 32 statements.
        parameters: Values of the ``@`` names in the statements, by name.

    Source: docs/behaviour.md B-376 to B-381.
    """

    sql_expression: str | None = None
    parameters: dict[str, RuleValue] | None = None

    requires_preprocessing: ClassVar[bool] = True


@explains_options
@dataclass(slots=True, eq=False)
class RuleProperties(MutableFieldMapping):
    """A rule: change it and pass it to `update_rule`. Also usable like a mapping.

    `create_rule`, `get_rule` and `list_rules` return it; create one for `create_subscription`.

    Attributes:
        name: The name within its subscription, with the letter case of its creation.
        filter: Which messages the rule selects; None selects every message.
        action: How the rule changes its copy; None changes nothing.
        created_at_utc: When it was created; read only.

    Source: docs/behaviour.md B-345 to B-351, B-360.
    """

    name: str
    _: KW_ONLY
    filter: SqlRuleFilter | CorrelationRuleFilter | None
    action: SqlRuleAction | None
    created_at_utc: datetime | None
