// SPDX-License-Identifier: Apache-2.0
//! The native part of `oxbus.backups`: the files of a namespace at one moment.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use oxbus_broker::backup::{Backup, BackupFile, of_directory};
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Error, ErrorKind};
use oxbus_store::file::Owner;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::OrRaise;
use crate::fork::ProcessLocal;
use crate::waiting;

/// The files of a namespace at one moment, until it is closed.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct _Backup {
    /// Changed in one step, so a panic leaves it consistent.
    backup: ProcessLocal<Mutex<Option<Arc<Backup>>>>,
}

impl _Backup {
    pub(crate) fn of(backup: Backup) -> Self {
        Self {
            backup: ProcessLocal::new(Mutex::new(Some(Arc::new(backup)))),
        }
    }

    fn get(&self) -> PyResult<Arc<Backup>> {
        let backup = ignore_poison(self.backup.get()?.lock()).clone();
        let closed = || Error::new(ErrorKind::Closed, "the backup was closed; begin another one");
        backup.ok_or_else(closed).or_raise()
    }
}

#[pymethods]
impl _Backup {
    /// Name, bytes and fingerprint of each file.
    fn files(&self) -> PyResult<Vec<(String, u64, String)>> {
        let describe = |file: &BackupFile| (file.name.clone(), file.bytes, format!("{:032x}", file.fingerprint));
        Ok(self.get()?.files().iter().map(describe).collect())
    }

    /// Up to `size` bytes of a file from a position on; fewer only at its end.
    fn read<'py>(&self, py: Python<'py>, index: usize, position: u64, size: usize) -> PyResult<Bound<'py, PyBytes>> {
        let backup = self.get()?;
        let file = &backup.files()[index];
        let read = waiting::run_detached(py, |_| {
            let mut bytes = vec![0; size];
            let read = backup.read(file, position, &mut bytes)?;
            bytes.truncate(read);
            Ok(bytes)
        })?;
        Ok(PyBytes::new(py, &read.or_raise()?))
    }

    /// Lets go of the files.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let backup = ignore_poison(self.backup.get()?.lock()).take();
        py.detach(|| drop(backup));
        Ok(())
    }
}

/// The files of the namespace in a directory that no process has open.
#[pyfunction]
pub(crate) fn _backup_directory(py: Python<'_>, path: PathBuf) -> PyResult<_Backup> {
    let backup = waiting::run_detached(py, |_| of_directory(&path))?.or_raise()?;
    Ok(_Backup::of(backup))
}

/// Keeps other processes from writing backups into a directory, until it is closed.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct _BackupLock {
    /// Changed in one step, so a panic leaves it consistent.
    owner: Mutex<Option<Owner>>,
}

#[pymethods]
impl _BackupLock {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let owner = Owner::acquire(&path).map_err(|error| match error {
            oxbus_store::file::OwnershipError::InUse { .. } => Error::new(
                ErrorKind::NamespaceInUse,
                format!(
                    "another backup writes into the directory; wait until it ends: `{}`",
                    path.display()
                ),
            ),
            oxbus_store::file::OwnershipError::Io(error) => Error::new(
                ErrorKind::Storage,
                format!(
                    "the directory could not be locked ({error}); check its permissions: `{}`",
                    path.display()
                ),
            )
            .with_source(error),
        });
        Ok(Self {
            owner: Mutex::new(Some(owner.or_raise()?)),
        })
    }

    /// Ends the lock.
    fn close(&self) {
        drop(ignore_poison(self.owner.lock()).take());
    }
}
