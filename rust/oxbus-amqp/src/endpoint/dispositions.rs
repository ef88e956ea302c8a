// SPDX-License-Identifier: Apache-2.0
//! Dispositions to the peer, collected so that consecutive deliveries share a frame.

use std::ops::RangeInclusive;

use bytes::BytesMut;

use crate::performative::{DeliveryState, Disposition, Role, put_frame};

/// Collects dispositions until a flush, so that consecutive deliveries share a frame.
#[derive(Debug)]
pub(crate) struct DispositionBuffer {
    role: Role,
    pending: Vec<PendingDisposition>,
}

#[derive(Debug)]
struct PendingDisposition {
    number: u32,
    settled: bool,
    state: DeliveryState,
}

impl DispositionBuffer {
    pub(crate) fn new(role: Role) -> Self {
        Self {
            role,
            pending: Vec::new(),
        }
    }

    /// Settles a delivery.
    pub(crate) fn push(&mut self, number: u32, state: DeliveryState) {
        self.push_as(number, true, state);
    }

    /// Updates the state of a delivery, and settles it if `settled`.
    pub(crate) fn push_as(&mut self, number: u32, settled: bool, state: DeliveryState) {
        self.pending.push(PendingDisposition { number, settled, state });
    }

    pub(crate) fn flush(&mut self, out: &mut BytesMut, channel: u16) {
        if self.pending.is_empty() {
            return;
        }
        self.pending.sort_by_key(|pending| pending.number);
        let mut answers = self.pending.drain(..);
        let mut next = answers.next();
        while let Some(first) = next {
            let mut last = first.number;
            next = answers.next();
            while let Some(other) = &next
                && other.number == last.wrapping_add(1)
                && other.settled == first.settled
                && other.state == first.state
            {
                last = other.number;
                next = answers.next();
            }
            put_disposition(out, channel, self.role, first.number..=last, first.settled, first.state);
        }
    }
}

/// Writes a disposition that settles deliveries.
pub(crate) fn put_settled(
    out: &mut BytesMut,
    channel: u16,
    role: Role,
    numbers: RangeInclusive<u32>,
    state: DeliveryState,
) {
    put_disposition(out, channel, role, numbers, true, state);
}

fn put_disposition(
    out: &mut BytesMut,
    channel: u16,
    role: Role,
    numbers: RangeInclusive<u32>,
    settled: bool,
    state: DeliveryState,
) {
    let disposition = Disposition {
        role,
        first: *numbers.start(),
        last: Some(*numbers.end()),
        settled,
        state: Some(state),
        batchable: false,
    };
    put_frame(out, channel, &disposition);
}

/// True if the state is one in which the receiver is done with the delivery.
pub(crate) fn is_outcome(state: Option<&DeliveryState>) -> bool {
    state.is_some_and(DeliveryState::is_outcome)
}
