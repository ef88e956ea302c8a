# SPDX-License-Identifier: Apache-2.0
"""Clients for Python beside each other, on one server."""
