# SPDX-License-Identifier: Apache-2.0
"""Tests of azure-servicebus itself that once failed here; they were recorded against the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sdk_tests
from oxbus import Namespace
from oxbus.server import serve

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)

TESTS = {
    "test_queues.py": ["test_queue_send_amqp_annotated_message", "test_message_inner_amqp_properties"],
    "async_tests/test_queues_async.py": ["test_queue_async_send_amqp_annotated_message"],
    "test_message.py": ["test_message_property"],
    "mgmt_tests/test_mgmt_rules.py": ["test_mgmt_rule_create", "test_mgmt_rule_update_success"],
    "mgmt_tests/async/test_mgmt_rules_async.py": ["test_async_mgmt_rule_create"],
    "mgmt_tests/test_mgmt_queues.py": [
        "test_mgmt_queue_create_with_queue_description",
        "test_mgmt_queue_update_success",
        "test_mgmt_queue_update_dict_success",
    ],
    "mgmt_tests/async/test_mgmt_queues_async.py": [
        "test_async_mgmt_queue_create_with_queue_description",
        "test_async_mgmt_queue_update_success",
        "test_mgmt_queue_async_update_dict_success",
    ],
}
"""Tests by their files."""

REFUSED_BY_STANDARD = {
    "test_mgmt_queue_create_with_queue_description",
    "test_async_mgmt_queue_create_with_queue_description",
}
"""Tests that expect `max_message_size_in_kilobytes` to be rejected, which a Premium namespace accepts (B-053)."""


@pytest.mark.parametrize("file", TESTS)
def test_tests_of_the_sdk_pass(file: str, tier: str, certificate: Path) -> None:
    """Annotations, decimals, timespans and forwarding as in the service (B-033, B-333, B-374, B-429, B-430)."""
    # They create entities without partitioning, which a Premium namespace has only with one partition.
    partitions = 1 if tier == "premium" else None
    tests = [test for test in TESTS[file] if tier == "standard" or test not in REFUSED_BY_STANDARD]
    with Namespace(tier=tier, partitions=partitions) as bus, serve(bus, certificate_out=certificate) as server:
        assert sdk_tests.run(file, tests, server, certificate) == len(tests)
