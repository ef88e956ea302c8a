// SPDX-License-Identifier: Apache-2.0
//! Whether a partition of an entity takes messages now: its health, its room, the memory limit.

use oxbus_model::{Moment, Result};

use super::Queue;
use crate::shard::Cell;

/// Bytes a stored message takes beyond its record, for the memory limit.
const SLOT_BYTES: usize = 40;

impl Queue {
    /// The cell that takes messages of so many bytes; refuses when it cannot now.
    pub(crate) fn admit(&self, index: usize, bytes: usize, messages: usize) -> Result<&Cell> {
        let shard = self.shard(index);
        shard.health().check_send(shard.id())?;
        self.core().check_memory(bytes + messages * SLOT_BYTES)?;
        self.make_room(index, bytes)
    }

    /// The same for messages that are to come in whatever their entity says meanwhile: only a store that does not work refuses.
    pub(crate) fn enter_decided(&self, index: usize, bytes: usize) -> Result<()> {
        self.check_alive()?;
        let shard = self.shard(index);
        shard.health().check_send(shard.id())?;
        // There was room when it was decided.
        let _ = self.make_room(index, bytes);
        Ok(())
    }

    /// Refuses messages of so many bytes that could not come in now. Those in memory count towards its limit already.
    pub(crate) fn check_room(&self, index: usize, bytes: usize, messages: usize) -> Result<()> {
        self.check_sends()?;
        if self.core().is_durable() {
            return self.admit(index, bytes, messages).map(|_| ());
        }
        let shard = self.shard(index);
        shard.health().check_send(shard.id())?;
        self.make_room(index, bytes).map(|_| ())
    }

    /// The same for a message that is moved here by the entity that has it, and so is in memory already; whether the
    /// partition takes any is known.
    pub(super) fn make_room(&self, index: usize, bytes: usize) -> Result<&Cell> {
        let cell = self.cell_for_append(index);
        if cell.has_schedule() {
            // What became active before this message comes before it: by the exact time, which stamps this one.
            let clock = self.core().clock();
            let moment = clock.moment();
            let now = moment.now.max(clock.now());
            self.tick(Moment { now, ..moment });
        }
        if let Some(max) = self.size_bytes_max() {
            let bytes = bytes as u64;
            let copies = if self.is_topic() {
                self.subscribers().entities.len().max(1) as u64
            } else {
                1
            };
            if !cell.has_room(bytes, bytes * copies, max, || self.counted_bytes(index)) {
                return Err(self.is_full(index, max));
            }
        }
        Ok(cell)
    }
}
