# SPDX-License-Identifier: Apache-2.0
"""The AMQP view of a message; currently only the form of its body."""

from oxbus._enums import AmqpMessageBodyType

__all__ = ["AmqpMessageBodyType"]
