# SPDX-License-Identifier: Apache-2.0
"""Moving many messages at a time between processes: the client of the bulk routes of a server.

``oxbus.server.serve(namespace)`` starts a server; ``BulkClient(server.connection_string)`` calls it.
Source: docs/bulk.md.
"""

from __future__ import annotations

from oxbus._oxbus import BulkClient

__all__ = ["BulkClient"]
