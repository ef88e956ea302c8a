// SPDX-License-Identifier: Apache-2.0
//! A message as a row of a table, whichever call found it.

use oxbus_broker::client::{BrowseItem, Delivery};
use oxbus_model::{Counter, Timestamp};
use oxbus_store::{MessagePhase, PeekedMessage, StoredRecord};

use crate::state_column::RowState;

/// A message as a row of a table.
pub(crate) trait MessageRow {
    /// The index of its cell.
    fn index(&self) -> usize;
    fn counter(&self) -> Counter;
    /// Its encoded bytes.
    fn record(&self) -> &[u8];
    fn enqueued_at(&self) -> Timestamp;
    fn delivery_count(&self) -> u32;
    /// When its lock ends; `None` without a lock of its own.
    fn locked_until(&self) -> Option<Timestamp>;
    fn state(&self) -> RowState;
}

/// The bytes of a delivered message.
fn bytes_of(record: &StoredRecord) -> &[u8] {
    record.in_memory().expect("delivered messages are in memory")
}

impl MessageRow for Delivery {
    fn index(&self) -> usize {
        self.index
    }

    fn counter(&self) -> Counter {
        self.claimed.key.counter
    }

    fn record(&self) -> &[u8] {
        bytes_of(&self.claimed.record)
    }

    fn enqueued_at(&self) -> Timestamp {
        self.claimed.enqueued_at
    }

    fn delivery_count(&self) -> u32 {
        self.claimed.delivery_count
    }

    fn locked_until(&self) -> Option<Timestamp> {
        self.locked_until
    }

    fn state(&self) -> RowState {
        if self.claimed.deferred {
            RowState::Deferred
        } else {
            RowState::Active
        }
    }
}

/// A reserved message: the reservation locks it, so the row has no lock.
#[repr(transparent)]
pub(crate) struct ReservedRow<'a>(pub(crate) &'a Delivery);

impl MessageRow for ReservedRow<'_> {
    fn index(&self) -> usize {
        self.0.index
    }

    fn counter(&self) -> Counter {
        self.0.counter()
    }

    fn record(&self) -> &[u8] {
        self.0.record()
    }

    fn enqueued_at(&self) -> Timestamp {
        self.0.enqueued_at()
    }

    fn delivery_count(&self) -> u32 {
        self.0.delivery_count()
    }

    fn locked_until(&self) -> Option<Timestamp> {
        None
    }

    fn state(&self) -> RowState {
        RowState::Active
    }
}

/// A browsed message, which has no lock.
pub(crate) struct PeekedRow<'a> {
    pub(crate) index: usize,
    pub(crate) message: &'a PeekedMessage,
    pub(crate) record: &'a [u8],
}

impl<'a> From<&'a BrowseItem> for PeekedRow<'a> {
    fn from(BrowseItem { index, message }: &'a BrowseItem) -> Self {
        let (index, record) = (*index, bytes_of(&message.record));
        Self { index, message, record }
    }
}

impl MessageRow for PeekedRow<'_> {
    fn index(&self) -> usize {
        self.index
    }

    fn counter(&self) -> Counter {
        self.message.counter
    }

    fn record(&self) -> &[u8] {
        self.record
    }

    fn enqueued_at(&self) -> Timestamp {
        self.message.enqueued_at
    }

    fn delivery_count(&self) -> u32 {
        self.message.delivery_count
    }

    fn locked_until(&self) -> Option<Timestamp> {
        None
    }

    fn state(&self) -> RowState {
        match self.message.phase {
            MessagePhase::Deferred | MessagePhase::DeferredLocked => RowState::Deferred,
            MessagePhase::Scheduled => RowState::Scheduled,
            MessagePhase::Ready | MessagePhase::Cached | MessagePhase::Locked => RowState::Active,
        }
    }
}
