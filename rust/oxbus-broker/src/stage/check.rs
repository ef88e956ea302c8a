// SPDX-License-Identifier: Apache-2.0
//! Reads the rows of stages and attached files, and checks them.

use std::io;
use std::path::Path;

use oxbus_store::file::{ReadOnlyDisk, StageError, StageFile, StageNames, StageRun, stage_path};

use super::content::rows_of;
use super::registry::stages_dir;

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

/// Reads the finished stages of a namespace. Returns descriptions of those that are damaged.
pub(crate) fn check_stages(namespace: &Path, store: [u8; 16]) -> io::Result<Vec<String>> {
    let dir = stages_dir(namespace);
    let names = match StageNames::list(&ReadOnlyDisk, &dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names?,
    };
    let mut damaged = Vec::new();
    for number in names.finished {
        let path = stage_path(&dir, number);
        match StageFile::open(&ReadOnlyDisk, &dir, number, store) {
            Err(error) => damaged.push(format!("a stage cannot be read: {error}: `{}`", path.display())),
            Ok(file) => {
                let bad = file
                    .runs()
                    .iter()
                    .filter(|run| read_run(&file, **run).is_none())
                    .count();
                if bad > 0 {
                    let id = &file.header().id;
                    damaged.push(format!("rows of the stage `{id}` are damaged: `{}`", path.display()));
                }
            }
        }
    }
    Ok(damaged)
}
