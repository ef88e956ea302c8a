# SPDX-License-Identifier: Apache-2.0
"""Moving many messages at a time between processes: a server over a namespace, and its client.

``namespace.serve_bulk()`` starts a server; ``BulkClient(connection_string)`` calls it. Source: docs/bulk-plane.md.
"""

from __future__ import annotations

from oxbus._oxbus import BulkClient, BulkServer

__all__ = ["BulkClient", "BulkServer"]
