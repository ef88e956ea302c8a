# SPDX-License-Identifier: Apache-2.0
"""The packages that `pip install "oxbus[...]"` installs."""

from __future__ import annotations

import re
from importlib.metadata import metadata, requires


def brought_by(extra: str) -> set[str]:
    """The packages of an extra, by name."""
    wanted = [line for line in requires("oxbus") or [] if re.search(rf"extra == ['\"]{extra}['\"]", line)]
    return {re.split(r"[ ;<>=!~]", line)[0] for line in wanted}


def test_tables_of_the_command_line_need_no_data() -> None:
    """`rich` was only in the extra `demo`, with Spark and a year of flights."""
    assert brought_by("cli") == {"rich"}
    assert "oxbus[cli]" in brought_by("demo")


def test_each_extra_is_known() -> None:
    """The package itself has no dependencies."""
    assert set(metadata("oxbus").get_all("Provides-Extra") or []) == {
        "arrow",
        "cli",
        "demo",
        "otel",
        "otlp",
        "prometheus",
        "spark",
    }
    assert [line for line in requires("oxbus") or [] if "extra ==" not in line] == []
