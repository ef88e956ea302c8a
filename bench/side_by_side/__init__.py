# SPDX-License-Identifier: Apache-2.0
"""Ours and every peer in one run: in memory, and surviving power loss."""
