// SPDX-License-Identifier: Apache-2.0
//! The native part of the commands `oxbus salvage` and `oxbus verify`.

use std::path::PathBuf;

use oxbus_broker::salvage::SalvagedPartition;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::OrRaise;
use crate::waiting;

/// Copies the intact messages of a damaged namespace. Returns one report dict per partition.
#[pyfunction]
pub(crate) fn _salvage(py: Python<'_>, source: PathBuf, target: PathBuf) -> PyResult<Bound<'_, PyList>> {
    let found = waiting::run_detached(py, |_| oxbus_broker::salvage::salvage(&source, &target))?.or_raise()?;
    reports(py, found)
}

/// Checks every checksum of a namespace. Returns what is wrong with the catalog and the stages, and one report dict per
/// partition.
#[pyfunction]
pub(crate) fn _verify(py: Python<'_>, path: PathBuf) -> PyResult<(Vec<String>, Vec<String>, Bound<'_, PyList>)> {
    let found = waiting::run_detached(py, |_| oxbus_broker::verify::verify(&path))?.or_raise()?;
    Ok((found.catalog, found.stages, reports(py, found.partitions)?))
}

fn reports(py: Python<'_>, found: Vec<SalvagedPartition>) -> PyResult<Bound<'_, PyList>> {
    let reports = PyList::empty(py);
    for partition in found {
        let report = PyDict::new(py);
        report.set_item("partition_id", partition.partition)?;
        report.set_item("messages", partition.messages)?;
        report.set_item("loaded_rows", partition.loaded_rows)?;
        report.set_item("whole", partition.is_whole)?;
        report.set_item("losses", partition.losses)?;
        reports.append(report)?;
    }
    Ok(reports)
}
