// SPDX-License-Identifier: Apache-2.0
//! Waiting without a thread: a callback is called when there may be something to receive.
//!
//! Register, look again, and only then wait: what arrives in between is found by the look or rings the callback.

use std::ops::Deref;
use std::sync::Arc;

use oxbus_model::name::SubQueue;
use oxbus_store::Doorbell;
use oxbus_store::doorbell::{Callback, Ticket};

use super::receiver::Receiver;
use crate::entity::Queue;

/// The doorbell of a message stream, kept alive with its queue.
struct Stream {
    queue: Arc<Queue>,
    sub_queue: SubQueue,
}

impl Deref for Stream {
    type Target = Doorbell;

    fn deref(&self) -> &Doorbell {
        &self.queue.receivable(self.sub_queue).doorbell
    }
}

/// A place among those who wait at a message stream. Dropped, it hands a ring that was not taken to the next one.
pub struct WakeTicket(Ticket<Stream>);

impl WakeTicket {
    /// Takes the ring, if it was rung. Whoever does so looks for messages afterwards.
    pub fn take_ring(&mut self) -> bool {
        self.0.try_wait()
    }
}

impl Receiver {
    /// Joins those who wait. `callback` is called once, by whichever thread rings; it must be short and must not receive.
    pub fn register(&self, callback: Callback) -> WakeTicket {
        let stream = Stream {
            queue: Arc::clone(&self.queue),
            sub_queue: self.sub_queue,
        };
        WakeTicket(Ticket::with_callback(stream, callback))
    }
}
