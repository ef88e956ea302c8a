# SPDX-License-Identifier: Apache-2.0
"""Test helpers of the SDK's suite for asynchronous tests."""

from __future__ import annotations

from devtools_testutils import recorded_by_proxy as recorded_by_proxy_async

__all__ = ["recorded_by_proxy_async"]
