# SPDX-License-Identifier: Apache-2.0
"""Names of the server for the tests of azure-servicebus that manage entities."""

from __future__ import annotations

import inspect
import os
from typing import Any

GIVEN = {
    "servicebus_connection_str": os.environ["OXBUS_CONNECTION_STRING"],
    "servicebus_fully_qualified_namespace": "localhost" + os.environ["SERVICEBUS_ENDPOINT_SUFFIX"],
}


def ServiceBusPreparer() -> Any:  # noqa: N802 -- its name there
    """Pass the names that a test takes."""

    def decorate(test: Any) -> Any:
        parameters = inspect.signature(test).parameters
        takes_all = any(it.kind is it.VAR_KEYWORD for it in parameters.values())
        given = {name: value for name, value in GIVEN.items() if takes_all or name in parameters}

        def run(self: Any) -> Any:
            return test(self, **given)

        run.__dict__ |= test.__dict__
        return run

    return decorate
