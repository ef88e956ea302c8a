# SPDX-License-Identifier: Apache-2.0
"""Bulk transfer of messages between processes: the client of a server's bulk routes.

``oxbus.server.serve(namespace)`` starts a server; ``BulkClient(server.connection_string)`` connects to it.

Source: docs/bulk.md.
"""

from __future__ import annotations

from oxbus._oxbus import BulkClient

__all__ = ["BulkClient"]
