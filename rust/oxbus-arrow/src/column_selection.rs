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
#[derive(Debug, Clone, Default)]
pub struct ColumnSelection {
    /// The selected columns, or `None` for all.
    columns: Option<Vec<Column>>,
}

impl ColumnSelection {
    /// The columns with these names, by default all. Fails if a name is unknown.
    pub fn of<'a>(names: Option<impl IntoIterator<Item = &'a str>>) -> Result<Self> {
        let column = |name: &str| {
            let found = COLUMNS.iter().find(|(_, known)| *known == name);
            found.map(|(column, _)| *column).ok_or_else(|| unknown(name))
        };
        let columns = names.map(|names| names.into_iter().map(column).collect::<Result<_>>());
        Ok(Self {
            columns: columns.transpose()?,
        })
    }

    pub(crate) fn has(&self, column: Column) -> bool {
        self.columns.as_ref().is_none_or(|columns| columns.contains(&column))
    }

    /// Calls `make` if the column is selected.
    pub(crate) fn when<B>(&self, column: Column, make: impl FnOnce() -> B) -> Option<B> {
        self.has(column).then(make)
    }
}

fn unknown(name: &str) -> Error {
    let known: Vec<&str> = COLUMNS.iter().map(|(_, name)| *name).collect();
    let detail = format!("unknown column; received messages have {}: `{name}`", known.join(", "));
    Error::new(ErrorKind::InvalidArgument, detail)
}
