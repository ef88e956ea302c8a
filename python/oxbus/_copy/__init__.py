# SPDX-License-Identifier: Apache-2.0
"""Copies a namespace into another one: entities, messages, dead letters and session states.

Nothing is written anywhere else, so the target itself shows how far the copy is. Each entity that is being copied has a
mark in its `user_metadata`, and nobody can receive from it. What a copy that was killed has already stored is found by
peeking, so that no message is lost or doubled when it goes on.

`_run` has the order of the steps; `_marks` the marks; `_entities` creates and completes entities; `_messages` copies
messages, and `_dead_letters` and `_session_states` what is not sent as it is.
"""

from oxbus._copy._progress import Counts, Progress
from oxbus._copy._run import Side, copy_namespace

__all__ = ["Counts", "Progress", "Side", "copy_namespace"]
