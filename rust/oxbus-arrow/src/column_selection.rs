// SPDX-License-Identifier: Apache-2.0
//! The columns of received messages, and selections of them.

use oxbus_model::{Error, ErrorKind, Result};

/// A column of received messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Body,
    MessageId,
    SessionId,
    PartitionKey,
    Subject,
    CorrelationId,
    ContentType,
    To,
    ReplyTo,
    ApplicationProperties,
    ScheduledEnqueueTime,
    TimeToLive,
    SequenceNumber,
    PartitionId,
    EnqueuedTime,
    LockedUntil,
    DeliveryCount,
    LockToken,
    State,
    DeadLetterReason,
    DeadLetterDescription,
}

/// All columns and their names, in the documented order.
pub(crate) const COLUMNS: [(Column, &str); 21] = [
    (Column::Body, "body"),
    (Column::MessageId, "message_id"),
    (Column::SessionId, "session_id"),
    (Column::PartitionKey, "partition_key"),
    (Column::Subject, "subject"),
    (Column::CorrelationId, "correlation_id"),
    (Column::ContentType, "content_type"),
    (Column::To, "to"),
    (Column::ReplyTo, "reply_to"),
    (Column::ApplicationProperties, "application_properties"),
    (Column::ScheduledEnqueueTime, "scheduled_enqueue_time_utc"),
    (Column::TimeToLive, "time_to_live"),
    (Column::SequenceNumber, "sequence_number"),
    (Column::PartitionId, "partition_id"),
    (Column::EnqueuedTime, "enqueued_time_utc"),
    (Column::LockedUntil, "locked_until_utc"),
    (Column::DeliveryCount, "delivery_count"),
    (Column::LockToken, "lock_token"),
    (Column::State, "state"),
    (Column::DeadLetterReason, "dead_letter_reason"),
    (Column::DeadLetterDescription, "dead_letter_error_description"),
];

/// A selection of columns. A table has them in the documented order, whatever the order of the selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnSelection {
    /// One bit for each column.
    columns: u32,
}

/// All columns.
impl Default for ColumnSelection {
    fn default() -> Self {
        Self {
            columns: COLUMNS.iter().fold(0, |all, (column, _)| all | column.bit()),
        }
    }
}

impl Column {
    fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl ColumnSelection {
    /// The columns with these names, by default all. Fails without a name, or if a name is unknown.
    pub fn of<'a>(names: Option<impl IntoIterator<Item = &'a str>>) -> Result<Self> {
        let Some(names) = names else {
            return Ok(Self::default());
        };
        let mut columns = 0;
        for name in names {
            let found = COLUMNS.iter().find(|(_, known)| *known == name);
            columns |= found.ok_or_else(|| unknown(name))?.0.bit();
        }
        if columns == 0 {
            return Err(none_selected());
        }
        Ok(Self { columns })
    }

    /// The names of the columns of browsed messages: all but those of a lock.
    pub fn browsed_names() -> Vec<&'static str> {
        let of_lock = [Column::LockedUntil, Column::LockToken];
        let browsed = COLUMNS.iter().filter(|(column, _)| !of_lock.contains(column));
        browsed.map(|(_, name)| *name).collect()
    }

    /// No columns: a table of which only the number of rows is wanted.
    pub fn none() -> Self {
        Self { columns: 0 }
    }

    /// The columns of a list of names that are separated by commas, as [`Self::names`] writes them.
    pub fn parse(names: Option<&str>) -> Result<Self> {
        Self::of(names.map(|names| names.split(',').filter(|name| !name.is_empty())))
    }

    /// The names, separated by commas; `None` for all columns.
    pub fn names(self) -> Option<String> {
        let selected = COLUMNS.iter().filter(|(column, _)| self.has(*column));
        let names: Vec<&str> = selected.map(|(_, name)| *name).collect();
        (self != Self::default()).then(|| names.join(","))
    }

    pub(crate) fn has(self, column: Column) -> bool {
        self.columns & column.bit() != 0
    }

    /// Calls `make` if the column is selected.
    pub(crate) fn when<B>(self, column: Column, make: impl FnOnce() -> B) -> Option<B> {
        self.has(column).then(make)
    }
}

fn known_names() -> String {
    COLUMNS.map(|(_, name)| name).join(", ")
}

fn unknown(name: &str) -> Error {
    let detail = format!("unknown column; received messages have {}: `{name}`", known_names());
    Error::new(ErrorKind::InvalidArgument, detail)
}

fn none_selected() -> Error {
    let detail = format!(
        "columns is empty; leave it out for all columns, or name some of {}",
        known_names()
    );
    Error::new(ErrorKind::InvalidArgument, detail)
}
