// SPDX-License-Identifier: Apache-2.0
//! How much of the objects the files need, and which objects hold so little that the rest is worth moving.

use std::collections::HashSet;

use super::place::ObjectKey;
use super::state::State;

/// Objects may take this many bytes beside twice the bytes that files need.
const SPARE_BYTES_MAX: u64 = 32 << 20;
/// Bytes that are moved at once.
const MOVED_BYTES_MAX: u64 = 8 << 20;

/// Bytes of the objects.
pub(super) struct Sizes {
    /// Of those that hold nothing.
    pub(super) unused: u64,
    all: u64,
    live: u64,
}

impl Sizes {
    pub(super) fn of(state: &State) -> Self {
        let mut sizes = Self {
            unused: 0,
            all: 0,
            live: 0,
        };
        for (_, usage) in state.map.objects() {
            sizes.all += u64::from(usage.bytes);
            sizes.live += usage.live;
            if usage.live == 0 {
                sizes.unused += u64::from(usage.bytes);
            }
        }
        sizes
    }

    /// The objects whose bytes are to be moved: those that hold the smallest share.
    pub(super) fn to_move(&self, state: &State) -> HashSet<ObjectKey> {
        if self.all - self.unused <= self.live * 2 + SPARE_BYTES_MAX {
            return HashSet::new();
        }
        let acknowledged = state.writer.acknowledged();
        let is_stored = |key: &ObjectKey| key.lane() != state.lane_index || key.number() < acknowledged;
        let mut found: Vec<(u64, u64, ObjectKey)> = state
            .map
            .objects()
            .filter(|(key, usage)| usage.live > 0 && is_stored(key))
            .map(|(key, usage)| {
                let share = usage.live * 1000 / u64::from(usage.bytes.max(1));
                (share, usage.live, key)
            })
            .collect();
        found.sort_unstable();
        let mut bytes = 0;
        let fits = |(share, live, _): &&(u64, u64, ObjectKey)| {
            bytes += live;
            *share < 500 && bytes <= MOVED_BYTES_MAX
        };
        found.iter().take_while(fits).map(|(_, _, key)| *key).collect()
    }
}
