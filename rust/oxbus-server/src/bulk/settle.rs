// SPDX-License-Identifier: Apache-2.0
//! `POST /settle`: settles messages by their lock tokens.

use axum::extract::State;
use axum::{Extension, Json};
use oxbus_broker::client::{SettleKey, Settlement};
use oxbus_model::authorization::AccessRight;
use oxbus_model::hex::from_hex;
use oxbus_model::options::ReceiveMode;
use oxbus_model::{Error, ErrorKind, LockToken, Result};
use oxbus_store::Wait;
use serde::Deserialize;
use serde_json::json;

use super::parameters::JsonBody;
use super::{BulkCaller, BulkState, JsonResult, entity};
use crate::blocking::{call_with_timeout, run_suspending};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SettleRequest {
    entity: String,
    /// Concatenated tokens of 32 hexadecimal digits each.
    lock_tokens: String,
    #[serde(flatten)]
    settlement: SettlementRequest,
}

/// The settlement of messages.
#[derive(Deserialize)]
pub(super) struct SettlementRequest {
    outcome: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    description: Option<String>,
}

impl SettlementRequest {
    /// True to remove messages from a reservation without counting a delivery.
    pub(super) fn is_release(&self) -> bool {
        self.outcome == "release" && self.reason.is_none() && self.description.is_none()
    }

    /// Converts to the broker's settlement.
    pub(super) fn settlement(&self) -> Result<Settlement<'_>> {
        let settlement = match self.outcome.as_str() {
            "complete" => Settlement::Complete,
            "abandon" => Settlement::Abandon(&[]),
            "defer" => Settlement::Defer(&[]),
            "dead_letter" => {
                return Ok(Settlement::DeadLetter {
                    reason: self.reason.as_deref(),
                    description: self.description.as_deref(),
                    changes: &[],
                });
            }
            other => {
                let detail = format!("unknown outcome; use `complete`, `abandon`, `defer` or `dead_letter`: `{other}`");
                return Err(Error::new(ErrorKind::InvalidArgument, detail));
            }
        };
        if self.reason.is_some() || self.description.is_some() {
            let detail = "only a dead-lettered message has a reason and a description; leave them out";
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        Ok(settlement)
    }
}

pub(super) async fn settle(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    JsonBody(request): JsonBody<SettleRequest>,
) -> JsonResult {
    caller.authorize(AccessRight::Listen, &request.entity)?;
    let lost = run_suspending(call_with_timeout(async move |wait: &Wait<'_>| {
        let tokens = from_hex(&request.lock_tokens)
            .filter(|tokens| tokens.len() % 16 == 0)
            .ok_or_else(|| {
                let detail =
                    "lock_tokens must be tokens of 16 bytes; take them from column lock_token of received rows";
                Error::new(ErrorKind::InvalidArgument, detail)
            })?;
        let receiver = entity::receiver(state.namespace(), &request.entity, ReceiveMode::PeekLock, None)?;
        let (tokens, _) = tokens.as_chunks::<16>();
        let mut lost = Vec::new();
        let mut keys: Vec<SettleKey> = Vec::with_capacity(tokens.len());
        let mut positions = Vec::with_capacity(tokens.len());
        for (position, token) in tokens.iter().enumerate() {
            match receiver.open_token(LockToken(*token)) {
                Some(key) => {
                    keys.push(key);
                    positions.push(position);
                }
                None => lost.push(position),
            }
        }
        let settlement = request.settlement.settlement()?;
        let lost_keys = receiver.settle_many_async(&keys, settlement, wait).await?;
        lost.extend(lost_keys.into_iter().map(|position| positions[position]));
        lost.sort_unstable();
        Ok(lost)
    }));
    Ok(Json(json!({ "lost": lost.await? })))
}
