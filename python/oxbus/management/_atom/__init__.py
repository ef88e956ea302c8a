# SPDX-License-Identifier: Apache-2.0
"""The administration of a server over HTTP: Atom entries and feeds (docs/behaviour.md B-456 to B-465).

Read in this order: `_transport` (the calls), `_requests` (retries and errors), `_descriptions` and `_rules` (entities
as XML), `_xml` (reading and writing), `_values` (durations and times).
"""
