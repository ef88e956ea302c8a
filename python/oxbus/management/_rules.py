# SPDX-License-Identifier: Apache-2.0
"""Rules of a subscription: which messages it gets a copy of, and what is changed in the copy.

A rule has a filter and maybe an action. Filters see the properties of a message and never its body.

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
"""What a parameter or a property in a rule may be."""


@explains_options
@dataclass
class SqlRuleFilter:
    """Selects the messages for which a condition on their properties is true.

    Attributes:
        sql_expression: The condition, such as ``"sys.Label = 'order' AND amount > @least"``; up to 1,024 characters.
        parameters: The values of the names with an ``@`` in it, by name: ``{"@least": 100}``.

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
        super().__init__("1=1")


class FalseRuleFilter(SqlRuleFilter):
    """Selects no message.

    Source: docs/behaviour.md B-355.
    """

    def __init__(self) -> None:
        super().__init__("1>1")


@explains_options
@dataclass(kw_only=True)
class CorrelationRuleFilter:
    """Selects the messages whose properties equal all those given; at least one has to be given.

    Texts are compared with regard to letter case.

    Attributes:
        correlation_id: The correlation id of the message.
        message_id: Its id.
        to: Where it is going.
        reply_to: Where an answer should go.
        label: Its subject.
        session_id: Its session.
        reply_to_session_id: The session of an answer.
        content_type: The kind of its body.
        properties: Application properties by name; a value equals one of the same type, and numbers equal numbers.

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
        sql_expression: What to do, such as ``"SET urgent = TRUE; REMOVE draft; SET sys.Label = @label"``;
            up to 1,024 characters and 32 statements.
        parameters: The values of the names with an ``@`` in it, by name.

    Source: docs/behaviour.md B-376 to B-381.
    """

    sql_expression: str | None = None
    parameters: dict[str, RuleValue] | None = None

    requires_preprocessing: ClassVar[bool] = True


@explains_options
@dataclass(slots=True, eq=False)
class RuleProperties(MutableFieldMapping):
    """A rule: change it, then give it to `update_rule`; also usable like a mapping.

    Get one from `create_rule`, `get_rule` or `list_rules`, or make one for `create_subscription`.

    Attributes:
        name: The name within its subscription, with the casing of its creation.
        filter: Which messages it selects; None selects every message.
        action: What it changes in the copy; None changes nothing.
        created_at_utc: When it was created; read only.

    Source: docs/behaviour.md B-345 to B-351, B-360.
    """

    name: str
    _: KW_ONLY
    filter: SqlRuleFilter | CorrelationRuleFilter | None
    action: SqlRuleAction | None
    created_at_utc: datetime | None
