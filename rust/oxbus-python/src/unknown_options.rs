// SPDX-License-Identifier: Apache-2.0
//! Unknown keyword options: the error suggests the option that was probably meant.
//!
//! Accepting unknown keywords costs time, so sending and receiving do not. There, Python's own error names the
//! keyword.

use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::imports;

/// The unknown keyword options of a call. A valid call has none.
pub(crate) type UnknownOptions<'a, 'py> = &'a Bound<'py, PyDict>;

/// Rejects unknown options of a method of `C`, or of its constructor if `method` is empty.
#[inline]
pub(crate) fn refuse<C: PyTypeInfo>(
    py: Python<'_>,
    method: &str,
    unknown: Option<UnknownOptions<'_, '_>>,
) -> PyResult<()> {
    match unknown {
        None => Ok(()),
        Some(unknown) => Err(refusal(&C::type_object(py), method, unknown)),
    }
}

#[cold]
fn refusal(owner: &Bound<'_, PyType>, method: &str, unknown: UnknownOptions<'_, '_>) -> PyErr {
    let made = || {
        let name = unknown.keys().get_item(0)?;
        imports::unknown_option_of(owner.py())?.call1((owner, method, name))
    };
    match made() {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}
