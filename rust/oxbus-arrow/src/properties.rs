// SPDX-License-Identifier: Apache-2.0
//! The column of application properties: text under text, or JSON that keeps numbers and truth values.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{MapBuilder, StringBuilder};
use oxbus_model::Result;
use oxbus_model::message::{Properties, Value};
use serde::Deserialize;

use crate::unreadable;

/// The form of the column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PropertiesAs {
    /// A map of text to text.
    #[default]
    Map,
    /// The text of a JSON object; what JSON does not have is text in it.
    Json,
}

/// The column, as far as it is.
pub(crate) struct PropertiesColumn {
    form: Form,
    scratch: String,
}

enum Form {
    Map(Box<MapBuilder<StringBuilder, StringBuilder>>),
    Json(StringBuilder),
}

impl PropertiesColumn {
    pub(crate) fn new(form: PropertiesAs) -> Self {
        let form = match form {
            PropertiesAs::Map => Form::Map(Box::new(MapBuilder::new(
                None,
                StringBuilder::new(),
                StringBuilder::new(),
            ))),
            PropertiesAs::Json => Form::Json(StringBuilder::new()),
        };
        Self {
            form,
            scratch: String::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, properties: Option<Properties<'_>>) -> Result<()> {
        match &mut self.form {
            Form::Map(map) => {
                for (key, value) in properties.into_iter().flat_map(Properties::iter) {
                    map.keys().append_value(key);
                    if value == Value::Null {
                        map.values().append_null();
                    } else {
                        self.scratch.clear();
                        write_text(value, &mut self.scratch);
                        map.values().append_value(&self.scratch);
                    }
                }
                map.append(properties.is_some()).map_err(|error| unreadable(&error))
            }
            Form::Json(json) => {
                json.append_option(properties.map(|properties| as_json(&properties)));
                Ok(())
            }
        }
    }

    pub(crate) fn finish(self) -> ArrayRef {
        match self.form {
            Form::Map(mut map) => Arc::new(map.finish()),
            Form::Json(mut json) => Arc::new(json.finish()),
        }
    }
}

fn as_json(properties: &Properties<'_>) -> String {
    let object: serde_json::Map<String, serde_json::Value> = properties
        .iter()
        .map(|(key, value)| {
            let value = match value {
                Value::Null => serde_json::Value::Null,
                Value::Bool(it) => it.into(),
                Value::Int(it) => it.into(),
                // A number that JSON does not have is text.
                Value::Double(it) if it.is_finite() => it.into(),
                other => {
                    let mut text = String::new();
                    write_text(other, &mut text);
                    text.into()
                }
            };
            (key.to_owned(), value)
        })
        .collect();
    serde_json::Value::Object(object).to_string()
}

/// The text form of a property value in a map of text to text.
fn write_text(value: Value<'_>, out: &mut String) {
    let written = match value {
        Value::Null => Ok(()),
        Value::Bool(true) => out.write_str("true"),
        Value::Bool(false) => out.write_str("false"),
        Value::Text(it) => out.write_str(it),
        Value::Int(it) | Value::Time(it) => write!(out, "{it}"),
        Value::Double(it) => write!(out, "{it:?}"),
        Value::Bytes(it) => it.iter().try_for_each(|byte| write!(out, "{byte:02x}")),
        Value::Uuid(it) => {
            let id = u128::from_be_bytes(it);
            write!(
                out,
                "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                id >> 96,
                id >> 80 & 0xffff,
                id >> 64 & 0xffff,
                id >> 48 & 0xffff,
                id & ((1 << 48) - 1)
            )
        }
    };
    written.expect("writing to a string does not fail");
}
