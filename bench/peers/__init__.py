# SPDX-License-Identifier: Apache-2.0
"""What oxbus is measured against, each in its best reasonable use."""
