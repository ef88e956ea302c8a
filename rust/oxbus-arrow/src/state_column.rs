// SPDX-License-Identifier: Apache-2.0
//! The column of states, which is almost always the same in all rows.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, StringArray};

/// The state of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowState {
    Active,
    Deferred,
    Scheduled,
}

impl RowState {
    fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Deferred => "deferred",
            Self::Scheduled => "scheduled",
        }
    }
}

/// A column of states. Its text is written when two rows differ, or at the end.
#[derive(Default)]
pub(crate) struct StateColumn {
    /// The state of all rows so far, if they have the same one.
    state: Option<RowState>,
    rows: usize,
    /// The rows, once two of them differ.
    mixed: Option<StringBuilder>,
}

impl StateColumn {
    /// Adds the state of each row of a chunk.
    pub(crate) fn extend(&mut self, states: impl Iterator<Item = RowState>) {
        for state in states {
            let common = *self.state.get_or_insert(state);
            if state != common || self.mixed.is_some() {
                let rows = self.rows;
                self.mixed
                    .get_or_insert_with(|| repeated(common, rows))
                    .append_value(state.name());
            }
            self.rows += 1;
        }
    }

    pub(crate) fn finish(self) -> ArrayRef {
        let common = self.state.map_or("", RowState::name);
        Arc::new(match self.mixed {
            Some(mut mixed) => mixed.finish(),
            None => StringArray::new_repeated(common, self.rows),
        })
    }
}

fn repeated(state: RowState, rows: usize) -> StringBuilder {
    let mut builder = StringBuilder::with_capacity(rows + 1, (rows + 1) * state.name().len());
    (0..rows).for_each(|_| builder.append_value(state.name()));
    builder
}
