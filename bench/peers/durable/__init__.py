# SPDX-License-Identifier: Apache-2.0
"""Queues that keep their messages on disk, each behind the same few calls (`contract.py`)."""
