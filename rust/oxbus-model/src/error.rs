// SPDX-License-Identifier: Apache-2.0
//! The error of all crates: a kind for programs and a text for people, which ends with a remedy.
//!
//! Each front end (Python, AMQP, HTTP) maps every kind of [`ErrorKind::ALL`]; a test checks this.

use std::fmt;
use std::sync::Arc;

use crate::SequenceNumber;

/// The cause of an error, from outside oxbus: the system, a decoder, the network.
pub type SharedError = Arc<dyn std::error::Error + Send + Sync>;

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an error, by what the caller can do.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The lock expired, was released, or belongs to another entity. Receive the message again.
    MessageLockLost,
    /// The lock on the session expired or was released. Accept the session again.
    SessionLockLost,
    /// Another receiver holds the session. Wait for it, or accept another one.
    SessionCannotBeLocked,
    /// No message has this number in the state that the call needs. Peek to see the messages.
    MessageNotFound,
    /// This message object is already settled. Receive the next message.
    MessageAlreadySettled,
    /// No entity has this name. Create it first.
    EntityNotFound,
    /// An entity with this name exists. Use another name, or update the entity.
    EntityAlreadyExists,
    /// The entity's status forbids the call. Set it to active first.
    EntityDisabled,
    /// The message or batch is larger than the limit. Send less at once.
    MessageSizeExceeded,
    /// The entity or the namespace is full. Receive and complete, then send again.
    QuotaExceeded,
    /// The broker is overloaded. Wait, then repeat the call.
    ServerBusy,
    /// The partition's store is out of service. Wait until it is healed, or send without a key.
    PartitionUnavailable,
    /// The call timed out. The effect of a send is unknown.
    Timeout,
    /// The transaction is already committed or rolled back. Begin another one.
    TransactionOver,
    /// The transaction took too long and was rolled back. Repeat it in less time.
    TransactionTimeout,
    /// The call can never work on this entity or message. Change the call.
    InvalidOperation,
    /// A filter or an action does not parse. Change it at the position that the text names.
    InvalidRule,
    /// This version does not support the call.
    NotSupported,
    /// A value is out of range or malformed. Change it.
    InvalidArgument,
    /// Session id and partition key are both set and differ. Set one of them, or both to the same text.
    KeyMismatch,
    /// The handle is closed. Open a new one.
    Closed,
    /// Another process owns the store.
    NamespaceInUse,
    /// Stored bytes fail their checks. Stop, and restore from a copy.
    Corrupt,
    /// The store's files cannot be read or written. Check the disk and the permissions.
    Storage,
    /// Another program has acquired the consumer, or none has. Acquire it again if this program should go on.
    ReservationFenced,
    /// The reservation number is already completed. Go on after the consumer's last number, or use another consumer.
    CheckpointBehind,
    /// The handle was opened before a fork. Open the namespace in the child.
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

    /// True if the same call may succeed later.
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
    /// Nothing.
    None,
    /// A part, which the error names.
    Partial,
    /// All of it, a part or nothing: it is unknown which.
    Unknown,
}

impl Effect {
    /// Every effect.
    pub const ALL: [Self; 3] = [Self::None, Self::Partial, Self::Unknown];

    /// Its name in Python and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Partial => "partial",
            Self::Unknown => "unknown",
        }
    }

    /// The effect with this name.
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

/// Fields that few errors have, boxed so that results on hot paths stay small.
#[derive(Debug, Clone, Default)]
struct ErrorExtras {
    numbers: Box<[SequenceNumber]>,
    source: Option<SharedError>,
}

impl Error {
    /// An error of `kind`. `detail` is in lower case and specific, with the values last.
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            effect: None,
            extras: None,
        }
    }

    /// Sets what the call did.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = Some(effect);
        self
    }

    /// Sets the effect to partial if the call had already done a part. An unknown effect stays unknown.
    #[must_use]
    pub fn after_partial(self, is_part_done: bool) -> Self {
        if is_part_done && self.effect != Some(Effect::Unknown) {
            self.with_effect(Effect::Partial)
        } else {
            self
        }
    }

    /// Names the messages for which the call failed or may have failed.
    #[must_use]
    pub fn with_numbers(mut self, numbers: impl IntoIterator<Item = SequenceNumber>) -> Self {
        self.extras.get_or_insert_default().numbers = numbers.into_iter().collect();
        self
    }

    /// Sets the cause. The text does not change.
    #[must_use]
    pub fn with_source(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.with_shared_source(Some(Arc::new(source)))
    }

    /// Sets a cause that other errors share. `None` changes nothing.
    #[must_use]
    pub fn with_shared_source(mut self, source: Option<SharedError>) -> Self {
        if source.is_some() {
            self.extras.get_or_insert_default().source = source;
        }
        self
    }

    /// No entity has this path. The text is the service's, because clients match it. `advice` is a sentence.
    pub fn entity_not_found(path: &str, advice: &str) -> Self {
        let detail = format!("The messaging entity '{path}' could not be found. {advice}");
        Self::new(ErrorKind::EntityNotFound, detail)
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The text.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The effect of the call, or `None` if it failed before its work began.
    pub fn effect(&self) -> Option<Effect> {
        self.effect
    }

    /// The messages for which the call failed or may have failed.
    pub fn numbers(&self) -> &[SequenceNumber] {
        self.extras.as_ref().map_or(&[], |extras| &extras.numbers)
    }

    /// The cause, to share with another error.
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
    fn an_error_keeps_its_cause() {
        let error = Error::new(ErrorKind::Storage, "the file cannot be read");
        assert!(error.source().is_none() && error.shared_source().is_none());
        let made = error
            .with_source(io::Error::from_raw_os_error(5))
            .with_numbers([SequenceNumber(1)]);
        let source = made.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(5));
        assert_eq!(made.detail(), "the file cannot be read", "the text stays");
        assert_eq!(made.numbers(), [SequenceNumber(1)]);
        let of_another = Error::new(ErrorKind::Storage, "the call failed").with_shared_source(made.shared_source());
        assert_eq!(
            of_another.source().expect("the source is kept").to_string(),
            io::Error::from_raw_os_error(5).to_string()
        );
    }

    #[test]
    fn a_result_is_small() {
        assert!(size_of::<Error>() <= 40, "{}", size_of::<Error>());
    }
}
