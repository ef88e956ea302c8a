# SPDX-License-Identifier: Apache-2.0
"""From result files to the tables and plots of docs/performance.md."""
