# SPDX-License-Identifier: Apache-2.0
"""A person at the console: a page of a real Chromium."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from signatures import KEY, KEY_NAME

if TYPE_CHECKING:
    import re

    from oxbus.server import Server
    from playwright.sync_api import Locator, Page

LIVENESS_MS = 60_000


class Person:
    """Somebody who uses the console. What the browser complains about is collected."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        self.root = f"http://{server.host}:{server.port}/$console/"
        self.complaints: list[str] = []
        page.set_default_timeout(LIVENESS_MS)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", lambda line: self._note(line.type, line.text))
        page.on("request", lambda request: self._check(request.url))

    def _note(self, kind: str, text: str) -> None:
        # An answer that refuses something is a line of the browser, too; pages show it themselves.
        if kind in {"error", "warning"} and "Failed to load resource" not in text:
            self.complaints.append(f"{kind}: {text}")

    def _check(self, url: str) -> None:
        if not url.startswith((self.root[: self.root.index("/$")], "data:")):
            self.complaints.append(f"a request to elsewhere: {url}")

    def sign_in(self, name: str = KEY_NAME, key: str = KEY) -> None:
        """Sign in at the page for it."""
        self.page.goto(self.root)
        self.page.get_by_label("Name of the key").fill(name)
        self.page.get_by_label("Key", exact=True).fill(key)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("button", name="Sign out").wait_for()

    def open(self, page: str, **query: Any) -> None:
        """Open a page by its address, and wait until it has what it shows."""
        self.page.goto(f"{self.root}{page}" + (f"?{urlencode(query)}" if query else ""))
        self.page.get_by_role("heading", level=1).wait_for()
        from playwright.sync_api import expect  # noqa: PLC0415 -- other tests of the console need no Playwright

        # The policy of the pages forbids scripts made of text, so waiting has to look at elements.
        expect(self.page.get_by_text("Loading")).to_have_count(0, timeout=LIVENESS_MS)

    def table(self, caption: str) -> Locator:
        """The table with a caption."""
        return self.page.get_by_role("table", name=caption)

    def row(self, caption: str, text: str) -> Locator:
        """The rows of a table that contain a text."""
        return self.table(caption).get_by_role("row").filter(has_text=text)

    def press(self, name: str) -> None:
        """Press a button."""
        self.page.get_by_role("button", name=name, exact=True).first.click()

    def sees(self, text: str | re.Pattern[str]) -> None:
        """Wait until a text is on the page."""
        self.page.get_by_text(text).first.wait_for()
