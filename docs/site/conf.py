# SPDX-License-Identifier: Apache-2.0
"""The site of the documentation: `make docs` builds it from docs/ and from the stubs of the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]

project = "oxbus"
author = "the oxbus authors"
version = release = PACKAGE["version"]
extensions = ["myst_parser", "autoapi.extension", "sphinx.ext.napoleon"]
exclude_patterns = ["site"]
root_doc = "index"

# Pages are Markdown as a repository shows them; the anchors of their headings work in both places.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
# `Attributes:` of a class and its members are one list.
napoleon_use_ivar = True
# The stubs import classes that use the stubs; their members are found all the same.
suppress_warnings = ["autoapi.python_import_resolution"]

# Docstrings name pages as files of the project, for readers of the source.
_PAGE = re.compile(r"(?<![`/\w])docs/(?P<page>[\w/-]+)\.md(?P<anchor>#[\w-]+)?(?!`)")

html_theme = "pydata_sphinx_theme"
html_title = f"oxbus {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
templates_path = ["templates"]
html_sidebars = {"**": ["contents.html"]}
html_theme_options = {
    "switcher": {"json_url": "_static/versions.json", "version_match": release},
    "check_switcher": False,
    "navbar_start": ["navbar-logo", "version-switcher"],
    "navbar_center": [],
    "navbar_persistent": ["search-button"],
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
}

# The reference comes from the sources and from the stubs of the native module, without importing either.
python_maximum_signature_line_length = 88
autoapi_dirs = [str(ROOT / "python/oxbus")]
autoapi_root = "reference"
autoapi_file_patterns = ["*.pyi", "*.py"]
autoapi_options = ["members", "undoc-members", "imported-members"]
autoapi_member_order = "groupwise"
autoapi_python_class_content = "class"
autoapi_add_toctree_entry = False


def _is_left_out(_app: Sphinx, kind: str, name: str, _object: Any, _skip: bool, _options: Any) -> bool | None:
    """Leave out private modules, commands, and whatever a module keeps to itself."""
    if any(part.startswith("_") for part in name.split(".")[1:]):
        return True
    if kind in {"module", "package"} and name.startswith(("oxbus.cli", "oxbus.demo", "oxbus.spark.")):
        return True
    return None


def _add_contents(_app: Sphinx, page: str, source: list[str]) -> None:
    """Give the index its contents from its own table, the decisions theirs from the folder, and docstrings links."""
    if page == "index":
        source[0] += "".join(_contents(caption, pages) for caption, pages in _sections(source[0]).items())
    elif page == "decisions/index":
        source[0] += "\n```{toctree}\n:glob:\n\n[0-9]*\n```\n"
    elif page.startswith("reference/"):
        root = "../" * page.count("/")
        source[0] = _PAGE.sub(lambda it: f"`{it[0]} <{root}{it['page']}.html{it['anchor'] or ''}>`__", source[0])


def _sections(index: str) -> dict[str, list[str]]:
    """Return the pages under each bold row of the table."""
    sections: dict[str, list[str]] = {}
    for row in index.splitlines():
        if caption := re.match(r"\| \*\*(.+)\*\* \|", row):
            sections[caption[1]] = pages = []
        elif page := re.match(r"\| \[.+\]\((.+)\.md\) \|", row):
            pages.append(page[1])
    sections["Reference"].append("Python <reference/oxbus/index>")
    return sections


def _contents(caption: str, pages: list[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])


def setup(app: Sphinx) -> None:
    """Connect the hooks."""
    app.connect("autoapi-skip-member", _is_left_out)
    app.connect("source-read", _add_contents)
