// SPDX-License-Identifier: Apache-2.0
//! Errors, by what the caller can do next.
//!
//! Kinds are few and public; the text is for people. An edge (Python, AMQP, HTTP) maps every kind of
//! [`ErrorKind::ALL`] and proves it by a test.

use std::fmt;
use std::sync::Arc;

use crate::SequenceNumber;

/// The original cause of an error: an error of the system, a decoder or a network.
pub type SharedError = Arc<dyn std::error::Error + Send + Sync>;

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an error, by what the caller can do about it.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The lock expired, was released, or belongs to another entity. Receive the message again.
    MessageLockLost,
    /// The lock on the session expired or was released. Accept the session again.
    SessionLockLost,
    /// Another receiver holds the session. Wait for it, or accept another one.
    SessionCannotBeLocked,
    /// No message answers to that number. Peek to see which do.
    MessageNotFound,
    /// This message object was settled before. Receive the next one.
    MessageAlreadySettled,
    /// No entity has that name. Create it first.
    EntityNotFound,
    /// An entity has that name. Choose another, or update that one.
    EntityAlreadyExists,
    /// The entity's status forbids the call. Set its status to active first.
    EntityDisabled,
    /// The message or batch is larger than the limit. Send less at once.
    MessageSizeExceeded,
    /// The entity or the namespace is full. Receive and complete, then send again.
    QuotaExceeded,
    /// The broker asks for a pause. Wait, then make the same call again.
    ServerBusy,
    /// The partition's store is out of service. Wait until it is healed, or send without a key.
    PartitionUnavailable,
    /// The time for the call is over. Its effect is unknown if it was a send.
    Timeout,
    /// The transaction was committed or rolled back. Begin another one.
    TransactionOver,
    /// The transaction took too long and was rolled back. Repeat the transaction in less time.
    TransactionTimeout,
    /// The call cannot work on this entity or this message, now or later. Change the call.
    InvalidOperation,
    /// The text of a filter or an action is none. Change it at the position that the text names.
    InvalidRule,
    /// This version does not have that yet.
    NotSupported,
    /// A value is out of its range or of the wrong form. Change the value.
    InvalidArgument,
    /// Session id and partition key are both set and differ. Set one of them, or both to the same text.
    KeyMismatch,
    /// The handle was closed. Open a new one.
    Closed,
    /// Another process owns the store.
    NamespaceInUse,
    /// Stored bytes fail their checks. Stop and restore from a copy.
    Corrupt,
    /// The system refused to read or write the store's files. See to the disk and its permissions.
    Storage,
    /// Another program has since acquired the consumer, or no program has. Acquire it again unless the other program is
    /// to continue.
    ReservationFenced,
    /// That number was completed before. Go on from what the consumer has done, or use another consumer.
    CheckpointBehind,
    /// The handle was made before a fork. Open the namespace in the child.
    Forked,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 27] = [
        Self::MessageLockLost,
        Self::SessionLockLost,
        Self::SessionCannotBeLocked,
        Self::MessageNotFound,
        Self::MessageAlreadySettled,
        Self::EntityNotFound,
        Self::EntityAlreadyExists,
        Self::EntityDisabled,
        Self::MessageSizeExceeded,
        Self::QuotaExceeded,
        Self::ServerBusy,
        Self::PartitionUnavailable,
        Self::Timeout,
        Self::TransactionOver,
        Self::TransactionTimeout,
        Self::InvalidOperation,
        Self::InvalidRule,
        Self::NotSupported,
        Self::InvalidArgument,
        Self::KeyMismatch,
        Self::Closed,
        Self::NamespaceInUse,
        Self::Corrupt,
        Self::Storage,
        Self::ReservationFenced,
        Self::CheckpointBehind,
        Self::Forked,
    ];

    /// True when the same call may work later without a change.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::QuotaExceeded
                | Self::ServerBusy
                | Self::PartitionUnavailable
                | Self::Timeout
                | Self::SessionCannotBeLocked
        )
    }
}

/// The effect of a call that failed after its work had begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing: everything is as it was.
    None,
    /// A part, which the error names.
    Partial,
    /// Unknown: all, a part or nothing.
    Unknown,
}

impl Effect {
    /// Every effect.
    pub const ALL: [Self; 3] = [Self::None, Self::Partial, Self::Unknown];

    /// Its name at every edge.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Partial => "partial",
            Self::Unknown => "unknown",
        }
    }

    /// The effect of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effect| effect.name() == name)
    }
}

/// An error: its kind, and a text with the cause and the remedy.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    detail: String,
    effect: Option<Effect>,
    extras: Option<Box<ErrorExtras>>,
}

/// Fields that few errors have. They are boxed, so that a result on a hot path stays small.
#[derive(Debug, Clone, Default)]
struct ErrorExtras {
    numbers: Box<[SequenceNumber]>,
    source: Option<SharedError>,
}

impl Error {
    /// An error of `kind`; `detail` is lower case, specific, values last.
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            effect: None,
            extras: None,
        }
    }

    /// The same of a call whose work had begun.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = Some(effect);
        self
    }

    /// Sets the effect to partial if an earlier part of the call was done; an unknown effect stays unknown.
    #[must_use]
    pub fn after_partial(self, is_part_done: bool) -> Self {
        if is_part_done && self.effect != Some(Effect::Unknown) {
            self.with_effect(Effect::Partial)
        } else {
            self
        }
    }

    /// The same, naming the messages for which the call did not do, or may not have done, what it was to do.
    #[must_use]
    pub fn with_numbers(mut self, numbers: impl IntoIterator<Item = SequenceNumber>) -> Self {
        self.extras.get_or_insert_default().numbers = numbers.into_iter().collect();
        self
    }

    /// The same, made by another error, which it keeps. Its text stands for itself.
    #[must_use]
    pub fn with_source(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.with_shared_source(Some(Arc::new(source)))
    }

    /// The same, made by an error that others keep too, if there is one.
    #[must_use]
    pub fn with_shared_source(mut self, source: Option<SharedError>) -> Self {
        if source.is_some() {
            self.extras.get_or_insert_default().source = source;
        }
        self
    }

    /// No entity has this path. The text is that of the service, by which clients in use recognise the error.
    /// `advice` is a sentence.
    pub fn entity_not_found(path: &str, advice: &str) -> Self {
        let detail = format!("The messaging entity '{path}' could not be found. {advice}");
        Self::new(ErrorKind::EntityNotFound, detail)
    }

    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Its text.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The effect of the call; `None` when it failed before its work began.
    pub fn effect(&self) -> Option<Effect> {
        self.effect
    }

    /// The messages for which the call did not do, or may not have done, what it was to do.
    pub fn numbers(&self) -> &[SequenceNumber] {
        self.extras.as_ref().map_or(&[], |extras| &extras.numbers)
    }

    /// The source of the error, to share with another error.
    pub fn shared_source(&self) -> Option<SharedError> {
        self.extras.as_ref()?.source.clone()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source: &(dyn std::error::Error + 'static) = &**self.extras.as_ref()?.source.as_ref()?;
        Some(source)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use super::*;

    #[test]
    fn an_error_keeps_what_made_it() {
        let error = Error::new(ErrorKind::Storage, "the file cannot be read");
        assert!(error.source().is_none() && error.shared_source().is_none());
        let made = error
            .with_source(io::Error::from_raw_os_error(5))
            .with_numbers([SequenceNumber(1)]);
        let source = made.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(5));
        assert_eq!(made.detail(), "the file cannot be read", "its text stays");
        assert_eq!(made.numbers(), [SequenceNumber(1)]);
        let of_another = Error::new(ErrorKind::Storage, "the call failed").with_shared_source(made.shared_source());
        assert_eq!(
            of_another.source().expect("kept").to_string(),
            io::Error::from_raw_os_error(5).to_string()
        );
    }

    #[test]
    fn a_result_is_small() {
        assert!(size_of::<Error>() <= 40, "{}", size_of::<Error>());
    }
}
