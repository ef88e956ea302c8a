// SPDX-License-Identifier: Apache-2.0
//! Ids for messages without one: the prefix of this process and a counter (B-067).

use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_broker::clock::random_bytes;
use oxbus_model::message::AssignedId;
use pyo3::prelude::*;

use crate::error::OrRaise;

static PREFIX: AtomicU64 = AtomicU64::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Chooses the prefix. Call it before the first message is created.
pub(crate) fn choose_prefix() -> PyResult<()> {
    PREFIX.store(u64::from_ne_bytes(random_bytes().or_raise()?), Ordering::Relaxed);
    Ok(())
}

/// Chooses another prefix in a forked child, whose counter continues from the value of its parent.
pub(crate) fn change_prefix_in_child() {
    let other = random_bytes().map_or_else(|_| u64::from(std::process::id()), u64::from_ne_bytes);
    PREFIX.fetch_xor(other, Ordering::Relaxed);
}

/// True unless the id was created before a fork.
#[inline]
pub(crate) fn is_of_this_process(id: AssignedId) -> bool {
    id.sender() == PREFIX.load(Ordering::Relaxed)
}

/// Returns a unique id.
#[inline]
pub(crate) fn next() -> AssignedId {
    first_of(1)
}

/// Reserves `count` consecutive unique ids and returns the first.
#[inline]
pub(crate) fn first_of(count: u64) -> AssignedId {
    AssignedId::new(
        PREFIX.load(Ordering::Relaxed),
        COUNT.fetch_add(count, Ordering::Relaxed),
    )
}
