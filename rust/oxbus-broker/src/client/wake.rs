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
use crate::entity::Entity;
use crate::shard::Accepted;

/// Where somebody waits, kept alive.
enum Bell {
    Queue(Arc<Entity>, SubQueue),
    Session(Arc<Accepted>),
}

impl Deref for Bell {
    type Target = Doorbell;

    fn deref(&self) -> &Doorbell {
        match self {
            Self::Queue(queue, sub_queue) => &queue.receivable(*sub_queue).doorbell,
            Self::Session(accepted) => accepted.doorbell(),
        }
    }
}

/// A place among those who wait at a message stream. Dropped, it hands a ring that was not taken to the next one.
pub struct WakeTicket(Ticket<Bell>);

impl WakeTicket {
    /// A place among those who wait at a queue.
    pub(super) fn at_queue(queue: Arc<Entity>, sub_queue: SubQueue, callback: Callback) -> Self {
        Self(Ticket::with_callback(Bell::Queue(queue, sub_queue), callback))
    }

    /// Takes the ring, if it was rung. Whoever does so looks for messages afterwards.
    pub fn take_ring(&mut self) -> bool {
        self.0.try_wait()
    }
}

impl Receiver {
    /// Joins those who wait. `callback` is called once, by whichever thread rings; it must be short and must not receive.
    pub fn register(&self, callback: Callback) -> WakeTicket {
        match &self.session {
            Some(held) => WakeTicket(Ticket::with_callback(
                Bell::Session(Arc::clone(&held.accepted)),
                callback,
            )),
            None => WakeTicket::at_queue(Arc::clone(&self.queue), self.sub_queue, callback),
        }
    }
}
