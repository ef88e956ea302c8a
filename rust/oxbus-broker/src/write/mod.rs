// SPDX-License-Identifier: Apache-2.0
//! The one way to write into a shard: `begin`, then `finish`.
//!
//! A [`ShardWrite`] is a plain list of operations. [`Shard::begin`](crate::shard::Shard::begin) brings it into the journal,
//! [`Ticket::finish`] waits for that and lets the rest take effect. Nothing else appends to a journal, waits for an entry or
//! publishes a message. Past it go only `Entity::store_one` and, to a topic, `Entity::fan_out_one`, in memory. Waits without
//! a write are `Shard::await_all` and `Shard::wait_until`. Without a journal there is nothing to wait for, so all but an
//! atomic write takes effect in `begin`.
//!
//! ```text
//! before   the caller routes, encodes, applies rules, activates what is due, admits identities, takes numbers of topics
//! begin    1  a place among the calls in flight (`InFlightSend`)                       refused: nothing happened
//!          2  atomic: pin all locks, check all sessions, hold snapshots off        lost: given back, nothing happened
//!          3  what takes effect first: ends of locks, dead letters, session states, origins, consumers
//!          4  make room, holding nothing but what step 3 needs
//!          5  under the journal's order: next numbers, high-water marks, events, append, reserve
//!             refused: nothing happened, or unknown when step 3 did something
//! finish   6  wait for the marks that cover the numbers, then for the entry at its level
//!             failed: report it, then give the numbers up and the locks back
//!          7  keep identities, then publish messages
//!          8  end pinned locks, set session states, let received messages leave, note the intent
//! ```
//!
//! Messages that come in take effect after the wait. Ends of locks are decided by the store before the journal gets them.
//! Each order has its reason: nobody may receive a message that can still be lost, and a snapshot must not cover a removal
//! whose message is still stored.
//!
//! Holds always
//! - no lock is held while an entry is appended but those of dead letters, session states and a consumer's state, the intake
//!   of sessions and a receive cache; while it is waited for, only units of work and turns;
//! - order of the locks: the intake and the index of sessions, then units of work, the shard's mutex, the journal's order;
//! - after an error with [`Effect::None`](oxbus_model::Effect::None) the messages that come in are still in the write.

mod arrivals;
mod begin;
mod cell_records;
mod dead_letters;
mod error;
mod expiry;
mod message;
mod pinned_locks;
mod sessions;
mod settlements;
mod shard_write;
mod ticket;

pub use dead_letters::DeadLetterReason;
pub use error::{Cause, UnconfirmedEntry, WriteError};
pub use message::EncodedMessage;
pub(crate) use message::check_size;
pub use shard_write::{DeadLetterInput, DeliveryEffect, FanOutRecord, LockEnd, Removal, ShardWrite, WriteOperation};
pub use ticket::{CommittedWrite, Ticket, finish_all};
