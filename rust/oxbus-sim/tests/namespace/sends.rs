// SPDX-License-Identifier: Apache-2.0
//! Sends and cancellations.

use oxbus_broker::client::Batch;
use oxbus_model::message::{Body, Fields, MessageId, PropertiesBuilder, Value};
use oxbus_model::{ErrorKind, Result, Timestamp};
use oxbus_sim::model::message::{Content, MessagePhase};
use oxbus_store::Wait;

use super::bus::{Bus, check_result, sequence_numbers};
use super::step::{Draft, Id, Load, text};

/// Calls `use_it` with the fields of a message.
fn with_fields<R>(content: &Content, due: Option<u64>, use_it: impl FnOnce(&Fields<'_>) -> R) -> R {
    let body = content.body.to_be_bytes();
    let mut properties = PropertiesBuilder::default();
    if let Some(n) = content.n {
        properties.push("n", Value::Int(n));
    }
    if let Some(color) = &content.color {
        properties.push("color", Value::Text(color));
    }
    let fields = Fields {
        body: Body::Data(&body),
        message_id: content.id.as_deref().map(MessageId::Given),
        session_id: content.session.as_deref(),
        partition_key: content.key.as_deref(),
        subject: content.subject.as_deref(),
        time_to_live_ms: content.ttl_ms,
        scheduled_enqueue_time: due.map(Timestamp),
        application_properties: Some(properties.properties()),
        ..Fields::default()
    };
    use_it(&fields)
}

/// The messages as one batch.
pub(crate) fn batch(contents: &[Content], due: Option<u64>) -> Result<Batch> {
    let mut batch = Batch::new(1 << 20);
    for content in contents {
        with_fields(content, due, |fields| batch.push(fields))?;
    }
    Ok(batch)
}

impl Bus {
    /// The messages of a load; each has a unique body.
    pub(crate) fn contents(&mut self, load: Load) -> Vec<Content> {
        let one = |bus: &mut Self, draft: Draft, position: usize| {
            bus.last_body += 1;
            let body = bus.last_body;
            let key = draft.key.map(|key| text("key", key));
            let is_last = position + 1 == load.count;
            Content {
                body,
                session: draft.session.map(|session| text("session", session)),
                key: if load.is_mixed && is_last {
                    Some("odd".to_owned())
                } else {
                    key
                },
                id: match draft.id {
                    Id::None => None,
                    Id::Own => Some(format!("m{body}")),
                    Id::Shared(id) => Some(text("id", id)),
                },
                subject: draft.subject.map(|subject| text("subject", subject)),
                n: draft.n,
                color: draft.color.map(|color| text("color", color)),
                ttl_ms: draft.ttl_ms,
                ..Content::default()
            }
        };
        let mut draft = load.draft;
        if draft.session.is_some() && draft.key.is_some_and(|key| key > 0) {
            // With a session id most messages get no key, because a different key would be rejected.
            draft.key = None;
        }
        (0..load.count).map(|position| one(self, draft, position)).collect()
    }

    pub(crate) fn send(&mut self, entity: usize, load: Load) {
        let contents = self.contents(load);
        let due = load.delay_ms.map(|ms| self.world.now + ms);
        let refusals = self.world.send_refusals(entity, &contents);
        let path = self.world.entities[entity].name.clone();
        let result = self.namespace.sender(&path).and_then(|sender| {
            if contents.len() == 1 {
                let sent = with_fields(&contents[0], due, |fields| sender.send(fields, None, &Wait::FOREVER));
                return sent.map(|number| vec![number]);
            }
            sender.send_batch(batch(&contents, due)?, None, &Wait::FOREVER)
        });
        if let Some(numbers) = check_result("send", &refusals, result) {
            let numbers: Vec<u64> = numbers.into_iter().map(|number| number.0).collect();
            self.world.sent(entity, &contents, due, &numbers);
        }
    }

    pub(crate) fn cancel(&mut self, entity: usize, pick: usize, count: usize) {
        let main = &self.world.entities[entity].main.messages;
        let is_waiting = |number: &u64| matches!(main[number].phase, MessagePhase::Scheduled { .. });
        // Mostly scheduled messages, sometimes any message.
        let waiting: Vec<u64> = main
            .keys()
            .copied()
            .filter(|it| pick.is_multiple_of(5) || is_waiting(it))
            .collect();
        if waiting.is_empty() {
            return;
        }
        let mut numbers: Vec<u64> = (0..count).map(|step| waiting[(pick + step) % waiting.len()]).collect();
        numbers.dedup();
        let mut refusals = self.world.cancel_refusals(entity, &numbers);
        let path = self.world.entities[entity].name.clone();
        if matches!(
            self.world.entities[entity].kind,
            oxbus_sim::model::entity::Kind::Subscription(_)
        ) {
            refusals.push(ErrorKind::InvalidOperation);
        }
        let sender = self.namespace.sender(&path);
        let result = sender.and_then(|sender| sender.cancel_scheduled(&sequence_numbers(&numbers), &Wait::FOREVER));
        if check_result("cancel", &refusals, result).is_some() {
            self.world.cancelled(entity, &numbers);
        }
    }
}
