# SPDX-License-Identifier: Apache-2.0
"""Brokers that speak AMQP 1.0, beside one another with the same client."""
