# SPDX-License-Identifier: Apache-2.0
"""The samples of azure-servicebus: their source, and those that need Azure itself.

They are in the source archive of the version that uv.lock pins, and run unchanged.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from sdk_programs import BUILD, ROOT

if TYPE_CHECKING:
    from pathlib import Path

FETCH_SECONDS_MAX = 150

NEED_AZURE = {
    "client_identity_authentication": "signs in to Azure Active Directory with an application secret",
    "connection_to_custom_endpoint_address": "its gateway and certificate are placeholders",
    "proxy": "its HTTP proxy is a placeholder",
}
"""Samples, sync and async, that cannot run here, each with its reason."""

LACKED_BY_OURS = {
    "send_and_receive_amqp_annotated_message": "oxbus has no AmqpAnnotatedMessage: it sends bodies of data only",
    "sample_code_servicebus": "it calls `_from_connection_string`, which is private in the SDK",
    "topic_subscription_with_rule_operations": "keys of application properties are str in oxbus, not bytes",
}
"""Samples that do not run with oxbus in place of the SDK, each with its reason."""


SHOWS = {
    "authenticate_client_connstr": "",
    "authenticate_using_azure_named_key_credential": "",
    "authenticate_using_azure_sas_credential": "",
    "auto_lock_renew": "Lock renew failure demonstration complete.",
    "deadletter_messages_and_correct": "Received fixed message: Body=b'Message to be deadlettered number: 8'",
    "failure_and_recovery": "Data 9",
    "generate_sas_token_and_authenticate_client": "",
    "list_sessions": "Subscription session: session",
    "mgmt_queue": "-- Delete Queue",
    "mgmt_rule": "-- Delete Rule",
    "mgmt_subscription": "-- Delete Subscription",
    "mgmt_topic": "-- Delete Topic",
    "receive_deadlettered_messages": "waiting 9",
    "receive_deferred_message_queue": "Completing deferred msg: waiting 9",
    "receive_iterator_queue": "waiting 9",
    "receive_peek": "waiting 1",
    "receive_queue": "waiting 9",
    "receive_subscription": "waiting 9",
    "sample_code_servicebus": "waiting 7",
    "schedule_messages_and_cancellation": "All scheduled messages are cancelled.",
    "schedule_topic_messages_and_cancellation": "All scheduled messages are cancelled.",
    "send_and_receive_amqp_annotated_message": "Message of value body received.",
    "send_queue": "Send message is done.",
    "send_topic": "Send message is done.",
    "session_pool_receive": "Sample message no. 19",
    "session_send_receive": "Receive is done.",
    "topic_subscription_with_rule_operations": "'1' Messages From Subscription: sb-corrfiltersub",
}
"""Expected output of samples; those without any only have to exit with success."""

ENDLESS = {"failure_and_recovery", "receive_iterator_queue"}
"""Samples that wait for messages without end."""

MESSAGES = {"list_sessions": 1, "sample_code_servicebus": 30}
"""The number of messages sent before a sample starts; ten for those that only receive."""

LONG = ("sample_code_servicebus", "session_pool_receive", "auto_lock_renew", "deadletter_messages_and_correct")
"""Slow samples, which start first."""


@dataclass(frozen=True)
class Sample:
    """A sample that is run."""

    file: Path

    @property
    def name(self) -> str:
        """Its name, without sync or async."""
        return self.file.stem.removesuffix("_async")

    @property
    def shows(self) -> str:
        """Its expected output."""
        return SHOWS[self.name]

    @property
    def is_endless(self) -> bool:
        """Whether the sample never ends on its own."""
        return self.name in ENDLESS

    @property
    def messages(self) -> int:
        """The number of messages sent to its queues and topic before it starts."""
        return MESSAGES.get(self.name, 10 if self.name.startswith("receive_") else 0)

    def __str__(self) -> str:
        return f"{self.file.parent.name}/{self.file.stem}"


def samples() -> list[Sample]:
    """The samples that can run here; fails for unknown ones."""
    found = [Sample(file) for file in folder().glob("*/*.py")]
    unknown = {sample.name for sample in found} - SHOWS.keys() - NEED_AZURE.keys()
    assert not unknown, f"new samples: {unknown}: add what they show to SHOWS, or why they cannot run to NEED_AZURE"
    missing = (SHOWS.keys() | NEED_AZURE.keys()) - {sample.name for sample in found}
    assert not missing, f"samples that no longer exist: {missing}"
    wanted = [sample for sample in found if sample.name not in NEED_AZURE]
    return sorted(wanted, key=lambda sample: (sample.name not in LONG, str(sample)))


def folder() -> Path:
    """The folder with `sync_samples` and `async_samples`, fetched if it does not exist yet."""
    lock = (ROOT / "uv.lock").read_text(encoding="utf-8")
    found = re.search(
        r'name = "azure-servicebus"\nversion = "([^"]+)"\n(?:.*\n)*?sdist = .*hash = "(sha256:\w+)"', lock
    )
    assert found, "uv.lock has no azure-servicebus with a source archive"
    version, digest = found.groups()
    target = BUILD / "samples"
    target.mkdir(parents=True, exist_ok=True)
    samples = target / f"azure_servicebus-{version}" / "samples"
    with (BUILD / "samples.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not samples.exists():
            _fetch(target, f"azure-servicebus=={version} --hash={digest}")
    return samples


def _fetch(target: Path, requirement: str) -> None:
    pinned = target / "requirements.txt"
    pinned.write_text(requirement + "\n", encoding="ascii")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    done = subprocess.run(
        [*command, "--require-hashes", "-r", str(pinned), "-d", str(target)],
        capture_output=True,
        text=True,
        timeout=FETCH_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"the samples of azure-servicebus cannot be fetched: {done.stderr.strip()[-300:]}")
    (archive,) = target.glob("*.tar.gz")
    unpacking = target / "unpacking"
    shutil.rmtree(unpacking, ignore_errors=True)
    with tarfile.open(archive) as content:
        content.extractall(unpacking, filter="data")
    for found in unpacking.iterdir():
        found.rename(target / found.name)
    archive.unlink()
    unpacking.rmdir()
