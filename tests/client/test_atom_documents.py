# SPDX-License-Identifier: Apache-2.0
"""The documents that the administration client sends: elements in the order that the service requires (B-461).

A service that reads data contracts ignores an element that comes too late. Our server reads them in any order.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from oxbus.management import AuthorizationRule, RuleProperties, SqlRuleAction, SqlRuleFilter
from oxbus.management._atom._xml import Element, parse
from scripted_http import answer, entry

QUEUE = (
    "LockDuration MaxSizeInMegabytes RequiresDuplicateDetection RequiresSession DefaultMessageTimeToLive "
    "DeadLetteringOnMessageExpiration DuplicateDetectionHistoryTimeWindow MaxDeliveryCount EnableBatchedOperations "
    "AuthorizationRules Status ForwardTo UserMetadata AutoDeleteOnIdle EnablePartitioning "
    "ForwardDeadLetteredMessagesTo EnableExpress MaxMessageSizeInKilobytes"
)
TOPIC = (
    "DefaultMessageTimeToLive MaxSizeInMegabytes RequiresDuplicateDetection DuplicateDetectionHistoryTimeWindow "
    "EnableBatchedOperations FilteringMessagesBeforePublishing AuthorizationRules Status UserMetadata SupportOrdering "
    "AutoDeleteOnIdle EnablePartitioning EnableExpress MaxMessageSizeInKilobytes"
)
SUBSCRIPTION = (
    "LockDuration RequiresSession DefaultMessageTimeToLive DeadLetteringOnMessageExpiration "
    "DeadLetteringOnFilterEvaluationExceptions DefaultRuleDescription MaxDeliveryCount EnableBatchedOperations Status "
    "ForwardTo UserMetadata ForwardDeadLetteredMessagesTo AutoDeleteOnIdle"
)
TIME = timedelta(minutes=5)
COMMON: dict[str, Any] = {
    "auto_delete_on_idle": TIME,
    "default_message_time_to_live": TIME,
    "enable_batched_operations": True,
    "status": "Active",
    "user_metadata": "m",
}
WIDE: dict[str, Any] = {
    "authorization_rules": [AuthorizationRule(key_name="app", rights=["Send"])],
    "duplicate_detection_history_time_window": TIME,
    "enable_express": False,
    "enable_partitioning": True,
    "max_message_size_in_kilobytes": 256,
    "max_size_in_megabytes": 1024,
    "requires_duplicate_detection": True,
}
RECEIVED: dict[str, Any] = {
    "dead_lettering_on_message_expiration": True,
    "forward_dead_lettered_messages_to": "target",
    "forward_to": "target",
    "lock_duration": TIME,
    "max_delivery_count": 3,
    "requires_session": False,
}
RULE = RuleProperties("r", filter=SqlRuleFilter("a = 1"), action=SqlRuleAction("SET a = 2"), created_at_utc=None)


def description(server: Any) -> Element:
    """The description in the last request."""
    content = parse(server.requests[-1].body).child("content")
    assert content is not None
    (found,) = content.children
    return found


@pytest.mark.parametrize(
    ("call", "names", "options", "expected"),
    [
        ("create_queue", ("orders",), COMMON | WIDE | RECEIVED, QUEUE),
        (
            "create_topic",
            ("news",),
            COMMON | WIDE | {"filtering_messages_before_publishing": False, "support_ordering": True},
            TOPIC,
        ),
        (
            "create_subscription",
            ("news", "all"),
            COMMON | RECEIVED | {"dead_lettering_on_filter_evaluation_exceptions": True, "rule": RULE},
            SUBSCRIPTION,
        ),
    ],
)
def test_elements_are_in_order(
    scripted: Any, call: str, names: tuple[str, ...], options: dict[str, Any], expected: str
) -> None:
    """Every option that can be set, once."""
    kind = call.removeprefix("create_").capitalize()
    admin, server = scripted(answer(201, entry(element=f"{kind}Description")))
    getattr(admin, call)(*names, **options)
    assert [child.name for child in description(server).children] == expected.split()


def test_rule(scripted: Any) -> None:
    """B-462."""
    admin, server = scripted(answer(201, entry("r", element="RuleDescription")))
    admin.create_rule("news", "all", "r", filter=SqlRuleFilter("a = @x", {"@x": 1}))
    rule = description(server)
    assert [(child.name, child.type) for child in rule.children] == [
        ("Filter", "SqlFilter"),
        ("Action", "EmptyRuleAction"),
        ("Name", ""),
    ]
    (found,) = rule.all("Filter")
    assert [child.name for child in found.children] == ["SqlExpression", "CompatibilityLevel", "Parameters"]


def test_destinations_of_forwarding_have_tokens(scripted: Any) -> None:
    """As full addresses, each with a token in its header."""
    admin, server = scripted(answer(201, entry()))
    admin.create_queue("orders", forward_to="a/b", forward_dead_lettered_messages_to="c")
    authority = f"127.0.0.1:{server.port}"
    sent = description(server)
    assert sent.text_of("ForwardTo") == f"sb://{authority}/a/b"
    headers = server.requests[-1].headers
    quoted = authority.replace(":", "%3A")
    assert f"sr=sb%3A%2F%2F{quoted}%2Fa%2Fb&" in headers["servicebussupplementaryauthorization"]
    assert f"sr=sb%3A%2F%2F{quoted}%2Fc&" in headers["servicebusdlqsupplementaryauthorization"]


def test_update_sends_the_whole_description(scripted: Any) -> None:
    """With `If-Match`, and without forwarding that ends."""
    shown = "<MaxDeliveryCount>3</MaxDeliveryCount><ForwardTo>sb://host/target</ForwardTo>"
    admin, server = scripted(answer(200, entry(description=shown)))
    queue = admin.get_queue("orders")
    assert queue.forward_to == "target"
    queue.forward_to = None
    queue.default_message_time_to_live = timedelta.max
    admin.update_queue(queue)
    sent = description(server)
    assert (sent.text_of("MaxDeliveryCount"), sent.child("ForwardTo")) == ("3", None)
    assert sent.text_of("DefaultMessageTimeToLive") == "P10675199DT2H48M5.4775807S"
    assert server.requests[-1].headers["if-match"] == "*"
