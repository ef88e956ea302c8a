# SPDX-License-Identifier: Apache-2.0
"""The samples of azure-servicebus, sync and async: unmodified, and with our package in place of the SDK."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import run_samples
import sdk_samples
from oxbus import ServiceBusMessage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from oxbus import ServiceBusClient
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.server import Server

pytestmark = pytest.mark.timeout(180)

SECONDS_MAX = 150
"""Time after which the samples count as stuck; never a measure of speed."""


@pytest.fixture
def make_entities(
    inside: ServiceBusAdministrationClient, oxbus_client: ServiceBusClient
) -> Callable[[sdk_samples.Sample], dict[str, str]]:
    """Create the entities that a sample expects, under unique names, and pass them by its environment."""

    def make(sample: sdk_samples.Sample) -> dict[str, str]:
        name = sample.file.stem
        queue, sessions, topic, subscription = f"{name}-queue", f"{name}-sessions", f"{name}-topic", "subscription"
        inside.create_queue(queue)
        inside.create_queue(sessions, requires_session=True)
        inside.create_topic(topic)
        inside.create_subscription(topic, subscription, requires_session=sample.name == "list_sessions")
        texts = [f"waiting {number}" for number in range(sample.messages)]
        for sender in (
            oxbus_client.get_queue_sender(queue),
            oxbus_client.get_queue_sender(sessions),
            oxbus_client.get_topic_sender(topic),
        ):
            with sender:
                sender.send_messages([ServiceBusMessage(text, session_id="session") for text in texts])
        return {
            "SERVICEBUS_QUEUE_NAME": queue,
            "SERVICEBUS_SESSION_QUEUE_NAME": sessions,
            "SERVICEBUS_SESSION_ID": "session",
            "SERVICEBUS_TOPIC_NAME": topic,
            "SERVICEBUS_SUBSCRIPTION_NAME": subscription,
        }

    return make


@pytest.mark.parametrize("package", [run_samples.SDK, "oxbus"])
def test_the_samples_work(
    package: str, server: Server, certificate: Path, make_entities: Callable[[sdk_samples.Sample], dict[str, str]]
) -> None:
    """Every sample that needs no other service of Azure works with `UseDevelopmentEmulator=true`."""
    left_out = {} if package == run_samples.SDK else sdk_samples.LACKED_BY_OURS
    samples = [sample for sample in sdk_samples.samples() if sample.name not in left_out]
    jobs = [
        {
            "name": str(sample),
            "file": str(sample.file),
            "environment": make_entities(sample),
            "until": sample.shows if sample.is_endless else None,
        }
        for sample in samples
    ]
    done = subprocess.run(
        [sys.executable, run_samples.__file__, package],
        input=json.dumps(jobs),
        env=os.environ | _environment(server, certificate),
        stdout=subprocess.PIPE,
        timeout=SECONDS_MAX,
        text=True,
        check=True,
    )
    answers = {answer["name"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert answers.keys() == {str(sample) for sample in samples}
    failed = [
        f"{sample} ended with {answer['status']} and should have shown {sample.shows!r}:\n{answer['text'][-3000:]}"
        for sample in samples
        if (answer := answers[str(sample)])["status"] != 0 or sample.shows not in answer["text"]
    ]
    assert not failed, "\n\n".join(failed)


def _environment(server: Server, certificate: Path) -> dict[str, str]:
    settings = dict(part.split("=", 1) for part in server.connection_string.split(";"))
    assert settings["UseDevelopmentEmulator"] == "true"
    return {
        "SERVICEBUS_CONNECTION_STR": server.connection_string,
        "SERVICEBUS_FULLY_QUALIFIED_NAMESPACE": settings["Endpoint"].removeprefix("sb://"),
        "SERVICEBUS_SAS_POLICY": settings["SharedAccessKeyName"],
        "SERVICEBUS_SAS_KEY": settings["SharedAccessKey"],
        # requests and aiohttp read the trusted issuer from these.
        "REQUESTS_CA_BUNDLE": str(certificate),
        "SSL_CERT_FILE": str(certificate),
    }
