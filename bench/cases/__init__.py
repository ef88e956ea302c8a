# SPDX-License-Identifier: Apache-2.0
"""The work that is measured, ours and the peers' side by side."""
