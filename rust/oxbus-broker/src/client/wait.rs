// SPDX-License-Identifier: Apache-2.0
//! Waiting in a thread: look, join those who wait, look again, sleep.

use std::time::Duration;

use oxbus_model::Result;
use oxbus_store::Doorbell;

use crate::clock::Alarm;

/// What a wait brought.
#[derive(Debug)]
pub enum Waited<T> {
    /// What was waited for.
    Found(T),
    /// The wait is over.
    Nothing,
    /// The slice is over, not the wait: the caller looks for signals and calls again.
    Slice,
}

/// How long to wait, and in which pieces.
pub(super) struct Patience<C> {
    pub(super) alarm: Alarm,
    /// The longest wait of this call.
    pub(super) slice: Duration,
    /// True when the caller should look after something else.
    pub(super) cancelled: C,
}

/// Looks until there is something, and sleeps at the doorbell in between, not longer than `look_again_after` says.
pub(super) fn until_found<T>(
    doorbell: &Doorbell,
    patience: &Patience<impl Fn() -> bool>,
    look: impl Fn() -> Result<Option<T>>,
    look_again_after: impl Fn() -> Option<Duration>,
) -> Result<Waited<T>> {
    if let Some(found) = look()? {
        return Ok(Waited::Found(found));
    }
    let slice_end = Alarm::after(Some(patience.slice));
    loop {
        let remaining = patience.alarm.remaining();
        if remaining == Some(Duration::ZERO) {
            return Ok(Waited::Nothing);
        }
        if (patience.cancelled)() || slice_end.remaining() == Some(Duration::ZERO) {
            return Ok(Waited::Slice);
        }
        let mut ticket = doorbell.register();
        // Registered first, looked again second: what arrived in between is found here or rings the ticket.
        if let Some(found) = look()? {
            return Ok(Waited::Found(found));
        }
        if (patience.cancelled)() {
            return Ok(Waited::Slice);
        }
        let sleep = [remaining, slice_end.remaining(), look_again_after()]
            .into_iter()
            .flatten()
            .min();
        ticket.wait(sleep);
        drop(ticket);
        if let Some(found) = look()? {
            return Ok(Waited::Found(found));
        }
    }
}
