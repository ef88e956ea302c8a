// SPDX-License-Identifier: Apache-2.0
//! The column of application properties: a map of text to text, or JSON text, which preserves numbers and booleans.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, MapBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef};
use oxbus_model::message::{Properties, PropertiesBuilder, Value};
use oxbus_model::{Error, ErrorKind, Result};
use serde::Deserialize;

use crate::column::{BytesColumn, ColumnContent, TextMapColumn, wrong_type};
use crate::sparse::NullColumns;
use crate::unreadable;

/// The format of the column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PropertiesFormat {
    /// A map of text to text.
    #[default]
    Map,
    /// The text of a JSON object. Values of types that JSON lacks become text.
    Json,
}

/// The column of input rows.
pub(crate) enum PropertiesColumn {
    /// A map of text to text.
    Map(Box<TextMapColumn>),
    /// The text of a JSON object.
    Json(BytesColumn),
}

impl PropertiesColumn {
    /// The column. Fails if it has another type.
    pub(crate) fn new(array: &ArrayRef) -> Result<Self> {
        let map = TextMapColumn::new(array).map(|map| Self::Map(Box::new(map)));
        let either = map.or_else(|| BytesColumn::new(array, ColumnContent::Text).map(Self::Json));
        either.ok_or_else(|| {
            let expected = "map<string, string>, or string with a JSON object";
            wrong_type("application_properties", expected, array.data_type())
        })
    }

    /// Writes the properties of a row. Returns false if it has none.
    pub(crate) fn write(&self, row: usize, out: &mut PropertiesBuilder) -> Result<bool> {
        out.clear();
        match self {
            Self::Map(map) => {
                let Some(entries) = map.entries(row) else {
                    return Ok(false);
                };
                for (key, value) in entries {
                    out.push(key, value.map_or(Value::Null, Value::Text));
                }
            }
            Self::Json(column) => {
                let Some(text) = column.text(row) else {
                    return Ok(false);
                };
                from_json(text, out)?;
            }
        }
        Ok(true)
    }
}

/// Writes the members of a JSON object as properties.
fn from_json(text: &str, out: &mut PropertiesBuilder) -> Result<()> {
    let wrong = |what: String| Error::new(ErrorKind::InvalidArgument, format!("application_properties {what}"));
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text)
        .map_err(|error| wrong(format!("must be the text of a JSON object: {error}")).with_source(error))?;
    for (key, value) in &members {
        let value = match value {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(it) => Value::Bool(*it),
            serde_json::Value::String(it) => Value::Text(it),
            serde_json::Value::Number(it) => match (it.as_i64(), it.as_f64()) {
                (Some(whole), _) => Value::Int(whole),
                (None, Some(real)) if it.is_f64() => Value::Double(real),
                _ => {
                    return Err(wrong(format!(
                        "contain a number of more than 64 bits; convert it to text: `{key}` {it}"
                    )));
                }
            },
            serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
                let detail = "allow null, booleans, numbers and texts; convert lists and objects to text";
                return Err(wrong(format!("{detail}: `{key}`")));
            }
        };
        out.push(key, value);
    }
    Ok(())
}

/// Builds the column of received messages.
#[derive(Default)]
pub(crate) struct PropertiesColumnBuilder {
    format: PropertiesFormat,
    /// The rows up to the last one with properties; `None` before the first.
    rows: Option<FormatBuilder>,
    scratch: String,
}

enum FormatBuilder {
    Map(Box<MapBuilder<StringBuilder, StringBuilder>>),
    Json(StringBuilder),
}

impl PropertiesColumnBuilder {
    /// Sets the format of a column without rows.
    pub(crate) fn set_format(&mut self, format: PropertiesFormat) {
        self.format = format;
    }

    /// Sets the properties of a row, after those of earlier rows.
    pub(crate) fn set(&mut self, row: usize, properties: Properties<'_>) -> Result<()> {
        let rows = self.rows.get_or_insert_with(|| FormatBuilder::new(self.format));
        rows.append_nulls(row)?;
        match rows {
            FormatBuilder::Map(map) => {
                for (key, value) in properties.iter() {
                    map.keys().append_value(key);
                    if value == Value::Null {
                        map.values().append_null();
                    } else {
                        self.scratch.clear();
                        write_text(value, &mut self.scratch);
                        map.values().append_value(&self.scratch);
                    }
                }
                map.append(true).map_err(unreadable)
            }
            FormatBuilder::Json(json) => {
                json.append_value(as_json(&properties));
                Ok(())
            }
        }
    }

    /// The column with this number of rows.
    pub(crate) fn finish(self, rows: usize, nulls: &mut NullColumns) -> Result<ArrayRef> {
        if let Some(mut builder) = self.rows {
            builder.append_nulls(rows)?;
            return Ok(builder.finish());
        }
        Ok(match self.format {
            PropertiesFormat::Map => nulls.of(FormatBuilder::new(self.format).finish().data_type()),
            PropertiesFormat::Json => nulls.text(),
        })
    }
}

impl FormatBuilder {
    fn new(format: PropertiesFormat) -> Self {
        let text = StringBuilder::new;
        match format {
            PropertiesFormat::Map => Self::Map(Box::new(MapBuilder::new(None, text(), text()))),
            PropertiesFormat::Json => Self::Json(text()),
        }
    }

    /// Appends nulls up to this number of rows.
    fn append_nulls(&mut self, rows: usize) -> Result<()> {
        match self {
            Self::Map(map) => (map.len()..rows).try_for_each(|_| map.append(false).map_err(unreadable)),
            Self::Json(json) => {
                json.append_nulls(rows - json.len());
                Ok(())
            }
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Map(mut map) => Arc::new(map.finish()),
            Self::Json(mut json) => Arc::new(json.finish()),
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
                Value::Int(it) | Value::Timespan(it) => it.into(),
                // JSON has no NaN and no infinity.
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

/// Writes a property value as text.
fn write_text(value: Value<'_>, out: &mut String) {
    let written = match value {
        Value::Null => Ok(()),
        Value::Bool(true) => out.write_str("true"),
        Value::Bool(false) => out.write_str("false"),
        Value::Text(it) => out.write_str(it),
        Value::Int(it) | Value::Time(it) | Value::Timespan(it) => write!(out, "{it}"),
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
