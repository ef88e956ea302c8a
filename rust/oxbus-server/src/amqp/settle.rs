// SPDX-License-Identifier: Apache-2.0
//! Settlements of delivered messages (B-158 … B-166, as corrected in behaviour.md 0.4).
//!
//! The delivery tag is the lock token, which identifies the message, so there is no table of deliveries.

use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_amqp::codec::{AmqpValue, Map};
use oxbus_amqp::engine::{DeliveryDisposition, DeliveryId, LinkId, SessionId};
use oxbus_amqp::extension::ABANDON_DELAY;
use oxbus_amqp::performative::{AmqpError, DeliveryState, Modified};
use oxbus_broker::Receiver;
use oxbus_broker::client::{SettleKey, SettleListError, Settlement};
use oxbus_model::caps::AMQP_UNSETTLED_MAX;
use oxbus_model::message::Value;
use oxbus_model::{Error, ErrorKind, LockToken};
use tokio::time::Instant;

use super::connection::AmqpConnection;
use super::fault;
use super::jobs::JobResult;
use super::links::LinkKind;
use super::spans::{SettleOutcome, SettleSpan};
use super::transactions::Coordinator;
use crate::blocking::call_with_timeout;

const REASON: &str = "DeadLetterReason";
const DESCRIPTION: &str = "DeadLetterErrorDescription";
const DEAD_LETTER: &str = "com.microsoft:dead-letter";

impl AmqpConnection {
    pub(super) fn settle(&mut self, settle: DeliveryDisposition) {
        let Some(link) = self.links.get_mut(&settle.link) else {
            return;
        };
        link.used_at = Instant::now();
        let LinkKind::Receive(receive_link) = &mut link.kind else {
            return;
        };
        if receive_link.settles.is_empty() {
            self.dirty.push(settle.link);
        }
        receive_link.settles.push(settle);
    }

    /// Applies the queued settlements of a link. Returns false if there are none, or if a call is in progress.
    pub(super) fn start_settles(&mut self, id: LinkId) -> bool {
        let Some(LinkKind::Receive(receive_link)) = self.links.get_mut(&id).map(|link| &mut link.kind) else {
            return false;
        };
        if receive_link.is_settling || receive_link.settles.is_empty() {
            return false;
        }
        receive_link.is_settling = true;
        let settles = std::mem::take(&mut receive_link.settles);
        let receiver = Arc::clone(&receive_link.receiver);
        let coordinator = Arc::clone(&self.coordinator);
        let context = self.context.clone();
        let traced = SettleSpan::begin(&context, &receiver, &mut receive_link.contexts, &settles);
        self.jobs.start_call(call_with_timeout(async move |wait: &Wait<'_>| {
            let outcomes = settle_all(&receiver, (&coordinator, id.session()), settles, wait).await;
            if let Some(traced) = traced {
                traced.end(&outcomes, context.spans());
            }
            let answers = outcomes.into_iter().filter_map(|(id, state)| Some((id?, state)));
            JobResult::Settled(id, answers.collect())
        }));
        true
    }

    pub(super) fn settled(&mut self, id: LinkId, answers: Vec<(DeliveryId, DeliveryState)>) {
        // Sending stops while too many deliveries are unsettled.
        let is_at_limit = self.engine.unsettled(id.session()) >= AMQP_UNSETTLED_MAX as usize;
        for (delivery, state) in answers {
            self.engine.settle(delivery, state);
        }
        if let Some(LinkKind::Receive(receive_link)) = self.links.get_mut(&id).map(|link| &mut link.kind) {
            receive_link.is_settling = false;
            if !receive_link.settles.is_empty() {
                self.dirty.push(id);
            }
            if is_at_limit {
                self.resume(id);
            }
        }
    }
}

/// Applies settlements in the client's order. Consecutive completions are applied together. Returns the outcomes.
pub(super) async fn settle_all(
    receiver: &Receiver,
    coordinator: (&Coordinator, SessionId),
    settles: Vec<DeliveryDisposition>,
    wait: &Wait<'_>,
) -> Vec<SettleOutcome> {
    let mut answers = Vec::with_capacity(settles.len());
    let mut completed: Vec<(Option<DeliveryId>, SettleKey)> = Vec::new();
    for settle in settles {
        let reply_to = (!settle.settled).then_some(settle.delivery);
        let Some(state) = settle.state else { continue };
        let Some(key) = settle_key(receiver, &settle.tag) else {
            let error = Error::new(
                ErrorKind::MessageLockLost,
                "no message is locked under this token; receive it again",
            );
            answers.push((reply_to, fault::of(&error).into()));
            continue;
        };
        if state == DeliveryState::Accepted {
            completed.push((reply_to, key));
            continue;
        }
        complete(receiver, &mut completed, &mut answers, wait).await;
        let outcome = settle_one(receiver, coordinator, key, state, wait).await;
        answers.push((reply_to, outcome));
    }
    complete(receiver, &mut completed, &mut answers, wait).await;
    answers
}

pub(super) fn settle_key(receiver: &Receiver, tag: &oxbus_amqp::codec::Tag) -> Option<SettleKey> {
    let token = <[u8; 16]>::try_from(tag.as_bytes()).ok()?;
    receiver.open_token(LockToken(token))
}

async fn complete(
    receiver: &Receiver,
    completed: &mut Vec<(Option<DeliveryId>, SettleKey)>,
    answers: &mut Vec<SettleOutcome>,
    wait: &Wait<'_>,
) {
    if completed.is_empty() {
        return;
    }
    let keys: Vec<SettleKey> = completed.iter().map(|(_, key)| *key).collect();
    let settled = receiver.complete_many_async(&keys, wait).await;
    for (position, (reply_to, key)) in completed.drain(..).enumerate() {
        let contains = |positions: &[usize]| positions.binary_search(&position).is_ok();
        let state = match &settled {
            Ok(lost) | Err(SettleListError { lost, .. }) if contains(lost) => {
                fault::of(&receiver.lock_lost(key)).into()
            }
            Err(SettleListError { error, positions, .. }) if contains(positions) => fault::of(error).into(),
            Ok(_) | Err(_) => DeliveryState::Accepted,
        };
        answers.push((reply_to, state));
    }
}

/// Settles one message. Returns the outcome for the client: an outcome of the requested type, or an error.
async fn settle_one(
    receiver: &Receiver,
    (coordinator, session): (&Coordinator, SessionId),
    key: SettleKey,
    state: DeliveryState,
    wait: &Wait<'_>,
) -> DeliveryState {
    match state {
        DeliveryState::Released => {
            // The release counts no delivery.
            receiver.release(&[key], wait);
            DeliveryState::Released
        }
        DeliveryState::Transactional {
            transaction_id,
            outcome,
        } => {
            let transaction = match coordinator.transaction(&transaction_id, session) {
                Ok(transaction) => transaction,
                Err(fault) => return fault.into(),
            };
            let requested = outcome.as_deref().cloned().unwrap_or(DeliveryState::Accepted);
            let settle = async |settlement: Settlement<'_>| transaction.settle(receiver, &[key], settlement, wait);
            match with_settlement(&requested, settle).await {
                Ok(()) => DeliveryState::Transactional {
                    transaction_id,
                    outcome: Some(Box::new(echo(requested))),
                },
                Err(error) => fault::of(&error).into(),
            }
        }
        requested => {
            let settle = async |settlement: Settlement<'_>| receiver.settle_async(key, settlement, wait).await;
            match with_settlement(&requested, settle).await {
                Ok(()) => echo(requested),
                Err(error) => fault::of(&error).into(),
            }
        }
    }
}

/// The outcome of a successful settlement. Clients in use treat a rejection that carries an error as a failure.
fn echo(requested: DeliveryState) -> DeliveryState {
    match requested {
        DeliveryState::Rejected(_) => DeliveryState::Rejected(None),
        other => other,
    }
}

/// Calls `settle` with the settlement that `state` stands for.
async fn with_settlement(
    state: &DeliveryState,
    settle: impl AsyncFnOnce(Settlement<'_>) -> oxbus_model::Result<()>,
) -> oxbus_model::Result<()> {
    match state {
        DeliveryState::Accepted => settle(Settlement::Complete).await,
        DeliveryState::Modified(modified) => {
            let Modified {
                undeliverable_here,
                message_annotations,
                ..
            } = &**modified;
            let changes = changes(message_annotations.as_ref(), &[ABANDON_DELAY])?;
            let delay = message_annotations.as_ref().and_then(|map| map.get(ABANDON_DELAY));
            settle(match delay {
                _ if *undeliverable_here => Settlement::Defer(&changes),
                None => Settlement::Abandon(&changes),
                Some(delay) => Settlement::AbandonFor {
                    changes: &changes,
                    delay_ms: delay_ms(delay)?,
                },
            })
            .await
        }
        DeliveryState::Rejected(fault) => dead_letter(fault.as_deref(), settle).await,
        _ => {
            let detail = "unknown settlement; use accepted, released, modified or rejected";
            Err(Error::new(ErrorKind::InvalidArgument, detail))
        }
    }
}

/// The delay of an abandon.
pub(super) fn delay_ms(value: &AmqpValue) -> oxbus_model::Result<u64> {
    value.as_i64().and_then(|ms| u64::try_from(ms).ok()).ok_or_else(|| {
        let detail = format!("the delay must be a whole number of milliseconds from 0 on: {value:?}");
        Error::new(ErrorKind::InvalidArgument, detail)
    })
}

async fn dead_letter(
    fault: Option<&AmqpError>,
    settle: impl AsyncFnOnce(Settlement<'_>) -> oxbus_model::Result<()>,
) -> oxbus_model::Result<()> {
    let info = fault.and_then(|fault| fault.info.as_ref());
    let text = |key: &str| info.and_then(|map| map.get(key)).and_then(AmqpValue::as_text);
    // A generic AMQP client gives its reason as the error itself.
    let foreign = fault.filter(|fault| fault.condition != *DEAD_LETTER);
    let reason = text(REASON).or(foreign.map(|fault| fault.condition.as_str()));
    let description = text(DESCRIPTION).or(foreign.and_then(|fault| fault.description.as_deref()));
    let changes = changes(info, &[REASON, DESCRIPTION])?;
    settle(Settlement::DeadLetter {
        reason,
        description,
        changes: &changes,
    })
    .await
}

/// The properties to modify, without the names in `except` (B-166).
fn changes<'a>(map: Option<&'a Map>, except: &[&str]) -> oxbus_model::Result<Vec<(&'a str, Value<'a>)>> {
    let mut changes = Vec::new();
    for (key, value) in map.into_iter().flat_map(Map::iter) {
        let name = key.as_text().unwrap_or_default();
        if except.contains(&name) {
            continue;
        }
        let value = to_model_value(value).ok_or_else(|| {
            let detail = format!("a property to modify has an unsupported type; use a simple one: `{name}`");
            Error::new(ErrorKind::InvalidArgument, detail)
        })?;
        changes.push((name, value));
    }
    Ok(changes)
}

/// The value in the model's type, and `None` for an unsupported type.
fn to_model_value(value: &AmqpValue) -> Option<Value<'_>> {
    Some(match value {
        AmqpValue::Null => Value::Null,
        AmqpValue::Boolean(it) => Value::Bool(*it),
        AmqpValue::Float(it) => Value::Double((*it).into()),
        AmqpValue::Double(it) => Value::Double(*it),
        AmqpValue::String(it) => Value::Text(it),
        AmqpValue::Symbol(it) => Value::Text(it.as_str()),
        AmqpValue::Binary(it) => Value::Bytes(it),
        AmqpValue::Uuid(it) => Value::Uuid(it.0),
        AmqpValue::Timestamp(it) => Value::Time(it.0),
        AmqpValue::Described(pair) => return to_model_value(&pair.1),
        number => Value::Int(number.as_i64()?),
    })
}
