# SPDX-License-Identifier: Apache-2.0
"""Each limit on the resources that a client can use has a test that tries to exceed it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CAPS = ROOT / "rust" / "oxbus-model" / "src" / "caps.rs"
PREFIXES = ("AMQP", "HTTP", "ATOM", "WEBSOCKET", "SAS", "SERVER", "LOG")

NO_ATTACK = {
    "AMQP_ACCEPT_MS_DEFAULT": "the default when a client gives no value",
    "AMQP_IDLE_MS": "the value that the server announces; the test of idle connections uses it",
    "AMQP_LINK_CREDIT": "a grant, not a limit; AMQP_QUEUED_BYTES_MAX limits what is sent beyond it",
    "AMQP_REQUEST_CREDIT": "a grant, not a limit; AMQP_JOBS_WAITING_MAX limits requests beyond it",
    "AMQP_SESSION_LOST_MS": "a pause inside the server",
    "HTTP_WAIT_SECONDS_DEFAULT": "the default when a client gives no value",
    "SERVER_BLOCKING_THREADS_MAX": "a number of threads; AMQP_JOBS_MAX limits the use by one client",
    "SERVER_CLOSE_MS_MAX": "the longest shutdown of the server",
}
"""Numbers of these groups that no client can exceed, each with the reason."""


def limits() -> set[str]:
    """The names of the limits in `caps.rs`."""
    groups = "|".join(PREFIXES)
    return set(re.findall(rf"^pub const ((?:{groups})_\w+):", CAPS.read_text(encoding="utf-8"), re.MULTILINE))


def named_in_tests() -> set[str]:
    """The names of limits in tests, in Rust and in Python."""
    found: set[str] = set()
    names = re.compile(rf"\b(?:{'|'.join(PREFIXES)})_[A-Z_]+\b")
    for file in ROOT.glob("rust/*/**/*.rs"):
        text = file.read_text(encoding="utf-8")
        if "tests" in file.relative_to(ROOT).parts or file.name == "tests.rs":
            found.update(names.findall(text))
        else:  # the tests of a file are at its end
            found.update(names.findall(text.partition("#[cfg(test)]\nmod tests {")[2]))
    for file in ROOT.glob("tests/**/*.py"):
        if file != Path(__file__):
            found.update(names.findall(file.read_text(encoding="utf-8")))
    return found


def test_each_limit_has_a_test_that_names_it() -> None:
    """A new limit needs a test of the attack that it prevents."""
    untested = limits() - named_in_tests() - NO_ATTACK.keys()
    assert not untested, "send the attack in a test that names the limit, or give the reason in NO_ATTACK"


def test_exceptions_are_limits_without_a_test() -> None:
    """A limit that is removed or has a test leaves the list."""
    assert NO_ATTACK.keys() <= limits()
