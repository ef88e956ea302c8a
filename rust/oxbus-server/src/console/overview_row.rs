// SPDX-License-Identifier: Apache-2.0
//! An entity in the overview.

use std::collections::BTreeMap;

use oxbus_broker::entity::{Entity, PartitionCounts};
use oxbus_model::name::SubQueue;
use oxbus_model::{EntityKind, Result};
use oxbus_store::Wait;
use serde::Serialize;

use super::history::Rates;

/// An entity.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) status: String,
    pub(super) is_available: bool,
    pub(super) requires_session: bool,
    pub(super) active: u64,
    pub(super) locked: u64,
    pub(super) deferred: u64,
    pub(super) scheduled: u64,
    pub(super) dead: u64,
    pub(super) transfer: u64,
    pub(super) bytes: u64,
    pub(super) oldest_ms: Option<u64>,
    #[serde(flatten)]
    pub(super) rates: Rates,
}

impl Row {
    pub(super) fn of(entity: &Entity, rates: &BTreeMap<String, Rates>, wait: &Wait<'_>) -> Result<Self> {
        let name = entity.name().as_str();
        let total = if entity.kind() == EntityKind::Topic {
            PartitionCounts::default()
        } else {
            entity.counts(wait)?.total
        };
        let oldest = if total.active > 0 {
            let backlog = entity.backlog(SubQueue::Main, wait)?;
            backlog.iter().filter_map(|it| it.oldest).min()
        } else {
            None
        };
        Ok(Self {
            kind: entity.kind().name(),
            status: format!("{:?}", entity.settings().status),
            is_available: entity.is_available(),
            requires_session: entity.requires_session(),
            active: total.active,
            locked: total.locked,
            deferred: total.deferred,
            scheduled: total.scheduled,
            dead: total.dead_letter,
            transfer: total.transfer,
            bytes: total.size_bytes,
            oldest_ms: oldest.map(|oldest| oldest.0),
            rates: rates.get(name).copied().unwrap_or_default(),
            name: name.to_owned(),
        })
    }
}
