// SPDX-License-Identifier: Apache-2.0
//! Columns that a caller selects by name.

use oxbus_arrow::ColumnSelection;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;

use crate::error::OrRaise;

/// Names of columns as an argument; `None` selects all columns.
pub(crate) type ColumnNames = Option<Vec<PyBackedStr>>;

/// The named columns. Fails without a name, or if a name is unknown.
pub(crate) fn selection(names: &ColumnNames) -> PyResult<ColumnSelection> {
    ColumnSelection::of(names.as_ref().map(|names| names.iter().map(|name| &**name))).or_raise()
}

/// A checked selection of columns.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct _Columns(pub(super) ColumnSelection);

#[pymethods]
impl _Columns {
    #[new]
    #[pyo3(signature = (names=None))]
    fn new(names: ColumnNames) -> PyResult<Self> {
        selection(&names).map(Self)
    }
}

/// The names of the columns of browsed messages.
#[pyfunction]
pub(crate) fn _browsed_columns() -> Vec<&'static str> {
    ColumnSelection::browsed_names()
}
