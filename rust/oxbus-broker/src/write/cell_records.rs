// SPDX-License-Identifier: Apache-2.0
//! Writes the data that a cell stores besides messages: session states, consumers and origins.

use std::sync::Arc;

use oxbus_model::name::SubQueue;
use oxbus_model::{Moment, Timestamp};
use oxbus_store::Wait;
use oxbus_store::shard_log::SpaceClass;

use super::begin::append;
use super::error::WriteError;
use crate::shard::journal::{ConsumerRecord, JournalEvent, Origin, PendingEntry};
use crate::shard::{AcceptedSession, CallKind, Cell, SessionLost, SessionState};

/// Writes the event of a session state.
pub(super) fn state_event(
    cell: &Cell,
    accepted: &AcceptedSession,
    state: Option<&SessionState>,
    now: Timestamp,
    entry: &mut Vec<u8>,
) {
    let event = JournalEvent::SessionState {
        id: accepted.id(),
        set_at: now,
        state: state.map(|state| &*state.bytes),
    };
    event.encode(cell.entity, entry);
}

/// Sets the state of a session that the caller holds. Returns the entry to wait for.
pub(super) fn set_state(
    cell: &Cell,
    accepted: &Arc<AcceptedSession>,
    state: Option<SessionState>,
    moment: Moment,
    wait: &Wait<'_>,
) -> Result<Option<PendingEntry>, WriteError> {
    let sessions = cell.sessions().ok_or(SessionLost)?;
    let mut entry = Vec::new();
    if cell.shard.journal().is_some() {
        state_event(cell, accepted, state.as_ref(), moment.now, &mut entry);
    }
    let space_class = if state.is_some() {
        SpaceClass::Adds
    } else {
        SpaceClass::Frees
    };
    // The index stays locked, so a snapshot that covers the event finds the state.
    let mut index = sessions.index();
    index.state(accepted, moment.ticks)?;
    let pending =
        append(&cell.shard, space_class, &entry, wait).map_err(|error| cell.shard.fail_call(&error, CallKind::Send))?;
    index.set_state(accepted, state, moment.ticks)?;
    Ok(pending)
}

/// Replaces the record of a consumer and writes its event.
pub(super) fn store_consumer(
    cell: &Cell,
    sub_queue: SubQueue,
    name: &Arc<str>,
    record: &mut ConsumerRecord,
    entry: &mut Vec<u8>,
) {
    let record: Arc<ConsumerRecord> = Arc::new(std::mem::take(record));
    // Stored first, so that a snapshot that covers the event finds the record.
    cell.store_consumer((sub_queue, Arc::clone(name)), Arc::clone(&record));
    let event = JournalEvent::Consumer {
        sub_queue,
        name,
        record,
    };
    event.encode(cell.entity, entry);
}

/// Adds or forgets origins and writes the event.
pub(super) fn note_origins(cell: &Cell, forget: bool, origins: &[Origin], entry: &mut Vec<u8>) {
    if origins.is_empty() {
        return;
    }
    cell.note_origins(forget, origins);
    let origins = origins.to_vec();
    JournalEvent::Arrived { forget, origins }.encode(cell.entity, entry);
}
