// SPDX-License-Identifier: Apache-2.0
//! Health of the partitions: injected faults and healing.

use std::sync::Arc;
use std::time::Duration;

use oxbus_log::event;
use oxbus_model::caps::STORE_STALLED_MS;
use oxbus_model::{Error, ErrorKind, PartitionId, Result};
use oxbus_store::Wait;
use oxbus_store::injected::DiskFault;

use super::Namespace;
use crate::clock::Deadline;
use crate::shard::{InjectedFault, PartitionFault, Shard};

/// Health of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionHealth {
    /// The partition.
    pub partition: PartitionId,
    /// Its fault; `None` if it is healthy.
    pub fault: Option<PartitionFault>,
    /// The reason of the fault, in words.
    pub reason: Option<String>,
}

impl Namespace {
    /// Health of every partition.
    pub fn partition_health(&self) -> Vec<PartitionHealth> {
        self.inner
            .shards
            .iter()
            .map(|shard| PartitionHealth {
                partition: shard.id(),
                fault: shard.health().fault(),
                reason: shard.health().reason(),
            })
            .collect()
    }

    /// Makes a partition fail after `after` operations or disk calls. For tests.
    pub fn inject_fault(&self, partition: PartitionId, fault: InjectedFault, after: u64) -> Result<()> {
        let shard = self.shard(partition)?;
        if let Some(fault) = shard.health().fault().filter(|fault| fault.is_final()) {
            return Err(cannot_heal(shard, fault));
        }
        let log = || event!(FAULT_INJECTED, partition = partition.0, fault = fault.name(), after);
        match fault {
            InjectedFault::Shard(fault) => {
                log();
                shard.health().inject(fault, after);
            }
            InjectedFault::Disk(DiskFault::Stall) if self.stores().is_none() => {
                log();
                self.inner.core.enable_waits();
                shard.health().inject(PartitionFault::Stalled, after);
            }
            InjectedFault::Disk(fault) => {
                let store = self.stores().and_then(|stores| stores.shard(partition.0));
                let store = store.ok_or_else(needs_disk)?;
                log();
                self.inner.core.note_disk_fault();
                store.injection().begin(fault, after);
            }
        }
        Ok(())
    }

    /// Makes the disk of the catalog, stages and bulk loads fail after `after` calls. For tests.
    pub fn inject_fault_into_files(&self, fault: InjectedFault, after: u64) -> Result<()> {
        self.inner.core.check_open()?;
        let fault = match fault {
            InjectedFault::Disk(fault) => fault,
            InjectedFault::Shard(PartitionFault::Full) => DiskFault::Full,
            InjectedFault::Shard(_) => {
                let detail = "this fault needs a partition; name one, or use a disk fault or `enospc`";
                return Err(Error::new(ErrorKind::InvalidArgument, detail));
            }
        };
        let stores = self.stores().ok_or_else(needs_disk)?;
        event!(FAULT_INJECTED, fault = InjectedFault::Disk(fault).name(), after);
        stores.injection().begin(fault, after);
        Ok(())
    }

    /// Ends the fault of the catalog, stages and bulk loads, and publishes batches that failed because of it.
    pub fn heal_files(&self, wait: &Wait<'_>) -> Result<()> {
        self.inner.core.check_open()?;
        if let Some(stores) = self.stores() {
            stores.injection().end();
            self.inner.registry.resume();
            self.inner.registry.resume_waiting(wait);
        }
        Ok(())
    }

    /// Ends the fault of a partition. A partition whose store failed writes its messages to a new journal.
    pub fn heal(&self, partition: PartitionId, wait: &Wait<'_>) -> Result<()> {
        let shard = self.shard(partition)?;
        if let Some(fault) = shard.health().fault().filter(|fault| fault.is_final()) {
            return Err(cannot_heal(shard, fault));
        }
        if let Some(store) = self.stores().and_then(|stores| stores.shard(partition.0)) {
            store.injection().end();
            // The stalled disk call returns soon. Until then the disk still seems stalled.
            let deadline = Deadline::after(Some(Duration::from_millis(STORE_STALLED_MS)));
            while store.log().is_disk_busy() && !deadline.is_over() {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
        self.inner.heal(shard, wait)?;
        self.inner.registry.resume_waiting(wait);
        Ok(())
    }

    fn shard(&self, partition: PartitionId) -> Result<&Arc<Shard>> {
        self.inner.core.check_open()?;
        self.inner.shards.get(usize::from(partition.0)).ok_or_else(|| {
            let detail = format!(
                "partition_id is out of range; use 0 to {}: {partition}",
                self.partitions() - 1
            );
            Error::new(ErrorKind::InvalidArgument, detail)
        })
    }
}

fn needs_disk() -> Error {
    let detail =
        "the fault needs a durable namespace; open it with a path, or use `unavailable`, `busy`, `enospc` or `stall`";
    Error::new(ErrorKind::InvalidOperation, detail)
}

fn cannot_heal(shard: &Shard, fault: PartitionFault) -> Error {
    let reason = shard.health().reason().unwrap_or_default();
    let advice = match fault {
        PartitionFault::NotOwned => "; heal it in the process that owns it",
        // The reason contains the advice.
        PartitionFault::Panicked => "",
        _ => "; salvage or restore it and open the namespace again",
    };
    let detail = format!("the partition is offline: {reason}{advice}: partition={}", shard.id());
    Error::new(ErrorKind::PartitionUnavailable, detail).with_shared_source(shard.health().source())
}
