# SPDX-License-Identifier: Apache-2.0
"""Durable queues on one disk in one run: oxbus, its peers, and the disk itself."""
