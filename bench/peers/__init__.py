# SPDX-License-Identifier: Apache-2.0
"""The queues that oxbus is measured against, each in its best reasonable use."""
