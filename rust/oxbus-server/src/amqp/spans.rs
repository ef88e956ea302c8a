// SPDX-License-Identifier: Apache-2.0
//! Records for the traces of AMQP clients. Nothing here runs unless the program takes them.

use std::collections::HashMap;
use std::time::Instant;

use oxbus_amqp::engine::{DeliveryDisposition, DeliveryId, IncomingDelivery, IncomingId};
use oxbus_amqp::performative::DeliveryState;
use oxbus_amqp::record::token;
use oxbus_broker::Receiver;
use oxbus_broker::client::{Delivery, SettleKey};
use oxbus_broker::entity::Entity;
use oxbus_model::caps::AMQP_UNSETTLED_MAX;

use crate::front::Context;
use crate::pending::PendingDeliveries;
use crate::spans::{FinishedSpan, SpanRecorder, context_of_record, contexts_of};

/// The transfers of a link that are being stored.
pub(super) struct SendSpans {
    target: String,
    begun: Instant,
    /// The number of each transfer that is answered, the contexts of its messages, and how many these are.
    transfers: Vec<(Option<u32>, Vec<String>, usize)>,
}

impl SendSpans {
    pub(super) fn begin(entity: &Entity, queued: &[IncomingDelivery]) -> Self {
        let describe = |it: &IncomingDelivery| {
            let (contexts, messages) = contexts_of(it);
            (it.id.as_ref().map(IncomingId::number), contexts, messages)
        };
        Self {
            target: entity.name().as_str().to_owned(),
            begun: oxbus_system::instant(),
            transfers: queued.iter().map(describe).collect(),
        }
    }

    /// Records one span for each transfer.
    pub(super) fn end(self, answers: &[(IncomingId, DeliveryState)], spans: &SpanRecorder) {
        let took = self.begun.elapsed();
        let refused: HashMap<u32, String> = answers
            .iter()
            .filter_map(|(id, state)| Some((id.number(), condition(state)?)))
            .collect();
        for (number, contexts, messages) in self.transfers {
            spans.record(FinishedSpan {
                operation: "send",
                target: self.target.clone(),
                contexts,
                messages,
                error: number.and_then(|number| refused.get(&number).cloned()),
                http: None,
                begun: self.begun,
                took,
            });
        }
    }
}

/// The AMQP condition of a refusal. Echoed rejections of messages carry none.
fn condition(state: &DeliveryState) -> Option<String> {
    match state {
        DeliveryState::Rejected(Some(error)) => Some(error.condition.as_str().to_owned()),
        _ => None,
    }
}

/// Records a receive that found messages.
pub(super) fn record_receive(found: &PendingDeliveries, begun: Instant, spans: &SpanRecorder) {
    let deliveries = found.deliveries();
    spans.record(FinishedSpan {
        operation: "receive",
        target: found.receiver().entity().name().as_str().to_owned(),
        contexts: deliveries.iter().filter_map(context_of_delivery).collect(),
        messages: deliveries.len(),
        error: None,
        http: None,
        begun,
        took: begun.elapsed(),
    });
}

fn context_of_delivery(delivery: &Delivery) -> Option<String> {
    context_of_record(delivery.claimed.record.in_memory()?)
}

/// The contexts of messages that a client has and has not settled, by delivery tag: a settlement names only the tag.
#[derive(Default)]
pub(super) struct DeliveredContexts(HashMap<Vec<u8>, String>);

impl DeliveredContexts {
    /// Notes the context of a message that was sent to the client and that it will settle.
    pub(super) fn note(&mut self, receiver: &Receiver, delivery: &Delivery) {
        if self.0.len() < AMQP_UNSETTLED_MAX as usize
            && let Some(context) = context_of_delivery(delivery)
        {
            let key = SettleKey {
                index: delivery.index,
                key: delivery.claimed.key,
            };
            let tag = token::tag(receiver.token(key));
            self.0.insert(tag.as_bytes().to_vec(), context);
        }
    }

    /// Takes the contexts of settled messages.
    pub(super) fn take(&mut self, settles: &[DeliveryDisposition]) -> Vec<String> {
        let taken = settles.iter().filter_map(|settle| self.0.remove(settle.tag.as_bytes()));
        taken.collect()
    }
}

/// The outcome of a settlement, and the delivery if the client expects an answer.
pub(super) type SettleOutcome = (Option<DeliveryId>, DeliveryState);

/// Settlements of a link that are being applied.
pub(super) struct SettleSpan {
    target: String,
    begun: Instant,
    contexts: Vec<String>,
    messages: usize,
}

impl SettleSpan {
    /// Begins a span if there is something to settle and the program wants spans.
    pub(super) fn begin(
        context: &Context,
        receiver: &Receiver,
        contexts: &mut DeliveredContexts,
        settles: &[DeliveryDisposition],
    ) -> Option<Self> {
        (context.spans().is_on() && !settles.is_empty()).then(|| Self {
            target: receiver.entity().name().as_str().to_owned(),
            begun: oxbus_system::instant(),
            contexts: contexts.take(settles),
            messages: settles.len(),
        })
    }

    pub(super) fn end(self, outcomes: &[SettleOutcome], spans: &SpanRecorder) {
        spans.record(FinishedSpan {
            operation: "settle",
            target: self.target,
            contexts: self.contexts,
            messages: self.messages,
            error: outcomes.iter().find_map(|(_, state)| condition(state)),
            http: None,
            begun: self.begun,
            took: self.begun.elapsed(),
        });
    }
}
