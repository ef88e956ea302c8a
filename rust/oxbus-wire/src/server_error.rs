// SPDX-License-Identifier: Apache-2.0
//! Errors of bulk requests as JSON: `{"error": {"kind": …, "detail": …, "effect": …, "sequence_numbers": […]}}`.

use std::collections::BTreeMap;

use oxbus_model::{Effect, Error, ErrorKind, SequenceNumber};
use serde::{Deserialize, Serialize};

/// The kind of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerErrorKind {
    /// An error of the broker.
    Broker(ErrorKind),
    /// A send stored only some rows.
    PartialSend,
    /// The token is missing or invalid.
    Unauthenticated,
    /// The token lacks the right.
    Unauthorized,
}

/// An error of a request.
#[derive(Debug, Clone)]
pub struct ServerError {
    /// The kind.
    pub kind: ServerErrorKind,
    /// The cause and the remedy.
    pub detail: String,
    /// For a partial send, the indexes of the rows that were not stored.
    pub rows: Vec<usize>,
    /// For a partial send, the number of stored rows by partition id.
    pub stored: BTreeMap<u16, usize>,
    /// The effect of the call, and `None` if it failed before its work began.
    pub effect: Option<Effect>,
    /// The messages for which the call failed or may have failed.
    pub numbers: Vec<SequenceNumber>,
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    error: ErrorBody,
}

#[derive(Serialize, Deserialize)]
struct ErrorBody {
    kind: String,
    detail: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rows: Vec<usize>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    stored: BTreeMap<u16, usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effect: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sequence_numbers: Vec<u64>,
}

impl ServerError {
    /// An error with a kind and a text.
    pub fn new(kind: ServerErrorKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            rows: Vec::new(),
            stored: BTreeMap::new(),
            effect: None,
            numbers: Vec::new(),
        }
    }

    /// Encodes the error.
    pub fn to_json(&self) -> String {
        let body = ErrorBody {
            kind: self.kind.name(),
            detail: self.detail.clone(),
            rows: self.rows.clone(),
            stored: self.stored.clone(),
            effect: self.effect.map(|effect| effect.name().to_owned()),
            sequence_numbers: self.numbers.iter().map(|number| number.0).collect(),
        };
        serde_json::to_string(&Envelope { error: body }).expect("text and numbers are JSON")
    }

    /// Decodes an error. Returns `None` if the text is not one.
    pub fn from_json(text: &[u8]) -> Option<Self> {
        let Envelope { error } = serde_json::from_slice(text).ok()?;
        Some(Self {
            kind: ServerErrorKind::from_name(&error.kind)?,
            detail: error.detail,
            rows: error.rows,
            stored: error.stored,
            effect: error.effect.as_deref().and_then(Effect::from_name),
            numbers: error.sequence_numbers.into_iter().map(SequenceNumber).collect(),
        })
    }
}

impl From<Error> for ServerError {
    fn from(error: Error) -> Self {
        Self {
            effect: error.effect(),
            numbers: error.numbers().to_vec(),
            ..Self::new(ServerErrorKind::Broker(error.kind()), error.detail())
        }
    }
}

impl ServerErrorKind {
    /// The name on the wire.
    pub fn name(&self) -> String {
        match self {
            Self::Broker(kind) => format!("{kind:?}"),
            Self::PartialSend => "PartialSend".to_owned(),
            Self::Unauthenticated => "Unauthenticated".to_owned(),
            Self::Unauthorized => "Unauthorized".to_owned(),
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "PartialSend" => Some(Self::PartialSend),
            "Unauthenticated" => Some(Self::Unauthenticated),
            "Unauthorized" => Some(Self::Unauthorized),
            _ => ErrorKind::ALL
                .into_iter()
                .find(|kind| format!("{kind:?}") == name)
                .map(Self::Broker),
        }
    }
}

#[cfg(test)]
mod tests {
    use oxbus_model::{Effect, Error, ErrorKind, SequenceNumber};

    use super::{ServerError, ServerErrorKind};

    #[test]
    fn every_kind_survives_a_round_trip() {
        for kind in ErrorKind::ALL {
            let error = ServerError::from(Error::new(kind, "what \"to\" do"));
            let back = ServerError::from_json(error.to_json().as_bytes()).expect("an error");
            assert_eq!(back.kind, ServerErrorKind::Broker(kind));
            assert_eq!(back.detail, "what \"to\" do");
        }
        for kind in [
            ServerErrorKind::PartialSend,
            ServerErrorKind::Unauthenticated,
            ServerErrorKind::Unauthorized,
        ] {
            let error = ServerError::new(kind.clone(), "");
            assert_eq!(
                ServerError::from_json(error.to_json().as_bytes())
                    .expect("an error")
                    .kind,
                kind
            );
        }
    }

    #[test]
    fn effects_and_sequence_numbers_survive_a_round_trip() {
        for effect in Effect::ALL {
            let error = Error::new(ErrorKind::Timeout, "late").with_effect(effect);
            let error = error.with_numbers([SequenceNumber(7), SequenceNumber(u64::MAX)]);
            let back = ServerError::from_json(ServerError::from(error).to_json().as_bytes()).expect("an error");
            assert_eq!(back.effect, Some(effect));
            assert_eq!(back.numbers, [SequenceNumber(7), SequenceNumber(u64::MAX)]);
        }
        let early = ServerError::from(Error::new(ErrorKind::Closed, "early"));
        assert!(!early.to_json().contains("effect"), "{}", early.to_json());
        assert_eq!(
            ServerError::from_json(early.to_json().as_bytes())
                .expect("an error")
                .effect,
            None
        );
    }

    #[test]
    fn rows_of_a_partial_send_survive_a_round_trip() {
        let mut error = ServerError::new(ServerErrorKind::PartialSend, "2 rows");
        error.rows = vec![3, 5];
        error.stored.insert(7, 11);
        let back = ServerError::from_json(error.to_json().as_bytes()).expect("an error");
        assert_eq!(back.kind, ServerErrorKind::PartialSend);
        assert_eq!(back.rows, [3, 5]);
        assert_eq!(back.stored[&7], 11);
    }

    #[test]
    fn text_that_is_not_an_error_is_none() {
        for text in [
            "",
            "{}",
            "<html>",
            "{\"error\": {\"kind\": \"Unheard\", \"detail\": \"\"}}",
        ] {
            assert!(ServerError::from_json(text.as_bytes()).is_none(), "{text}");
        }
    }
}
