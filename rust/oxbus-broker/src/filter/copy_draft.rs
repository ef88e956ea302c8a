// SPDX-License-Identifier: Apache-2.0
//! The copy of a message while an action changes it.

use oxbus_model::Timestamp;
use oxbus_model::message::{Fields, MessageId, Properties, PropertiesBuilder, StoredValue, Value, check_key_length};
use oxbus_model::rules::OwnedValue;
use oxbus_store::Record;

use super::operand::Operand;
use super::property_name;
use super::system_property::SystemProperty;
use super::view::MessageView;
use crate::record;

/// A copy of a message with the changes made so far.
#[derive(Debug)]
pub(super) struct CopyDraft<'a, 'm> {
    arrived: &'a MessageView<'m>,
    /// Fields set, or removed (`None`), in order. Later entries win.
    texts: Vec<(SystemProperty, Option<String>)>,
    /// The scheduled time.
    due: Option<Timestamp>,
    /// The current application properties.
    properties: Vec<(String, OwnedValue)>,
}

/// Returns the value as it arrived if no action changed it, so that it keeps a type that only AMQP has (B-429).
fn original_value<'a>(arrived: Option<Properties<'a>>, name: &str, value: Value<'a>) -> StoredValue<'a> {
    let mut entries = arrived.into_iter().flat_map(Properties::entries);
    let same =
        entries.find(|(known, raw)| *known == name && matches!(raw, StoredValue::Amqp(_)) && raw.plain() == value);
    same.map_or(StoredValue::Plain(value), |(_, raw)| raw)
}

impl<'a, 'm> CopyDraft<'a, 'm> {
    /// The copy before any change.
    pub(super) fn of(arrived: &'a MessageView<'m>) -> Self {
        Self {
            arrived,
            texts: Vec::new(),
            due: arrived.fields().scheduled_enqueue_time,
            properties: arrived
                .properties()
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.into()))
                .collect(),
        }
    }

    /// Calls `see` with a view of the current copy.
    pub(super) fn with_view<T>(&self, see: impl FnOnce(&MessageView<'_>) -> T) -> T {
        let fields = self.fields();
        let properties = self
            .properties
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_value()));
        see(&self.arrived.changed(&fields, properties.collect()))
    }

    /// Sets a system property to the text of a value. Null removes the property.
    pub(super) fn set_system(&mut self, property: SystemProperty, value: &OwnedValue) -> Result<(), String> {
        if property == SystemProperty::ScheduledEnqueueTimeUtc {
            // This has no effect in the subscription (B-380), but does in an entity to which the copy is forwarded
            // (B-242).
            match value {
                OwnedValue::Null => self.due = None,
                OwnedValue::Time(ms) => self.due = Some(Timestamp(u64::try_from(*ms).unwrap_or(0))),
                _ => {}
            }
            return Ok(());
        }
        let text = match value {
            OwnedValue::Null => None,
            value => match Operand::from(value.as_value()).text() {
                Some(text) => Some(text.into_owned()),
                None => return Err(format!("sys.{} takes a text, not bytes", property.name())),
            },
        };
        let is_key = matches!(
            property,
            SystemProperty::MessageId | SystemProperty::SessionId | SystemProperty::ReplyToSessionId
        );
        if is_key {
            check_key_length(property.name(), text.as_deref()).map_err(|error| error.to_string())?;
        }
        self.texts.push((property, text));
        Ok(())
    }

    /// Sets an application property. Keeps the type of an existing one if possible (B-377).
    pub(super) fn set_user(&mut self, name: &str, value: OwnedValue) {
        match self
            .properties
            .iter_mut()
            .find(|(known, _)| property_name::same(known, name))
        {
            Some((_, stored)) => *stored = converted(value, stored),
            None => self.properties.push((name.to_owned(), value)),
        }
    }

    /// Removes an application property.
    pub(super) fn remove_user(&mut self, name: &str) {
        self.properties.retain(|(known, _)| !property_name::same(known, name));
    }

    /// Returns the stored form of the copy, with one more application property, which replaces any of that name.
    pub(super) fn record(&self, (name, value): (&str, Value<'_>)) -> Record {
        let mut builder = PropertiesBuilder::default();
        let arrived = self.arrived.fields().application_properties;
        for (known, stored) in &self.properties {
            if known != name {
                builder.push_stored(known, original_value(arrived, known, stored.as_value()));
            }
        }
        builder.push(name, value);
        record::encode(&Fields {
            application_properties: Some(builder.properties()),
            ..self.fields()
        })
    }

    fn fields(&self) -> Fields<'_> {
        let mut fields: Fields<'_> = *self.arrived.fields();
        fields.scheduled_enqueue_time = self.due;
        for (property, text) in &self.texts {
            let text = text.as_deref();
            match property {
                SystemProperty::ContentType => fields.content_type = text,
                SystemProperty::CorrelationId => fields.correlation_id = text,
                SystemProperty::Label | SystemProperty::Subject => fields.subject = text,
                SystemProperty::MessageId => fields.message_id = text.map(MessageId::Given),
                SystemProperty::ReplyTo => fields.reply_to = text,
                SystemProperty::ReplyToSessionId => fields.reply_to_session_id = text,
                SystemProperty::SessionId => {
                    fields.session_id = text;
                    // If both are set, they must be equal (B-064), also in a forwarded copy.
                    if text.is_some() && fields.partition_key.is_some() {
                        fields.partition_key = text;
                    }
                }
                SystemProperty::To => fields.to = text,
                other => unreachable!("the parser lets no action write sys.{}", other.name()),
            }
        }
        fields
    }
}

/// Returns `value` converted to the type of `stored` if that loses nothing, else `value`.
fn converted(value: OwnedValue, stored: &OwnedValue) -> OwnedValue {
    /// The range of doubles that fit an integer.
    const INTEGERS: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    let in_its_type = match (stored, &value) {
        (OwnedValue::Int(_), OwnedValue::Double(it)) if it.fract() == 0.0 && INTEGERS.contains(it) => {
            Some(OwnedValue::Int(*it as i64))
        }
        (OwnedValue::Int(_), OwnedValue::Text(it)) => it.trim().parse().ok().map(OwnedValue::Int),
        (OwnedValue::Double(_), OwnedValue::Int(it)) => Some(OwnedValue::Double(*it as f64)),
        (OwnedValue::Double(_), OwnedValue::Text(it)) => it.trim().parse().ok().map(OwnedValue::Double),
        (OwnedValue::Bool(_), OwnedValue::Text(it)) if it.trim().eq_ignore_ascii_case("true") => {
            Some(OwnedValue::Bool(true))
        }
        (OwnedValue::Bool(_), OwnedValue::Text(it)) if it.trim().eq_ignore_ascii_case("false") => {
            Some(OwnedValue::Bool(false))
        }
        (OwnedValue::Text(_), it) => {
            let text = Operand::from(it.as_value()).text().map(std::borrow::Cow::into_owned);
            text.map(OwnedValue::Text)
        }
        (OwnedValue::Uuid(_), OwnedValue::Text(it)) => uuid(it).map(OwnedValue::Uuid),
        _ => None,
    };
    in_its_type.unwrap_or(value)
}

/// Parses a UUID of 32 hexadecimal digits, with or without hyphens.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|&character| character != '-').collect();
    let is_uuid = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_uuid.then(|| u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes))?
}
