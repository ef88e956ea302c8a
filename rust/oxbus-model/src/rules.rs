// SPDX-License-Identifier: Apache-2.0
//! Rules of a subscription: a filter that selects messages, and an action that changes the copy (B-343 … B-381).
//!
//! These are the source forms that the catalog stores. `oxbus-broker` compiles them; creating a rule that does not
//! compile fails (B-359).

use serde::{Deserialize, Serialize};

use crate::message::Value;

/// An owned value: a parameter of an expression, or a property that a correlation filter compares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum OwnedValue {
    /// Without a value.
    Null,
    /// True or false.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A double. The catalog stores its bits, because JSON has neither infinity nor NaN.
    Double(#[serde(with = "double_bits")] f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A UUID, big-endian.
    Uuid([u8; 16]),
    /// Milliseconds since 1970 in UTC.
    Time(i64),
    /// The same, written without a time zone: interpreted as UTC, shown without a zone.
    TimeWithoutZone(i64),
    /// A duration, in [units of 100 ns](crate::timespan).
    Timespan(i64),
}

impl OwnedValue {
    /// The same value, borrowed.
    pub fn as_value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(it) => Value::Bool(*it),
            Self::Int(it) => Value::Int(*it),
            Self::Double(it) => Value::Double(*it),
            Self::Text(it) => Value::Text(it),
            Self::Bytes(it) => Value::Bytes(it),
            Self::Uuid(it) => Value::Uuid(*it),
            Self::Time(it) | Self::TimeWithoutZone(it) => Value::Time(*it),
            Self::Timespan(it) => Value::Timespan(*it),
        }
    }
}

impl From<Value<'_>> for OwnedValue {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(it) => Self::Bool(it),
            Value::Int(it) => Self::Int(it),
            Value::Double(it) => Self::Double(it),
            Value::Text(it) => Self::Text(it.to_owned()),
            Value::Bytes(it) => Self::Bytes(it.to_vec()),
            Value::Uuid(it) => Self::Uuid(it),
            Value::Time(it) => Self::Time(it),
            Value::Timespan(it) => Self::Timespan(it),
        }
    }
}

impl<'a> From<&'a OwnedValue> for Value<'a> {
    fn from(value: &'a OwnedValue) -> Self {
        value.as_value()
    }
}

/// A correlation filter: all conditions must hold. A field that is `None` is not compared (B-356).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CorrelationSettings {
    /// Compared with the correlation id.
    pub correlation_id: Option<String>,
    /// Compared with the message id.
    pub message_id: Option<String>,
    /// Compared with the destination.
    pub to: Option<String>,
    /// Compared with the reply-to address.
    pub reply_to: Option<String>,
    /// Compared with the subject, also called label.
    pub subject: Option<String>,
    /// Compared with the session id.
    pub session_id: Option<String>,
    /// Compared with the reply-to session id.
    pub reply_to_session_id: Option<String>,
    /// Compared with the content type.
    pub content_type: Option<String>,
    /// Compared with the application properties of the same names.
    pub properties: Vec<(String, OwnedValue)>,
}

/// A filter, which selects messages (B-355).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum FilterSettings {
    /// Every message: the filter `1=1`.
    True,
    /// No message: the filter `1=0`.
    False,
    /// A predicate over properties.
    Sql {
        /// Its text.
        expression: String,
        /// Values of the `@names` in it (B-374), by name with or without the `@`.
        parameters: Vec<(String, OwnedValue)>,
    },
    /// Equal values of some properties.
    Correlation(CorrelationSettings),
}

/// An action, which changes the copy of a selected message (B-376).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionSettings {
    /// Its statements.
    pub expression: String,
    /// Values of the `@names` in it (B-374), by name with or without the `@`.
    pub parameters: Vec<(String, OwnedValue)>,
}

/// A rule of a subscription.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSettings {
    /// Its name, unique in the subscription (B-360).
    pub name: String,
    /// Selects messages.
    pub filter: FilterSettings,
    /// Changes its copy. All matching rules without an action share one copy (B-347).
    pub action: Option<ActionSettings>,
    /// When it was created, in milliseconds since 1970 in UTC.
    pub created_at_ms: u64,
}

/// A double as the integer of the same 64 bits.
mod double_bits {
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(value.to_bits())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        u64::deserialize(deserializer).map(f64::from_bits)
    }
}
