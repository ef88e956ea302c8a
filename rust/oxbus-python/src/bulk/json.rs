// SPDX-License-Identifier: Apache-2.0
//! Access to the fields of JSON answers.

use oxbus_model::hex::from_hex;
use oxbus_model::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::{Map, Value};

/// Reads required fields of an answer.
pub(super) trait JsonFields {
    /// A field of any type.
    fn field(&self, name: &str) -> Result<&Value>;
    /// A non-negative integer.
    fn number(&self, name: &str) -> Result<u64>;
    /// A boolean.
    fn boolean(&self, name: &str) -> Result<bool>;
    /// An object.
    fn object(&self, name: &str) -> Result<&Map<String, Value>>;
    /// A list.
    fn list(&self, name: &str) -> Result<&[Value]>;
    /// A list of non-negative integers.
    fn numbers(&self, name: &str) -> Result<Vec<u64>>;
    /// A text.
    fn text(&self, name: &str) -> Result<&str>;
    /// Bytes in hexadecimal digits, or null.
    fn hex(&self, name: &str) -> Result<Option<Vec<u8>>>;
}

fn missing(name: &str) -> Error {
    let detail = format!("the server's answer has no `{name}`; use a client of its version");
    Error::new(ErrorKind::NotSupported, detail)
}

impl JsonFields for Value {
    fn field(&self, name: &str) -> Result<&Value> {
        self.get(name).ok_or_else(|| missing(name))
    }

    fn number(&self, name: &str) -> Result<u64> {
        self.field(name)?.as_u64().ok_or_else(|| missing(name))
    }

    fn boolean(&self, name: &str) -> Result<bool> {
        self.field(name)?.as_bool().ok_or_else(|| missing(name))
    }

    fn object(&self, name: &str) -> Result<&Map<String, Value>> {
        self.field(name)?.as_object().ok_or_else(|| missing(name))
    }

    fn list(&self, name: &str) -> Result<&[Value]> {
        let list = self.field(name)?.as_array();
        list.map(Vec::as_slice).ok_or_else(|| missing(name))
    }

    fn text(&self, name: &str) -> Result<&str> {
        self.field(name)?.as_str().ok_or_else(|| missing(name))
    }

    fn hex(&self, name: &str) -> Result<Option<Vec<u8>>> {
        if self.field(name)?.is_null() {
            return Ok(None);
        }
        from_hex(self.text(name)?).map(Some).ok_or_else(|| missing(name))
    }

    fn numbers(&self, name: &str) -> Result<Vec<u64>> {
        self.list(name)?
            .iter()
            .map(|it| it.as_u64().ok_or_else(|| missing(name)))
            .collect()
    }
}

/// Converts an answer to Python objects.
pub(super) fn as_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(it) => it.into_pyobject(py)?.to_owned().into_any(),
        Value::Number(it) => match (it.as_u64(), it.as_i64()) {
            (Some(it), _) => it.into_pyobject(py)?.into_any(),
            (None, Some(it)) => it.into_pyobject(py)?.into_any(),
            (None, None) => it.as_f64().unwrap_or(f64::NAN).into_pyobject(py)?.into_any(),
        },
        Value::String(it) => it.into_pyobject(py)?.into_any(),
        Value::Array(list) => {
            let items = list.iter().map(|it| as_python(py, it)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Object(object) => {
            let dict = PyDict::new(py);
            for (key, it) in object {
                dict.set_item(key, as_python(py, it)?)?;
            }
            dict.into_any()
        }
    })
}
