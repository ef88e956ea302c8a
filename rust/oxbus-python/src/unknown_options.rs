// SPDX-License-Identifier: Apache-2.0
//! Options that a call does not have: the error names the one that was probably meant.
//!
//! Taking further options costs a call some time, so sending and receiving take none: Python's own error names them.

use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::imports;

/// Further options of a call by name; there are none in a call that fits.
pub(crate) type UnknownOptions<'a, 'py> = &'a Bound<'py, PyDict>;

/// Refuses further options of a method of `C`, or of the class itself when `method` is empty.
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
