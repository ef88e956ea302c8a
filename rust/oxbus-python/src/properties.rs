// SPDX-License-Identifier: Apache-2.0
//! Application properties: conversion from and to Python mappings.

use oxbus_model::message::{Properties, PropertiesBuilder, Value};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyMapping, PyString};

use crate::{convert, imports};

/// Encodes a mapping. Keys are text or UTF-8 bytes.
pub(crate) fn encode(mapping: &Bound<'_, PyAny>) -> PyResult<PropertiesBuilder> {
    let mapping = mapping.cast::<PyMapping>().map_err(|_| {
        PyTypeError::new_err("application properties must be a dict of text keys to bool, int, float, str, bytes, datetime, timedelta, UUID or None")
    })?;
    let mut builder = PropertiesBuilder::default();
    for item in mapping.items()? {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        with_key(&key, |key| push(&mut builder, key, &value))?;
    }
    Ok(builder)
}

fn with_key<R>(key: &Bound<'_, PyAny>, run: impl FnOnce(&str) -> PyResult<R>) -> PyResult<R> {
    if let Ok(text) = key.cast::<PyString>() {
        return run(text.to_str()?);
    }
    if let Ok(bytes) = key.cast::<PyBytes>()
        && let Ok(text) = std::str::from_utf8(bytes.as_bytes())
    {
        return run(text);
    }
    Err(PyTypeError::new_err(format!(
        "an application property has a key that is not text; use str: {}",
        key.repr()?
    )))
}

fn push(builder: &mut PropertiesBuilder, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = value.py();
    if value.is_none() {
        builder.push(key, Value::Null);
    } else if let Ok(value) = value.cast::<PyString>() {
        builder.push(key, Value::Text(value.to_str()?));
    } else if let Ok(value) = value.cast::<PyBool>() {
        builder.push(key, Value::Bool(value.is_true()));
    } else if let Ok(value) = value.cast::<PyInt>() {
        let int = value.extract().map_err(|_| {
            PyValueError::new_err(format!(
                "an application property does not fit 64 bits; send it as text: key=`{key}`"
            ))
        })?;
        builder.push(key, Value::Int(int));
    } else if let Ok(value) = value.cast::<PyFloat>() {
        builder.push(key, Value::Double(value.value()));
    } else if let Ok(value) = value.cast::<PyBytes>() {
        builder.push(key, Value::Bytes(value.as_bytes()));
    } else if value.is_instance(imports::uuid(py)?)? {
        builder.push(key, Value::Uuid(value.getattr("bytes")?.extract()?));
    } else if value.is_instance(imports::datetime(py)?)? {
        builder.push(key, Value::Time(convert::datetime_ms(value)?));
    } else if value.is_instance(imports::timedelta(py)?)? {
        builder.push(key, Value::Timespan(convert::timedelta_units(value)?));
    } else {
        let detail = format!(
            "an application property has a type that cannot be sent; use bool, int, float, str, bytes, datetime, timedelta, \
             UUID or None: key=`{key}` type={}",
            value.get_type().name()?
        );
        return Err(PyTypeError::new_err(detail));
    }
    Ok(())
}

/// Decodes properties to a dict.
pub(crate) fn decode<'py>(py: Python<'py>, properties: Properties<'_>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, value) in properties.iter() {
        dict.set_item(key, self::value(py, value)?)?;
    }
    Ok(dict)
}

/// Converts one value to Python.
pub(crate) fn value<'py>(py: Python<'py>, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(it) => PyBool::new(py, it).to_owned().into_any(),
        Value::Int(it) => it.into_pyobject(py)?.into_any(),
        Value::Double(it) => it.into_pyobject(py)?.into_any(),
        Value::Text(it) => PyString::new(py, it).into_any(),
        Value::Bytes(it) => PyBytes::new(py, it).into_any(),
        Value::Uuid(it) => uuid(py, "bytes", &it)?,
        Value::Time(it) => {
            let epoch = convert::datetime(py, oxbus_model::Timestamp(0))?;
            let delta = imports::timedelta(py)?.call1((0, 0, 0, it))?;
            epoch.call_method1("__add__", (delta,))?
        }
        Value::Timespan(it) => convert::timedelta_of_units(py, it)?,
    })
}

/// Creates a `uuid.UUID` from 16 bytes. `keyword` is `bytes` or `bytes_le`.
pub(crate) fn uuid<'py>(py: Python<'py>, keyword: &str, bytes: &[u8; 16]) -> PyResult<Bound<'py, PyAny>> {
    let keywords = PyDict::new(py);
    keywords.set_item(keyword, PyBytes::new(py, bytes))?;
    imports::uuid(py)?.call((), Some(&keywords))
}
