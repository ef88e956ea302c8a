# SPDX-License-Identifier: Apache-2.0
"""What every client of a server needs: its address, credentials, retries, and requests over HTTP."""
