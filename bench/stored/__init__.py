# SPDX-License-Identifier: Apache-2.0
"""Namespaces in stores in one run: oxbus over each store, the stores themselves, and brokers of three nodes."""
