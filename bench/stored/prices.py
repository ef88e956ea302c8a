# SPDX-License-Identifier: Apache-2.0
"""List prices of requests to object storage, in dollars, without taxes, discounts and the price of stored bytes.

They change, and differ from region to region: look them up before you rely on a sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MONTH_SECONDS = 30 * 24 * 3600
GB = 1 << 30


@dataclass(frozen=True)
class Price:
    """What one class of storage asks for."""

    key: str
    """Its part of the name of a metric."""
    name: str
    write: float
    """One PUT."""
    read: float
    """One GET or HEAD."""
    list: float
    """One page of a listing."""
    source: str
    """Where the price was read, and when; or that it was not."""
    batch: float = 0.0
    """A request that holds deletions, which only Azure is sent."""
    uploaded_gb: float = 0.0
    """A GB sent in requests."""
    downloaded_gb: float = 0.0

    def dollars(self, counts: Mapping[str, float]) -> float:
        """The price of counted requests; deletions cost nothing in any of these classes."""
        writes = sum(counts.get(kind, 0) for kind in ("creates", "swaps", "other_puts", "others"))
        requests = writes * self.write + counts.get("reads", 0) * self.read + counts.get("lists", 0) * self.list
        requests += counts.get("batches", 0) * self.batch
        moved = counts.get("bytes_up", 0) * self.uploaded_gb + counts.get("bytes_down", 0) * self.downloaded_gb
        return requests + moved / GB


PRICES = (
    Price(
        key="s3_standard",
        name="S3 Standard, us-east-1",
        write=0.005 / 1000,
        read=0.0004 / 1000,
        list=0.005 / 1000,
        source="read on 2026-11-28 in a page about S3 request fees; not on the page of AWS itself",
    ),
    Price(
        key="s3_express",
        name="S3 Express One Zone, us-east-1",
        write=0.00113 / 1000,
        read=0.00003 / 1000,
        list=0.00113 / 1000,
        uploaded_gb=0.0032,
        downloaded_gb=0.0006,
        source="read on 2026-11-28 in a copy of the S3 FAQ of AWS; the price of a listing is taken for that of a PUT",
    ),
    Price(
        key="azure_hot",
        name="Azure Blob, hot, LRS",
        write=0.065 / 10_000,
        read=0.005 / 10_000,
        list=0.065 / 10_000,
        batch=0.005 / 10_000,
        source="not looked up: the page of prices could not be read, and another source names 0.055 and 0.0044",
    ),
    Price(
        key="gcs_standard",
        name="Google Cloud Storage, Standard, one region",
        write=0.005 / 1000,
        read=0.0004 / 1000,
        list=0.005 / 1000,
        source="read on 2026-11-28 in a copy of the pricing examples of Google",
    ),
)
