# SPDX-License-Identifier: Apache-2.0
"""The Python in the README and in docs/ runs, and files that the pages name exist.

The blocks of one page run in order and share their names, like a session of a reader who types them.
A block with the fence ``python no-run`` is only compiled.
"""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```python(?P<tags>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One block of Python."""

    line: int
    tags: set[str]
    code: str


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in order."""
    text = page.read_text()
    return [
        Block(text.count("\n", 0, match.start("code")) + 1, set(match["tags"].split()), match["code"])
        for match in FENCE.finditer(text)
    ]


PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if blocks(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_of_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block runs without an error or a warning."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        assert block.tags <= {"no-run"}, f"unknown fence tag in line {block.line - 1}"
        # The padding gives tracebacks the line numbers of the page.
        code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
        if "no-run" not in block.tags:
            exec(code, names)  # noqa: S102 (the test runs them)


def test_readme_has_an_example() -> None:
    """The README shows the package in use."""
    assert any("no-run" not in block.tags for block in blocks(ROOT / "README.md"))


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_of_the_page_exist(page: Path) -> None:
    """Each link to a file of the project names one that exists."""
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), target


SOURCE_PATH = re.compile(r"`([^`\s]+/[^`\s]+\.(?:rs|py))`")

#: Pages that name files of other projects, with the reason.
CITES_OTHER_PROJECTS = {
    "docs/decisions/0018-amqp-codec-and-engine.md": "names the files of fe2o3-amqp that lack something"
}


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    """The files of the project, each with a slash in front."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [f"/{name}" for name in listed.stdout.splitlines()]


@pytest.mark.parametrize(
    "page",
    [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_paths_of_the_page_exist(page: Path, tracked: list[str]) -> None:
    """Each source file in backticks is the end of the path of a tracked file. A ``*`` stands for any characters."""
    named = set(SOURCE_PATH.findall(page.read_text()))
    missing = {path for path in named if not any(fnmatchcase(file, f"*/{path}") for file in tracked)}
    if str(page.relative_to(ROOT)) in CITES_OTHER_PROJECTS:
        assert missing, "the page names no file of another project; take it off the list"
        return
    assert not missing
