// SPDX-License-Identifier: Apache-2.0
//! The types that all crates share: messages, names, settings, limits, errors.
//!
//! Depends on no other crate of the workspace. No I/O, no async; time is an argument.
//! Read in this order: `time`, `timespan`, `sequence`, `hash`, `hex`, `name`, `message`, `identity`, `kind`,
//! `authorization`, `options`, `tier`, `rules`, `caps`, `lock`, `error`, `sync`, `latency`, `varint`.

pub mod authorization;
pub mod caps;
pub mod error;
pub mod hash;
pub mod hex;
pub mod identity;
pub mod kind;
pub mod latency;
pub mod lock;
pub mod message;
pub mod name;
pub mod options;
pub mod rules;
pub mod sequence;
pub mod store_url;
pub mod sync;
pub mod tier;
pub mod time;
pub mod timespan;
pub mod varint;

pub use error::{Effect, Error, ErrorKind, Result, SharedError};
pub use identity::{Identity, IdentityKey};
pub use kind::EntityKind;
pub use lock::{LockToken, TokenKey};
pub use sequence::{Counter, PartitionId, SequenceNumber};
pub use time::{Clock, Moment, Ticks, Timestamp};
