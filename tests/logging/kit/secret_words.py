# SPDX-License-Identifier: Apache-2.0
"""Words that must not appear in a log, for use in messages and credentials."""

from __future__ import annotations

from typing import Final

import oxbus

BODY: Final = "secret-of-the-body"
PROPERTY: Final = "secret_of_a_property"
SUBJECT: Final = "secret-of-the-subject"
SESSION: Final = "secret-of-the-session"
KEY: Final = "secret-of-the-access-key"

_PARTITION_KEY: Final = "secret-of-the-partition-key"


def partition_key(partition_id: int, partitions: int) -> str:
    """A partition key of that partition."""
    candidates = (f"{_PARTITION_KEY}-{number}" for number in range(100_000))
    return next(key for key in candidates if oxbus.partition_id(key, partitions) == partition_id)


WORDS: Final = ("secret", "SharedAccessSignature", "sig=")
"""Parts of all secrets and of all tokens."""
