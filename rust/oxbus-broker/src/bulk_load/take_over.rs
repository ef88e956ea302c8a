// SPDX-License-Identifier: Apache-2.0
//! Takes over the rows that were attached to a partition while it was closed.

use oxbus_log::event;
use oxbus_store::Wait;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oxbus_model::caps::{ATTACH_TIMEOUT_MS, ATTACHED_RETENTION_MS};
use oxbus_model::{Error, PartitionId, Timestamp};
use oxbus_store::disk::Disk;
use oxbus_store::file::{StageError, StageFile, StageHeader, StageNames, stage_path};

use super::{attached_at, attached_dir, begun_at, name_file};
use crate::client::Sender;
use crate::durable::Stores;
use crate::entity::Entity;
use crate::stage::rows_of;

/// The reason why rows were not taken over. Their files stay.
#[derive(Debug)]
enum TakeOverError {
    /// The file failed.
    Stage(StageError),
    /// The partition failed.
    Broker(Error),
}

impl From<StageError> for TakeOverError {
    fn from(error: StageError) -> Self {
        Self::Stage(error)
    }
}

impl From<Error> for TakeOverError {
    fn from(error: Error) -> Self {
        Self::Broker(error)
    }
}

impl fmt::Display for TakeOverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stage(error) => write!(f, "{error}"),
            Self::Broker(error) => write!(f, "{error}"),
        }
    }
}

/// Stores the rows that were attached to a partition, in the order in which their tasks began. Returns a description of
/// each failure.
pub(crate) fn take_over(
    stores: &Stores,
    partition: PartitionId,
    entity: impl Fn(u64) -> Option<Arc<Entity>>,
    now: Timestamp,
    wait: &Wait<'_>,
) -> Vec<String> {
    let (disk, dir) = (stores.disk(), attached_dir(stores.dir(), partition.0));
    let names = match StageNames::list(&*disk, &dir) {
        Ok(names) => names,
        Err(error) => return vec![report_waiting(partition, &dir, &error.to_string())],
    };
    let mut taking = TakeOver {
        stores,
        disk: &*disk,
        dir: &dir,
        partition,
        now,
        merged_files: Vec::new(),
        into: None,
    };
    let mut left = Vec::new();
    for number in names.finished {
        if let Err(error) = taking.take(number, &entity, wait) {
            left.push(report_waiting(partition, &stage_path(&dir, number), &error.to_string()));
        }
    }
    if let Err(error) = taking.finish(wait) {
        left.push(report_waiting(partition, &dir, &error.to_string()));
    }
    // A later open removes a file that cannot be removed now.
    let _ = remove_expired_files(&*disk, &dir, names.unfinished.iter().map(PathBuf::as_path), now);
    left
}

fn report_waiting(partition: PartitionId, path: &Path, why: &str) -> String {
    event!(
        LOAD_WAITING,
        partition = partition.0,
        cause = why,
        path = %path.display()
    );
    format!(
        "rows loaded into partition {partition} could not be taken over ({why}); they are still in `{}`",
        path.display()
    )
}

/// The state of taking over the files of one partition.
struct TakeOver<'a> {
    stores: &'a Stores,
    disk: &'a dyn Disk,
    dir: &'a Path,
    partition: PartitionId,
    now: Timestamp,
    /// Files whose rows are in the journal.
    merged_files: Vec<PathBuf>,
    /// The sender that stored the last rows.
    into: Option<Sender>,
}

impl TakeOver<'_> {
    fn take(
        &mut self,
        number: u64,
        entity: &impl Fn(u64) -> Option<Arc<Entity>>,
        wait: &Wait<'_>,
    ) -> std::result::Result<(), TakeOverError> {
        let file = StageFile::open(self.disk, self.dir, number, self.stores.id())?;
        // Rows of a deleted queue are dropped with their file.
        if let Some(queue) = entity(file.header().entity) {
            let mut rows = Vec::new();
            file.read::<StageError>(self.disk, file.runs(), |run, payload| {
                rows_of(run.rows, payload, &mut rows).ok_or(StageError::Damaged {
                    position: 0,
                    detail: "its rows are not messages",
                })
            })?;
            let sender = Sender::new(queue);
            sender.attach_loaded_rows(self.partition, &file.header().id, rows, wait)?;
            self.record_name(&sender, file.header())?;
            self.into = Some(sender);
        }
        self.merged_files.push(file.path().to_owned());
        Ok(())
    }

    /// Records the name again with the time of the take-over. The journal remembers the name from this time on. As
    /// long as it does, rows of that name must not be attached again.
    fn record_name(&self, sender: &Sender, head: &StageHeader) -> std::result::Result<(), TakeOverError> {
        let identity = sender.entity().core().identity_key().identity(None, &head.id);
        let name = self.dir.join(name_file(head.entity, identity, self.now));
        match self.disk.create(&name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(StageError::Io(error).into()),
            _ => Ok(()),
        }
    }

    /// Syncs the rows, and only then removes their files.
    fn finish(self, wait: &Wait<'_>) -> std::result::Result<(), TakeOverError> {
        if let Some(sender) = &self.into {
            sender.sync(self.partition, wait)?;
        }
        for path in &self.merged_files {
            self.disk.remove(path).map_err(StageError::Io)?;
        }
        if !self.merged_files.is_empty() {
            event!(
                LOAD_TAKEN_OVER,
                partition = self.partition.0,
                files = self.merged_files.len()
            );
        }
        Ok(())
    }
}

/// Removes unfinished files of tasks that died, and name records past their retention.
fn remove_expired_files<'a>(
    disk: &dyn Disk,
    dir: &Path,
    unfinished: impl Iterator<Item = &'a Path>,
    now: Timestamp,
) -> io::Result<()> {
    let is_over = |at: Timestamp, ms: u64| now.0.saturating_sub(at.0) > ms;
    for path in unfinished {
        let number = path
            .file_stem()
            .and_then(|stem| u64::from_str_radix(stem.to_str()?, 16).ok());
        if number.is_some_and(|number| is_over(begun_at(number), ATTACH_TIMEOUT_MS)) {
            disk.remove(path)?;
        }
    }
    let names = match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names?,
    };
    for name in names {
        if attached_at(&name).is_some_and(|at| is_over(at, ATTACHED_RETENTION_MS)) {
            disk.remove(&dir.join(name))?;
        }
    }
    Ok(())
}
