# SPDX-License-Identifier: Apache-2.0
"""Creating, reading, changing, deleting and listing the rules of a subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from oxbus._paging import ItemPaged
from oxbus.management._rule_translation import native_rule, rule_properties
from oxbus.management._rules import CorrelationRuleFilter, RuleProperties, SqlRuleAction, SqlRuleFilter, TrueRuleFilter
from oxbus.management._translation import required_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oxbus._oxbus import Namespace

_EVERY_MESSAGE: Final = TrueRuleFilter()


class RuleCalls:
    """The part of the administration client that deals with rules."""

    _namespace: Namespace

    def create_rule(
        self,
        topic_name: str,
        subscription_name: str,
        rule_name: str,
        *,
        filter: CorrelationRuleFilter | SqlRuleFilter = _EVERY_MESSAGE,  # noqa: A002 (the name is the SDK's)
        action: SqlRuleAction | None = None,
    ) -> RuleProperties:
        """Add a rule to a subscription, for the messages that are sent from now on.

        ``$Default`` selects every message until it is deleted, whatever other rules say.

        Args:
            topic_name: The topic.
            subscription_name: Its subscription.
            rule_name: Up to 50 letters, digits and ``. - _``; letter case is kept, and ignored when comparing.
            filter: Which messages it selects.
            action: What it changes in the copy. A rule with an action makes a copy of its own; all others share one.

        Returns:
            The rule, with the time of its creation.

        Raises:
            MessagingEntityNotFoundError: There is no such topic or subscription.
            MessagingEntityAlreadyExistsError: The subscription has a rule of that name.
            InvalidOperationError: The filter or the action does not parse, or there are too many.
            ValueError: The name is malformed, an expression is too long, or a correlation filter is empty.
            TypeError: The filter, the action or a value in them is of the wrong type.

        Source: docs/behaviour.md B-042, B-043, B-345 to B-351, B-355 to B-360.
        """
        rule = RuleProperties(required_text("rule_name", rule_name), filter=filter, action=action, created_at_utc=None)
        return rule_properties(self._namespace._create_rule(*_names(topic_name, subscription_name), native_rule(rule)))

    def get_rule(self, topic_name: str, subscription_name: str, rule_name: str) -> RuleProperties:
        """Return a rule.

        Raises:
            MessagingEntityNotFoundError: There is no such topic, subscription or rule.
        """
        names = _names(topic_name, subscription_name)
        return rule_properties(self._namespace._get_rule(*names, required_text("rule_name", rule_name)))

    def update_rule(self, topic_name: str, subscription_name: str, rule: RuleProperties | Mapping[str, Any]) -> None:
        """Replace the filter and the action of a rule, for the messages that are sent from now on.

        Args:
            topic_name: The topic.
            subscription_name: Its subscription.
            rule: The rule, as `get_rule` returned it with your changes, or a mapping with the same names.

        Raises:
            MessagingEntityNotFoundError: There is no such topic, subscription or rule.
            InvalidOperationError: The filter or the action does not parse.
            TypeError: A mapping lacks a part or has an unknown one, or a part is of the wrong type.
            ValueError: An expression is too long, or a correlation filter is empty.

        Source: docs/behaviour.md B-351, B-359.
        """
        self._namespace._update_rule(*_names(topic_name, subscription_name), native_rule(rule))

    def delete_rule(self, topic_name: str, subscription_name: str, rule_name: str) -> None:
        """Delete a rule; a subscription without rules gets no messages.

        Raises:
            MessagingEntityNotFoundError: There is no such topic, subscription or rule.

        Source: docs/behaviour.md B-346.
        """
        self._namespace._delete_rule(*_names(topic_name, subscription_name), required_text("rule_name", rule_name))

    def list_rules(self, topic_name: str, subscription_name: str) -> ItemPaged[RuleProperties]:
        """Return the rules of a subscription, by name, as an iterator with `by_page`.

        Raises:
            MessagingEntityNotFoundError: There is no such topic or subscription; raised at the first item.
        """
        names = _names(topic_name, subscription_name)
        return ItemPaged(lambda: [rule_properties(native) for native in self._namespace._list_rules(*names)])


def _names(topic_name: str, subscription_name: str) -> tuple[str, str]:
    return required_text("topic_name", topic_name), required_text("subscription_name", subscription_name)
