// SPDX-License-Identifier: Apache-2.0
//! Descriptions of subscription rules (B-462).

use oxbus_model::Timestamp;
use oxbus_model::rules::{ActionSettings, CorrelationSettings, FilterSettings, OwnedValue, RuleSettings};

use super::xml::{Element, XmlWriter, trim};
use super::{INSTANCE, SCHEMA, SERVICE_BUS, duration, times};
use crate::http::error::HttpError;

/// The value of an element that every SQL text carries and that is ignored here.
const COMPATIBILITY_LEVEL: u32 = 20;

/// Reads a rule. The default name is `name`, from the path.
pub(super) fn read(element: &Element, name: &str, now: Timestamp) -> Result<RuleSettings, HttpError> {
    Ok(RuleSettings {
        name: element.text_of("Name").unwrap_or(name).to_owned(),
        filter: element.child("Filter").map_or(Ok(FilterSettings::True), filter)?,
        action: element.child("Action").map_or(Ok(None), action)?,
        created_at_ms: now.0,
    })
}

fn expression(element: &Element) -> Result<String, HttpError> {
    let text = element.child("SqlExpression").map(|it| it.text.clone());
    text.ok_or_else(|| HttpError::bad_request("a SQL filter or action needs SqlExpression; it is missing"))
}

fn filter(element: &Element) -> Result<FilterSettings, HttpError> {
    Ok(match element.kind() {
        Some("TrueFilter") => FilterSettings::True,
        Some("FalseFilter") => FilterSettings::False,
        Some("SqlFilter") => FilterSettings::Sql {
            expression: expression(element)?,
            parameters: values(element.child("Parameters"))?,
        },
        Some("CorrelationFilter") => {
            // White space around a value belongs to it.
            let text = |name: &str| {
                let text = element.child(name).map(|child| child.text.clone());
                text.filter(|text| !text.is_empty())
            };
            FilterSettings::Correlation(CorrelationSettings {
                correlation_id: text("CorrelationId"),
                message_id: text("MessageId"),
                to: text("To"),
                reply_to: text("ReplyTo"),
                subject: text("Label"),
                session_id: text("SessionId"),
                reply_to_session_id: text("ReplyToSessionId"),
                content_type: text("ContentType"),
                properties: values(element.child("Properties"))?,
            })
        }
        kind => {
            let shown = kind.unwrap_or_default();
            return Err(HttpError::bad_request(format!(
                "Filter must have the type SqlFilter, TrueFilter, FalseFilter or CorrelationFilter: `{shown}`"
            )));
        }
    })
}

fn action(element: &Element) -> Result<Option<ActionSettings>, HttpError> {
    match element.kind() {
        None | Some("EmptyRuleAction") => Ok(None),
        Some("SqlRuleAction") => Ok(Some(ActionSettings {
            expression: expression(element)?,
            parameters: values(element.child("Parameters"))?,
        })),
        Some(kind) => Err(HttpError::bad_request(format!(
            "Action must have the type SqlRuleAction or EmptyRuleAction: `{kind}`"
        ))),
    }
}

fn values(list: Option<&Element>) -> Result<Vec<(String, OwnedValue)>, HttpError> {
    let items = list.map_or(&[][..], |list| &list.children);
    items
        .iter()
        .map(|item| {
            let key = item.child("Key").map(|key| key.text.clone()).unwrap_or_default();
            let value = item
                .child("Value")
                .map_or(Ok(OwnedValue::Null), |value| value_of(&key, value))?;
            Ok((key, value))
        })
        .collect()
}

fn value_of(key: &str, element: &Element) -> Result<OwnedValue, HttpError> {
    let text = &element.text;
    let wrong = |expected: &str| HttpError::bad_request(format!("the value of {key} must be {expected}: `{text}`"));
    let trimmed = trim(text);
    Ok(match element.kind() {
        Some("int" | "long" | "short" | "byte" | "unsignedByte" | "unsignedShort" | "unsignedInt" | "unsignedLong") => {
            OwnedValue::Int(trimmed.parse().map_err(|_| wrong("a whole number of 64 bits"))?)
        }
        Some("double" | "float" | "decimal") => OwnedValue::Double(double(trimmed).ok_or_else(|| wrong("a number"))?),
        Some("boolean") => OwnedValue::Bool(match trimmed {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => return Err(wrong("true or false")),
        }),
        Some("dateTime") => times::parse(trimmed).ok_or_else(|| wrong("a time as ISO 8601"))?,
        Some("duration") => {
            let units = duration::parse_timespan(trimmed);
            OwnedValue::Timespan(units.ok_or_else(|| wrong("a duration as ISO 8601, in days and less"))?)
        }
        Some("string" | "anyURI" | "char") | None => OwnedValue::Text(text.clone()),
        Some("guid") => {
            let digits: String = trimmed.chars().filter(|it| *it != '-').collect();
            let bytes = oxbus_model::hex::from_hex(&digits.to_ascii_lowercase()).and_then(|it| it.try_into().ok());
            OwnedValue::Uuid(bytes.ok_or_else(|| wrong("a UUID"))?)
        }
        Some(kind) => {
            return Err(HttpError::bad_request(format!(
                "the value of {key} has an unsupported type; use string, int, long, double, boolean, \
                 dateTime or duration: `{kind}`"
            )));
        }
    })
}

/// Parses a number in XML notation.
fn double(text: &str) -> Option<f64> {
    match text {
        "INF" => Some(f64::INFINITY),
        "-INF" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        _ => text.parse().ok(),
    }
}

/// Writes the description of a rule.
pub(super) fn write(rule: &RuleSettings, out: &mut XmlWriter) {
    out.open(
        "RuleDescription",
        &format!("xmlns=\"{SERVICE_BUS}\" xmlns:i=\"{INSTANCE}\""),
    );
    match &rule.filter {
        FilterSettings::True => write_sql("Filter", "TrueFilter", "1=1", &[], out),
        FilterSettings::False => write_sql("Filter", "FalseFilter", "1=0", &[], out),
        FilterSettings::Sql { expression, parameters } => write_sql("Filter", "SqlFilter", expression, parameters, out),
        FilterSettings::Correlation(it) => {
            out.open("Filter", "i:type=\"CorrelationFilter\"");
            out.text_if_some("CorrelationId", it.correlation_id.as_ref());
            out.text_if_some("MessageId", it.message_id.as_ref());
            out.text_if_some("To", it.to.as_ref());
            out.text_if_some("ReplyTo", it.reply_to.as_ref());
            out.text_if_some("Label", it.subject.as_ref());
            out.text_if_some("SessionId", it.session_id.as_ref());
            out.text_if_some("ReplyToSessionId", it.reply_to_session_id.as_ref());
            out.text_if_some("ContentType", it.content_type.as_ref());
            write_values("Properties", &it.properties, out);
            out.close("Filter");
        }
    }
    if let Some(action) = &rule.action {
        write_sql("Action", "SqlRuleAction", &action.expression, &action.parameters, out);
    } else {
        // Always written, because clients read it without checking.
        out.open("Action", "i:type=\"EmptyRuleAction\"");
        out.close("Action");
    }
    out.text("CreatedAt", times::format_time(Timestamp(rule.created_at_ms)));
    out.text("Name", &rule.name);
    out.close("RuleDescription");
}

fn write_sql(name: &str, kind: &str, expression: &str, parameters: &[(String, OwnedValue)], out: &mut XmlWriter) {
    out.open(name, &format!("i:type=\"{kind}\""));
    out.text("SqlExpression", expression);
    out.text("CompatibilityLevel", COMPATIBILITY_LEVEL);
    write_values("Parameters", parameters, out);
    out.close(name);
}

fn write_values(name: &str, values: &[(String, OwnedValue)], out: &mut XmlWriter) {
    out.open(name, "");
    for (key, value) in values {
        let (kind, text) = match value {
            OwnedValue::Null => ("string", String::new()),
            OwnedValue::Bool(it) => ("boolean", it.to_string()),
            OwnedValue::Int(it) if i32::try_from(*it).is_ok() => ("int", it.to_string()),
            OwnedValue::Int(it) => ("long", it.to_string()),
            OwnedValue::Double(it) if *it == f64::INFINITY => ("double", "INF".to_owned()),
            OwnedValue::Double(it) if *it == f64::NEG_INFINITY => ("double", "-INF".to_owned()),
            OwnedValue::Double(it) => ("double", format!("{it:?}")),
            OwnedValue::Text(it) => ("string", it.clone()),
            OwnedValue::Bytes(it) => ("hexBinary", oxbus_model::hex::to_hex(it)),
            OwnedValue::Uuid(it) => ("guid", oxbus_model::hex::to_hex(it)),
            OwnedValue::Time(it) => ("dateTime", times::format_ms(*it)),
            OwnedValue::TimeWithoutZone(it) => ("dateTime", times::format_without_zone(*it)),
            OwnedValue::Timespan(it) => ("duration", duration::format_timespan(*it)),
        };
        out.open("KeyValueOfstringanyType", "");
        out.text("Key", key);
        out.text_with(
            "Value",
            &format!("i:type=\"d6p1:{kind}\" xmlns:d6p1=\"{SCHEMA}\""),
            text,
        );
        out.close("KeyValueOfstringanyType");
    }
    out.close(name);
}

#[cfg(test)]
mod tests {
    use oxbus_model::Timestamp;
    use oxbus_model::rules::{ActionSettings, CorrelationSettings, FilterSettings, OwnedValue, RuleSettings};
    use proptest::prelude::*;

    use super::{read, write};
    use crate::http::atom::xml::{Element, XmlWriter};

    fn text() -> impl Strategy<Value = String> {
        "[\\t\\n\\r[^\\x00-\\x1f\\u{fffe}\\u{ffff}]]{1,20}"
    }

    fn value() -> impl Strategy<Value = OwnedValue> {
        prop_oneof![
            any::<bool>().prop_map(OwnedValue::Bool),
            any::<i64>().prop_map(OwnedValue::Int),
            any::<f64>()
                .prop_filter("equal to itself", |it| !it.is_nan())
                .prop_map(OwnedValue::Double),
            text().prop_map(OwnedValue::Text),
            (-62_135_596_800_000i64..253_402_300_800_000).prop_map(OwnedValue::Time),
            (-62_135_596_800_000i64..253_402_300_800_000).prop_map(OwnedValue::TimeWithoutZone),
            any::<i64>().prop_map(OwnedValue::Timespan),
            any::<[u8; 16]>().prop_map(OwnedValue::Uuid),
        ]
    }

    fn values() -> impl Strategy<Value = Vec<(String, OwnedValue)>> {
        proptest::collection::vec((text(), value()), 0..4)
    }

    fn filter() -> impl Strategy<Value = FilterSettings> {
        let maybe = || proptest::option::of(text());
        prop_oneof![
            Just(FilterSettings::True),
            Just(FilterSettings::False),
            (text(), values()).prop_map(|(expression, parameters)| FilterSettings::Sql { expression, parameters }),
            (maybe(), maybe(), maybe(), maybe(), maybe(), maybe(), values()).prop_map(
                |(correlation_id, message_id, to, subject, session_id, content_type, properties)| {
                    FilterSettings::Correlation(CorrelationSettings {
                        correlation_id,
                        message_id,
                        to,
                        subject,
                        session_id,
                        content_type,
                        properties,
                        ..CorrelationSettings::default()
                    })
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn rule_round_trips_through_its_description(
            name in "[A-Za-z0-9$._-]{1,50}",
            filter in filter(),
            action in proptest::option::of((text(), values())),
        ) {
            // B-462.
            let action = action.map(|(expression, parameters)| ActionSettings { expression, parameters });
            let rule = RuleSettings { name, filter, action, created_at_ms: 1_404_264_747_000 };
            let mut out = XmlWriter::default();
            write(&rule, &mut out);
            let element = Element::parse(out.finish().as_bytes()).expect("XML");
            prop_assert_eq!(read(&element, "other", Timestamp(rule.created_at_ms)).expect("a rule"), rule);
        }
    }

    /// Filter values used to lose the white space around them, including characters that only Unicode treats as white
    /// space.
    #[test]
    fn white_space_around_a_value_is_kept() {
        let xml = "<R><Filter i:type='CorrelationFilter' xmlns:i='i'><Label>\u{85} x\n</Label><To/></Filter></R>";
        let rule = read(&Element::parse(xml.as_bytes()).expect("XML"), "r", Timestamp(0)).expect("a rule");
        let subject = Some("\u{85} x\n".to_owned());
        let expected = CorrelationSettings {
            subject,
            ..CorrelationSettings::default()
        };
        assert_eq!(rule.filter, FilterSettings::Correlation(expected));
    }

    #[test]
    fn invalid_rules_are_rejected() {
        for xml in [
            "<R><Filter/></R>",
            "<R><Filter i:type='Other' xmlns:i='i'/></R>",
            "<R><Filter i:type='SqlFilter' xmlns:i='i'/></R>",
            "<R><Action i:type='Other' xmlns:i='i'/></R>",
            "<R><Filter i:type='CorrelationFilter' xmlns:i='i'><Properties><K><Key>a</Key><Value i:type='d:int'>x</Value></K></Properties></Filter></R>",
            "<R><Filter i:type='CorrelationFilter' xmlns:i='i'><Properties><K><Key>a</Key><Value i:type='d:duration'>1s</Value></K></Properties></Filter></R>",
        ] {
            let element = Element::parse(xml.as_bytes()).expect("XML");
            assert!(read(&element, "r", Timestamp(0)).is_err(), "{xml}");
        }
        let empty = Element::parse(b"<R/>").expect("XML");
        let rule = read(&empty, "r", Timestamp(0)).expect("a rule");
        assert_eq!((rule.name.as_str(), rule.filter), ("r", FilterSettings::True));
    }
}
