// SPDX-License-Identifier: Apache-2.0
//! The error of calls: a kind for programs, a text for people, the condition of the server, and the effect.

use std::fmt;
use std::sync::Arc;

use oxbus_amqp::performative::AmqpError;
use oxbus_model::{Effect, Error, ErrorKind, SharedError};

use crate::condition::kind_of;
use crate::kind::ClientErrorKind;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, ClientError>;

/// An error of a call.
#[derive(Debug, Clone)]
pub struct ClientError {
    kind: ClientErrorKind,
    detail: String,
    condition: Option<Box<str>>,
    effect: Option<Effect>,
    source: Option<SharedError>,
}

impl ClientError {
    pub(crate) fn new(kind: ClientErrorKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            condition: None,
            effect: None,
            source: None,
        }
    }

    pub(crate) fn broker(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self::new(ClientErrorKind::Broker(kind), detail)
    }

    pub(crate) fn connection(detail: impl Into<String>) -> Self {
        Self::new(ClientErrorKind::Connection, detail)
    }

    /// The error of a link, a message or a request.
    pub(crate) fn of_server(error: &AmqpError) -> Self {
        let condition = error.condition.as_str();
        let detail = match error.description.as_deref() {
            Some(text) if !text.is_empty() => text.to_owned(),
            _ => format!("the server gives no reason beside the condition {condition}"),
        };
        Self::new(kind_of(condition), detail).with_condition(condition)
    }

    #[must_use]
    pub(crate) fn with_condition(mut self, condition: &str) -> Self {
        self.condition = Some(condition.into());
        self
    }

    #[must_use]
    pub(crate) fn with_kind(mut self, kind: ClientErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets what the call did.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = Some(effect);
        self
    }

    #[must_use]
    pub(crate) fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The kind.
    pub fn kind(&self) -> ClientErrorKind {
        self.kind
    }

    /// The kind, if an entity in this process would give it too.
    pub fn broker_kind(&self) -> Option<ErrorKind> {
        match self.kind {
            ClientErrorKind::Broker(kind) => Some(kind),
            _ => None,
        }
    }

    /// What happened, and what to do.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The same error with another text.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// The condition that the server gave.
    pub fn condition(&self) -> Option<&str> {
        self.condition.as_deref()
    }

    /// What the call did, or `None` if it failed before its work began.
    pub fn effect(&self) -> Option<Effect> {
        self.effect
    }

    /// True if the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self.kind {
            ClientErrorKind::Broker(kind) => kind.is_transient(),
            ClientErrorKind::Connection | ClientErrorKind::Communication => true,
            ClientErrorKind::Unauthenticated | ClientErrorKind::Unauthorized | ClientErrorKind::Service => false,
        }
    }

    /// True if the retry options apply: the call did nothing, and waiting may help.
    pub(crate) fn is_retried(&self) -> bool {
        let may_help = matches!(
            self.kind,
            ClientErrorKind::Connection
                | ClientErrorKind::Communication
                | ClientErrorKind::Broker(ErrorKind::ServerBusy | ErrorKind::PartitionUnavailable)
        );
        may_help && matches!(self.effect, None | Some(Effect::None))
    }

    /// True if the link or connection of the call is gone.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.kind, ClientErrorKind::Connection | ClientErrorKind::Communication)
    }
}

impl From<Error> for ClientError {
    fn from(error: Error) -> Self {
        Self {
            effect: error.effect(),
            source: error.shared_source(),
            ..Self::broker(error.kind(), error.detail())
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.detail)
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}
