// SPDX-License-Identifier: Apache-2.0
//! The column of application properties: a map of text to text, JSON text, or a variant, which keep the types of values.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, BinaryBuilder, MapBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{DataType, Field, Fields};
use oxbus_model::Result;
use oxbus_model::message::{Properties, PropertiesBuilder, Value};
use serde::Deserialize;

use crate::column::{BytesColumn, ColumnContent, TextMapColumn, wrong_type};
use crate::json_properties::{as_json, from_json};
use crate::sparse::NullColumns;
use crate::unreadable;
use crate::variant::{EncodedVariant, read_variant};

/// The format of the column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PropertiesFormat {
    /// A map of text to text.
    #[default]
    Map,
    /// The text of a JSON object. Values of types that JSON lacks are objects with a tag.
    Json,
    /// The two binaries of a variant.
    Variant,
}

/// The column of input rows.
pub(crate) enum PropertiesColumn {
    /// A map of text to text.
    Map(Box<TextMapColumn>),
    /// The text of a JSON object.
    Json(BytesColumn),
    /// Variants, and their values and metadata.
    Variant(Box<(StructArray, BytesColumn, BytesColumn)>),
}

/// The two binaries of a column of variants, or `None` if the column has another type.
fn variants(array: &ArrayRef) -> Option<PropertiesColumn> {
    let rows = array.as_struct_opt()?.clone();
    let binary = |name| BytesColumn::new(rows.column_by_name(name)?, ColumnContent::BytesOrText);
    let (value, metadata) = (binary("value")?, binary("metadata")?);
    Some(PropertiesColumn::Variant(Box::new((rows, value, metadata))))
}

impl PropertiesColumn {
    /// The column. Fails if it has another type.
    pub(crate) fn new(array: &ArrayRef) -> Result<Self> {
        let map = TextMapColumn::new(array).map(|map| Self::Map(Box::new(map)));
        let json = || BytesColumn::new(array, ColumnContent::Text).map(Self::Json);
        map.or_else(json).or_else(|| variants(array)).ok_or_else(|| {
            let expected = "map<string, string>, string with a JSON object, or variant";
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
            Self::Variant(variants) => {
                let (rows, value, metadata) = &**variants;
                let bytes = rows
                    .is_valid(row)
                    .then(|| value.get(row).zip(metadata.get(row)))
                    .flatten();
                let Some((value, metadata)) = bytes else {
                    return Ok(false);
                };
                read_variant(value, metadata, out)?;
            }
        }
        Ok(true)
    }
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
    Variant(Box<VariantBuilder>),
}

/// The rows of a column of variants.
struct VariantBuilder {
    value: BinaryBuilder,
    metadata: BinaryBuilder,
    is_valid: NullBufferBuilder,
}

impl VariantBuilder {
    fn new() -> Self {
        Self {
            value: BinaryBuilder::new(),
            metadata: BinaryBuilder::new(),
            is_valid: NullBufferBuilder::new(0),
        }
    }

    fn push(&mut self, variant: Option<&EncodedVariant>) {
        let empty = EncodedVariant::default();
        let bytes = variant.unwrap_or(&empty);
        self.value.append_value(&bytes.value);
        self.metadata.append_value(&bytes.metadata);
        self.is_valid.append(variant.is_some());
    }

    fn finish(mut self) -> ArrayRef {
        let arrays: Vec<ArrayRef> = vec![Arc::new(self.value.finish()), Arc::new(self.metadata.finish())];
        Arc::new(StructArray::new(variant_fields(), arrays, self.is_valid.finish()))
    }
}

/// The fields of a variant, as Spark has them.
fn variant_fields() -> Fields {
    let binary = |name: &str| Field::new(name, DataType::Binary, false);
    Fields::from(vec![binary("value"), binary("metadata")])
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
            FormatBuilder::Variant(variants) => {
                variants.push(Some(&EncodedVariant::of(properties.iter())));
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
            PropertiesFormat::Map | PropertiesFormat::Variant => {
                nulls.of(FormatBuilder::new(self.format).finish().data_type())
            }
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
            PropertiesFormat::Variant => Self::Variant(Box::new(VariantBuilder::new())),
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
            Self::Variant(variants) => {
                (variants.value.len()..rows).for_each(|_| variants.push(None));
                Ok(())
            }
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Map(mut map) => Arc::new(map.finish()),
            Self::Json(mut json) => Arc::new(json.finish()),
            Self::Variant(variants) => variants.finish(),
        }
    }
}

/// Writes a property value as text.
pub(crate) fn write_text(value: Value<'_>, out: &mut String) {
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
