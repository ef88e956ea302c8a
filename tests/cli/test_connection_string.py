# SPDX-License-Identifier: Apache-2.0
"""`--connection-string` and OXBUS_CONNECTION_STRING name the directory of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    """Without the directory that the fixture `data` puts into the environment."""
    assert data.is_dir()
    monkeypatch.delenv("OXBUS_DATA")
    monkeypatch.delenv("OXBUS_CONNECTION_STRING", raising=False)


@pytest.mark.parametrize("form", ["Endpoint=file://{}", "file://{}"])
def test_connection_string_names_the_directory(
    run: Callable[..., Any], data: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """As an option, or as a variable, which the options precede."""
    text = form.format(data)
    assert run("queue", "create", "orders", "--connection-string", text).code == 0
    assert run("send", "orders", "x", "--connection-string", text).code == 0
    monkeypatch.setenv("OXBUS_CONNECTION_STRING", text)
    (queue,) = run("queue", "list", "--json").json
    assert queue["name"] == "orders"
    monkeypatch.setenv("OXBUS_CONNECTION_STRING", "file:///missing")
    assert run("queue", "list", "--data", data).code == 0
    assert run("queue", "list", "--connection-string", text).code == 0
    assert "`/missing`" in run("queue", "list").err


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("memory://name", "inside one process"),
        ("sb://h", "needs"),
        ("file:///x;EntityPath=orders", "omit EntityPath"),
        ("SharedAccessKey=secret", "has no Endpoint"),
        ("orders", "each part is name=value"),
    ],
)
def test_other_connection_strings_are_wrong_usage(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, text: str, cause: str
) -> None:
    """The error says what to write, and shows no key."""
    given = run("stats", "--connection-string", text)
    monkeypatch.setenv("OXBUS_CONNECTION_STRING", text)
    for refused in (given, run("stats")):
        assert (refused.code, refused.out) == (2, "")
        assert cause in refused.err
        assert "secret" not in refused.err


def test_directory_and_connection_string_cannot_both_be_given(
    run: Callable[..., Any], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two options, or two variables."""
    refused = run("stats", "--data", data, "--connection-string", f"file://{data}")
    assert (refused.code, "--data and --connection-string cannot both be given" in refused.err) == (2, True)
    monkeypatch.setenv("OXBUS_DATA", str(data))
    monkeypatch.setenv("OXBUS_CONNECTION_STRING", f"file://{data}")
    refused = run("stats")
    assert (refused.code, "OXBUS_DATA and OXBUS_CONNECTION_STRING" in refused.err) == (2, True)
