// SPDX-License-Identifier: Apache-2.0
//! `partitions`: the health and the files of each partition; `heal` heals one.

use oxbus_broker::shard::PartitionFault;
use oxbus_model::PartitionId;
use oxbus_store::Wait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Request;
use crate::console::error::{Result, from_json};

pub(super) fn get(request: &Request) -> Value {
    let namespace = request.context.namespace();
    let files = namespace.partition_files();
    let rows = namespace.partition_health().into_iter().map(|health| {
        let file = files.iter().find(|file| file.partition == health.partition);
        json!({
            "partition": health.partition.0,
            "fault": health.fault.map(PartitionFault::name),
            "can_heal": health.fault.is_some_and(|fault| !fault.is_final()),
            "reason": health.reason,
            "journal_bytes": file.map(|it| it.journal_bytes),
            "snapshot_bytes": file.map(|it| it.snapshot_bytes),
            "snapshot_age_ms": file.map(|it| it.snapshot_age.as_millis() as u64),
            "is_full": file.is_some_and(|it| it.is_full),
        })
    });
    json!({
        "now_ms": request.context.now().0,
        "is_durable": namespace.is_durable(),
        "partitions": rows.collect::<Vec<_>>(),
    })
}

#[derive(Deserialize)]
struct Heal {
    partition: u16,
}

pub(super) fn heal(request: &Request, body: &[u8], wait: &Wait<'_>) -> Result<Value> {
    let Heal { partition } = from_json(body)?;
    request.context.namespace().heal(PartitionId(partition), wait)?;
    request.log_change("heal", "", u64::from(partition));
    Ok(json!({}))
}
