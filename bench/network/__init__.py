# SPDX-License-Identifier: Apache-2.0
"""`oxbus serve` beside work queues with protocols of their own, and beside the loopback with nothing behind it."""
