# SPDX-License-Identifier: Apache-2.0
"""A browser without pages: the requests of the console over plain HTTP."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from plain_http import Answer
from signatures import KEY, KEY_NAME

if TYPE_CHECKING:
    from oxbus.server import Server


class Console:
    """One browser: it keeps the cookie and the token against forgery."""

    def __init__(self, server: Server, **headers: str) -> None:
        self.server = server
        self.headers = headers
        self.cookie = ""
        self.csrf = ""

    def ask(self, method: str, path: str, body: bytes | str | None = None, **headers: str) -> Answer:
        """Send a request. Underscores in the names of headers stand for hyphens."""
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in (self.headers | headers).items()}
        if self.cookie:
            named.setdefault("Cookie", self.cookie)
        try:
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def sign_in(self, name: str = KEY_NAME, key: str = KEY) -> Answer:
        """Sign in, and remember the cookie and the token against forgery."""
        text = json.dumps({"key_name": name, "key": key})
        answer = self.ask("POST", "/$console/api/sign-in", text, Content_Type="application/json")
        if answer.status == http.client.OK:
            self.cookie = answer.headers["set-cookie"].split(";")[0]
            self.csrf = self.get("state")["signed_in"]["csrf"]
        return answer

    def get(self, resource: str, **parameters: Any) -> Any:
        """What a page shows. Fails unless the answer is 200."""
        query = f"?{urlencode(parameters)}" if parameters else ""
        answer = self.ask("GET", f"/$console/api/{resource}{query}")
        assert answer.status == http.client.OK, answer
        return json.loads(answer.body)

    def try_post(self, resource: str, **body: Any) -> Answer:
        """Change something."""
        return self.ask(
            "POST",
            f"/$console/api/{resource}",
            json.dumps(body),
            Content_Type="application/json",
            X_CSRF_Token=self.csrf,
        )

    def post(self, resource: str, **body: Any) -> Any:
        """Change something. Fails unless the answer is 200."""
        answer = self.try_post(resource, **body)
        assert answer.status == http.client.OK, answer
        return json.loads(answer.body)

    def live(self, resource: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Begin a stream of events."""
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=60)
        path = f"/$console/api/live?resource={quote(resource, safe='')}"
        connection.request("GET", path, headers={"Cookie": self.cookie})
        return connection, connection.getresponse()
