// SPDX-License-Identifier: Apache-2.0
//! Correlation filters: equal values of some fields and application properties (B-356, B-357).

use std::hash::{Hash, Hasher};

use oxbus_model::message::Value;
use oxbus_model::rules::{CorrelationSettings, OwnedValue};
use oxbus_model::{Error, ErrorKind, Result};

use super::property_name;
use super::view::MessageView;

/// Number of fields that a correlation filter can compare.
pub(super) const FIELDS: usize = 8;

/// Conditions that must all hold. Fields are in the order of [`fields_of`].
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CorrelationFilter {
    pub(super) fields: [Option<Box<str>>; FIELDS],
    pub(super) properties: Box<[(String, OwnedValue)]>,
}

impl CorrelationFilter {
    /// Compiles a filter. Fails if it compares nothing, or a property twice.
    pub(super) fn compile(settings: &CorrelationSettings) -> Result<Self> {
        let field = |text: &Option<String>| text.as_deref().map(Box::from);
        let fields = [
            field(&settings.correlation_id),
            field(&settings.message_id),
            field(&settings.to),
            field(&settings.reply_to),
            field(&settings.subject),
            field(&settings.session_id),
            field(&settings.reply_to_session_id),
            field(&settings.content_type),
        ];
        if fields.iter().all(Option::is_none) && settings.properties.is_empty() {
            let detail = "a correlation filter needs at least one condition; set a field or an application property";
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        for (index, (name, _)) in settings.properties.iter().enumerate() {
            let mut others = settings.properties[..index].iter();
            if others.any(|(other, _)| property_name::same(other, name)) {
                let detail = format!(
                    "a correlation filter names a property twice (names are case-insensitive); remove one: property=`{name}`"
                );
                return Err(Error::new(ErrorKind::InvalidArgument, detail));
            }
        }
        Ok(Self {
            fields,
            properties: settings.properties.clone().into(),
        })
    }

    /// Checks each condition in turn. The index of a topic gives the same result.
    pub(super) fn selects(&self, view: &MessageView<'_>) -> bool {
        let fields = fields_of(view);
        let fields_hold = self.fields.iter().zip(fields).all(|(expected, found)| match expected {
            Some(expected) => found == Some(expected),
            None => true,
        });
        let holds = |name: &str, value: &OwnedValue| {
            let expected = ComparableValue::of(value.as_value());
            expected.is_some() && view.user(name).and_then(ComparableValue::of) == expected
        };
        fields_hold && self.properties.iter().all(|(name, value)| holds(name, value))
    }
}

/// The fields of a message that a correlation filter can compare.
pub(super) fn fields_of<'v>(view: &'v MessageView<'_>) -> [Option<&'v str>; FIELDS] {
    let fields = view.fields();
    [
        fields.correlation_id,
        view.message_id(),
        fields.to,
        fields.reply_to,
        fields.subject,
        fields.session_id,
        fields.reply_to_session_id,
        fields.content_type,
    ]
}

/// A value whose equality follows B-357: types must match, except that an integer equals the double of exactly the same
/// number. Null equals a null value in the message, and not a missing property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ComparableValue<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// Bits of a double that no integer equals.
    Double(u64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Uuid([u8; 16]),
    Time(i64),
    Timespan(i64),
}

impl<'a> ComparableValue<'a> {
    /// Returns `None` for NaN, which equals nothing.
    #[inline]
    pub(super) fn of(value: Value<'a>) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Bool(it) => Self::Bool(it),
            Value::Int(it) => Self::Int(it),
            Value::Double(it) if it.is_nan() => return None,
            Value::Double(it) => of_double(it),
            Value::Text(it) => Self::Text(it),
            Value::Bytes(it) => Self::Bytes(it),
            Value::Uuid(it) => Self::Uuid(it),
            Value::Time(it) => Self::Time(it),
            Value::Timespan(it) => Self::Timespan(it),
        })
    }
}

fn of_double(value: f64) -> ComparableValue<'static> {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if value.fract() == 0.0 && (-TWO_TO_63..TWO_TO_63).contains(&value) {
        ComparableValue::Int(value as i64)
    } else {
        ComparableValue::Double(value.to_bits())
    }
}

/// The hash of compared values, fields first. It needs no secret key: colliding values would also have to be in the
/// rules.
#[derive(Debug, Default)]
pub(super) struct ValuesHash(std::hash::DefaultHasher);

impl ValuesHash {
    pub(super) fn field(&mut self, text: &str) {
        text.hash(&mut self.0);
    }

    pub(super) fn property(&mut self, value: ComparableValue<'_>) {
        value.hash(&mut self.0);
    }

    pub(super) fn finish(&self) -> u64 {
        self.0.finish()
    }
}
