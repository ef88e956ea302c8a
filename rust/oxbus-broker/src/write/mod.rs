// SPDX-License-Identifier: Apache-2.0
//! The write path of a shard: `begin`, then `finish`.
//!
//! A [`ShardWrite`] is a plain list of operations. [`Shard::begin`](crate::shard::Shard::begin) appends it to the
//! journal; [`Ticket::finish`] waits for the entry and applies the rest. No other code appends to a journal, waits for
//! an entry of a write or publishes a message, with two exceptions in memory: `Entity::store_one`, and
//! `Entity::fan_out_one` for topics. `Shard::await_all` and `Shard::wait_until` wait without a write. Without a
//! journal there is nothing to wait for, so every write but an atomic one takes effect in `begin`.
//!
//! ```text
//! before   the caller routes, encodes, applies rules, activates what is due, admits identities,
//!          takes numbers of topics
//! begin    1  count the call as in flight (`InFlightSend`)     on failure: nothing happened
//!          2  atomic: pin all locks, check all sessions, hold off snapshots
//!                                                              on a lost lock: unpin, nothing happened
//!          3  apply what takes effect first: ends of locks, dead letters, session states, origins, consumers
//!          4  make space, holding only the locks of step 3
//!          5  under the append guard: next numbers, high-water marks, events, append, reserve
//!                                                              on failure: nothing happened; unknown if step 3 did
//! finish   6  wait for the marks that cover the numbers, then for the entry at its level
//!                                                              on failure: report it, give up the numbers, unpin
//!          7  remember identities, then publish messages
//!          8  end pinned locks, set session states, remove received messages, store the intent
//! ```
//!
//! Arriving messages take effect after the wait: no receiver gets a message that can still be lost. The store decides
//! the end of a lock before the journal has it: otherwise a snapshot could cover a removal whose message is still
//! stored.
//!
//! Invariants
//! - during an append only these locks are held: those of dead letters, session states, a consumer's state, the intake
//!   of sessions and a receive cache; during a wait for an entry only the snapshot barrier and exclusive guards of
//!   callers;
//! - lock order: the intake and the index of sessions, the snapshot barrier, the shard's mutex, the append guard;
//! - after an error with [`Effect::None`](oxbus_model::Effect::None) the arriving messages are still in the write.

mod arrivals;
mod begin;
mod cell_records;
mod dead_letters;
mod error;
mod expiry;
mod message;
mod pinned_locks;
mod session_reservations;
mod sessions;
mod settlements;
mod shard_write;
mod ticket;

pub use dead_letters::DeadLetterReason;
pub use error::{Cause, UnconfirmedEntry, WriteError};
pub(crate) use message::check_size;
pub use message::{EncodedMessage, PlainEncoder};
pub use shard_write::{DeadLetterInput, DeliveryEffect, FanOutRecord, LockEnd, Removal, ShardWrite, WriteOperation};
pub use ticket::{CommittedWrite, Ticket, finish_all};
