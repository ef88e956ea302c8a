# SPDX-License-Identifier: Apache-2.0
"""Creating, reading, updating, deleting and listing the rules of a subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from oxbus._paging import ItemPaged
from oxbus.management._rule_translation import native_rule, rule_properties
from oxbus.management._rules import CorrelationRuleFilter, RuleProperties, SqlRuleAction, SqlRuleFilter, TrueRuleFilter
from oxbus.management._translation import required_text, with_changes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oxbus.management._transport import AdministrationTransport


_EVERY_MESSAGE: Final = TrueRuleFilter()


class RuleCalls:
    """The rule operations of the administration client."""

    _transport: AdministrationTransport

    def create_rule(
        self,
        topic_name: str,
        subscription_name: str,
        rule_name: str,
        *,
        filter: CorrelationRuleFilter | SqlRuleFilter = _EVERY_MESSAGE,  # noqa: A002 (the name is the SDK's)
        action: SqlRuleAction | None = None,
    ) -> RuleProperties:
        """Add a rule to a subscription, for messages sent after the call.

        ``$Default`` selects every message until it is deleted, whatever the other rules select.

        Args:
            topic_name: The topic.
            subscription_name: Its subscription.
            rule_name: Up to 50 letters, digits and ``. - _``. Letter case is kept and ignored in comparisons.
            filter: Which messages the rule selects. Default: every message.
            action: How the rule changes its copy. A rule with an action creates a separate copy; all other rules
                share one.

        Returns:
            The rule, with the time of its creation.

        Raises:
            MessagingEntityNotFoundError: The topic or subscription does not exist.
            MessagingEntityAlreadyExistsError: The subscription has a rule of that name.
            InvalidRuleError: The filter or the action does not parse, an expression is too long, or a correlation
                filter is empty.
            ServiceBusQuotaExceededError: The topic has as many filters as the tier allows.
            PartitionUnavailableError: A partition of the entity is out of service, or this process does not own all
                partitions.
            OSError: The catalog of the directory could not be written; the change may or may not have taken effect.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: The filter, the action or a value in them has the wrong type.
            ValueError: The name is malformed, or the namespace is closed.

        Source: docs/behaviour.md B-042, B-043, B-345 to B-351, B-355 to B-360.
        """
        rule = RuleProperties(required_text("rule_name", rule_name), filter=filter, action=action, created_at_utc=None)
        return rule_properties(self._transport.create_rule(*_names(topic_name, subscription_name), native_rule(rule)))

    def get_rule(self, topic_name: str, subscription_name: str, rule_name: str) -> RuleProperties:
        """Return a rule.

        Args:
            topic_name: The topic.
            subscription_name: Its subscription.
            rule_name: The name of the rule.

        Raises:
            MessagingEntityNotFoundError: The topic, subscription or rule does not exist.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A name is not a str.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-360.
        """
        names = _names(topic_name, subscription_name)
        return rule_properties(self._transport.get_rule(*names, required_text("rule_name", rule_name)))

    def update_rule(
        self, /, topic_name: str, subscription_name: str, rule: RuleProperties | Mapping[str, Any], **changes: Any
    ) -> None:
        """Replace the filter and the action of a rule, for messages sent after the call.

        Args:
            topic_name: The topic.
            subscription_name: Its subscription.
            rule: The object that `get_rule` returned, with your changes; or a mapping with all of its names.
            changes: `filter` or `action`, which replace those of the object.

        Raises:
            MessagingEntityNotFoundError: The topic, subscription or rule does not exist.
            InvalidRuleError: The filter or the action does not parse, an expression is too long, or a correlation
                filter is empty.
            ServiceBusQuotaExceededError: The topic has as many filters as the tier allows.
            PartitionUnavailableError: A partition of the entity is out of service, or this process does not own all
                partitions.
            OSError: The catalog of the directory could not be written; the change may or may not have taken effect.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A mapping lacks a name or has an unknown one, or a value has the wrong type.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-351, B-359.
        """
        properties = with_changes(RuleProperties, "ServiceBusAdministrationClient.update_rule", rule, changes)
        self._transport.update_rule(*_names(topic_name, subscription_name), native_rule(properties))

    def delete_rule(self, topic_name: str, subscription_name: str, rule_name: str) -> None:
        """Delete a rule; a subscription without rules gets no messages.

        Args:
            topic_name: The topic.
            subscription_name: Its subscription.
            rule_name: The name of the rule.

        Raises:
            MessagingEntityNotFoundError: The topic, subscription or rule does not exist.
            PartitionUnavailableError: A partition of the entity is out of service, or this process does not own all
                partitions.
            OSError: The catalog of the directory could not be written; the change may or may not have taken effect.
            ForkedProcessError: The namespace was opened before the process forked.
            TypeError: A name is not a str.
            ValueError: The namespace is closed.

        Source: docs/behaviour.md B-346.
        """
        self._transport.delete_rule(*_names(topic_name, subscription_name), required_text("rule_name", rule_name))

    def list_rules(self, topic_name: str, subscription_name: str) -> ItemPaged[RuleProperties]:
        """Return the rules of a subscription, by name, as an iterator with `by_page`.

        Args:
            topic_name: The topic.
            subscription_name: Its subscription.

        Raises:
            MessagingEntityNotFoundError: The topic or subscription does not exist; raised at the first item.
            ForkedProcessError: The namespace was opened before the process forked; raised at the first item.
            TypeError: A name is not a str.
            ValueError: The namespace is closed; raised at the first item.

        Source: docs/behaviour.md B-360, B-457.
        """
        names = _names(topic_name, subscription_name)
        return ItemPaged(lambda: [rule_properties(found) for found in self._transport.list_rules(*names)])


def _names(topic_name: str, subscription_name: str) -> tuple[str, str]:
    return required_text("topic_name", topic_name), required_text("subscription_name", subscription_name)
