// SPDX-License-Identifier: Apache-2.0
//! Reads the rows of stages and attached files, and checks them.

use std::io;
use std::path::Path;

use oxbus_store::file::{ReadOnlyDisk, StageError, StageFile, StageNames, StageRun, stage_path};

use super::content::rows_of;

/// The rows of a run, if they are intact.
pub(crate) fn read_run(file: &StageFile, wanted: StageRun) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    let read = file.read::<StageError>(&ReadOnlyDisk, &[wanted], |run, bytes| {
        let is_whole = rows_of(run.rows, bytes, &mut Vec::new()).is_some();
        payload.extend_from_slice(bytes);
        is_whole.then_some(()).ok_or(StageError::Damaged {
            position: 0,
            detail: "its rows are not messages",
        })
    });
    read.is_ok().then_some(payload)
}

/// The rows of the finished files of a directory.
#[derive(Debug, Default)]
pub(crate) struct CheckedFiles {
    /// Intact rows.
    pub(crate) rows: u64,
    /// Descriptions of what is damaged.
    pub(crate) losses: Vec<String>,
}

/// Reads the finished files of a directory, and changes nothing. `kind` names such a file, as in `stage`.
pub(crate) fn check_files(dir: &Path, store: [u8; 16], kind: &str) -> io::Result<CheckedFiles> {
    let names = match StageNames::list(&ReadOnlyDisk, dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(CheckedFiles::default()),
        names => names?,
    };
    let mut checked = CheckedFiles::default();
    for number in names.finished {
        let path = stage_path(dir, number);
        let file = match StageFile::open(&ReadOnlyDisk, dir, number, store) {
            Ok(file) => file,
            Err(error) => {
                let loss = format!("a {kind} cannot be read: {error}: `{}`", path.display());
                checked.losses.push(loss);
                continue;
            }
        };
        let mut damaged = 0;
        for run in file.runs() {
            let rows = u64::from(run.rows);
            match read_run(&file, *run) {
                Some(_) => checked.rows += rows,
                None => damaged += rows,
            }
        }
        if damaged > 0 {
            let id = &file.header().id;
            let loss = format!("{damaged} rows of the {kind} `{id}` are damaged: `{}`", path.display());
            checked.losses.push(loss);
        }
    }
    Ok(checked)
}
