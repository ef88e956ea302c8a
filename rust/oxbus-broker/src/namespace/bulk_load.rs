// SPDX-License-Identifier: Apache-2.0
//! A bulk load: writes the rows of one task, and attaches them.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oxbus_model::caps::ATTACHED_BYTES_MAX;
use oxbus_model::message::Fields;
use oxbus_model::options::Durability;
use oxbus_model::{Error, ErrorKind, PartitionId, Result, Timestamp, varint};
use oxbus_store::Wait;
use oxbus_store::disk::Disk;
use oxbus_store::file::{StageHeader, StageWriter};

use super::Namespace;
use crate::bulk_load::{attached_dir, name_file, name_prefix, new_number};
use crate::client::Sender;
use crate::clock::Deadline;
use crate::durable::{Stores, storage_error};
use crate::routing::PartitionRoute;
use crate::shard::InjectedFault;

const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// The rows of one task for the partitions of a queue. They become visible after [`BulkLoad::finish`], when the
/// partitions are opened.
pub struct BulkLoad {
    sender: Sender,
    /// Kept for its catalog and directory.
    namespace: Namespace,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    name: String,
    now: Timestamp,
    is_synced: bool,
    /// One file per partition.
    parts: BTreeMap<u16, StageWriter>,
}

/// The result for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionLoad {
    /// The partition.
    pub partition: PartitionId,
    /// Rows of the task for this partition.
    pub rows: u64,
    /// True if this call attached them. False if rows of that name were already attached.
    pub is_attached: bool,
}

impl BulkLoad {
    /// Begins a load without rows. `name` identifies the task within its job: it differs between tasks and jobs, and
    /// is the same for each attempt. With `Durability::Fsync`, attached rows survive a power loss.
    pub fn begin(namespace: &Namespace, queue: &str, name: &str, durability: Option<Durability>) -> Result<Self> {
        let sender = namespace.sender(queue)?;
        sender.check_sends()?;
        let Some(stores) = namespace.stores() else {
            let detail = "the namespace is in memory; open it with a path to load rows into it";
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        };
        sender.entity().check_loadable(queue)?;
        Ok(Self {
            sender,
            namespace: namespace.clone(),
            disk: stores.disk(),
            dir: stores.dir().to_owned(),
            name: name.to_owned(),
            now: namespace.clock().now(),
            is_synced: durability.unwrap_or(stores.durability()) >= Durability::Fsync,
            parts: BTreeMap::new(),
        })
    }

    /// Waits up to `time` until a partition is free. The error names the process that owns one of them.
    pub fn check_free(&self, time: Duration, wait: &Wait<'_>) -> Result<()> {
        let any_free = || {
            let tried = (0..self.sender.entity().partitions()).map(|partition| self.stores().own(partition));
            let mut refused = None;
            for owned in tried {
                match owned {
                    Ok(_) => return Ok(()),
                    Err(error) => refused = refused.or(Some(error)),
                }
            }
            refused.map_or(Ok(()), Err)
        };
        wait_for(time, wait, any_free)
    }

    /// Makes the disk of its files fail after `after` calls. For tests.
    pub fn inject_fault(&self, fault: InjectedFault, after: u64) -> Result<()> {
        self.namespace.inject_fault_into_files(fault, after)
    }

    /// Adds a row to the partition of its key, or to `keyless` if it has no key.
    pub fn push(&mut self, fields: &Fields<'_>, keyless: PartitionId) -> Result<()> {
        fields.check()?;
        let partition = match self.sender.entity().route_of(fields)? {
            PartitionRoute::Keyed(partition) => partition,
            PartitionRoute::Keyless => keyless,
        };
        let (len, max) = (
            fields.encoded_len(),
            self.sender.entity().settings().message_size_bytes_max,
        );
        if len > max {
            let detail = format!("the message is too large; send less: size={len} bytes, limit={max} bytes");
            return Err(Error::new(ErrorKind::MessageSizeExceeded, detail));
        }
        if !self.parts.contains_key(&partition.0) {
            let part = self.part(partition.0)?;
            self.parts.insert(partition.0, part);
        }
        let part = self.parts.get_mut(&partition.0).expect("it was made just now");
        let pushed = part.push(partition.0, |run| {
            varint::push(run, len as u64);
            fields.push_to(run);
        });
        pushed.map_err(|error| self.failed(partition.0, error))
    }

    /// Creates the file of a partition.
    fn part(&self, partition: u16) -> Result<StageWriter> {
        if partition >= self.sender.entity().partitions() {
            let detail = format!(
                "the partition is out of range; use 0 to {}: partition={partition}",
                self.sender.entity().partitions() - 1
            );
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        let dir = attached_dir(&self.dir, partition);
        let head = StageHeader {
            store: self.stores().id(),
            entity: self.sender.entity().id().0,
            created_at_ms: self.now.0,
            number: new_number(self.now, self.sender.entity().core().randomness())?,
            id: self.name.clone(),
        };
        let begun = self
            .disk
            .create_dir(&dir)
            .and_then(|()| StageWriter::create(&self.disk, &dir, head));
        begun.map_err(|error| self.failed(partition, error))
    }

    /// Attaches the rows, partition by partition. Waits up to `time` for each partition that another process owns.
    /// After an error, the rows attached so far stay, and a retry under the same name attaches the rest.
    pub fn finish(mut self, time: Duration, wait: &Wait<'_>) -> Result<Vec<PartitionLoad>> {
        let parts = std::mem::take(&mut self.parts);
        for (partition, part) in &parts {
            let bytes = part.bytes();
            if bytes > ATTACHED_BYTES_MAX as u64 {
                let detail = format!(
                    "the rows of one partition are too large for one task; use more tasks: size={bytes} bytes, limit={ATTACHED_BYTES_MAX} bytes, partition={partition}"
                );
                return Err(Error::new(ErrorKind::MessageSizeExceeded, detail));
            }
        }
        let attach = |(partition, part)| self.attach(partition, part, time, wait);
        parts.into_iter().map(attach).collect()
    }

    fn attach(&self, partition: u16, part: StageWriter, time: Duration, wait: &Wait<'_>) -> Result<PartitionLoad> {
        let failed = |error: io::Error| self.failed(partition, error);
        let rows = part.rows();
        let sealed = part.seal(self.is_synced).map_err(failed)?;
        let owner = wait_for(time, wait, || self.stores().own(partition))?;
        let dir = attached_dir(&self.dir, partition);
        let entity = self.sender.entity().id().0;
        let identity = self.sender.entity().core().identity_key().identity(None, &self.name);
        let prefix = name_prefix(entity, identity);
        let names = self.disk.list(&dir).map_err(failed)?;
        let is_attached = !names.iter().any(|name| name.starts_with(&prefix));
        if is_attached {
            sealed.publish().map_err(failed)?;
            // After a crash before this line, nothing is attached twice: the file also has the name, and the take-over
            // checks it.
            let name = dir.join(name_file(entity, identity, self.now));
            self.disk.create(&name).map_err(failed)?;
        }
        drop(owner);
        Ok(PartitionLoad {
            partition: PartitionId(partition),
            rows,
            is_attached,
        })
    }

    fn stores(&self) -> &Stores {
        self.namespace.stores().expect("a bulk load has a durable namespace")
    }

    fn failed(&self, partition: u16, error: io::Error) -> Error {
        storage_error(&attached_dir(&self.dir, partition), "loaded", error)
    }
}

/// Retries `ask` while it fails with `NamespaceInUse`, up to `time`.
fn wait_for<T>(time: Duration, wait: &Wait<'_>, ask: impl Fn() -> Result<T>) -> Result<T> {
    let deadline = Deadline::after(Some(time));
    let mut pause = FIRST_PAUSE;
    loop {
        match ask() {
            Err(error) if error.kind() == ErrorKind::NamespaceInUse => {
                if wait.is_over() || deadline.remaining().is_some_and(|left| left < pause) {
                    return Err(error);
                }
            }
            answer => return answer,
        }
        std::thread::park_timeout(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
