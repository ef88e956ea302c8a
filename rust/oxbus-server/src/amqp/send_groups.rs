// SPDX-License-Identifier: Apache-2.0
//! Groups messages of a link that arrived together, if each store waits for a journal: messages of one partition are
//! stored in one write.
//!
//! Messages keep the order of the link within a partition. Each gets its own outcome: if a partition rejects a whole
//! group and has stored none of it, its messages are tried one by one.

use oxbus_amqp::engine::{IncomingDelivery, IncomingId};
use oxbus_amqp::message::MESSAGE_FORMAT_BATCH;
use oxbus_amqp::performative::DeliveryState;
use oxbus_amqp::record;
use oxbus_broker::Sender;
use oxbus_broker::client::{Keyless, Partitioner};
use oxbus_store::Wait;

use super::transactions::Coordinator;
use super::{fault, transfer};

type SendOutcomes = Vec<(IncomingId, DeliveryState)>;

/// The messages of a group, and the partitioner that holds their encoded form.
#[derive(Default)]
struct SendGroup<'a> {
    partitioner: Option<Partitioner<&'a Sender>>,
    messages: Vec<IncomingDelivery>,
}

/// Stores messages. Returns the outcomes of those for which the client expects one.
pub(super) async fn store(
    sender: &Sender,
    coordinator: &Coordinator,
    queued: Vec<IncomingDelivery>,
    wait: &Wait<'_>,
) -> SendOutcomes {
    let mut answers = SendOutcomes::with_capacity(queued.len());
    let mut group = SendGroup::default();
    for incoming in queued {
        if incoming.message_format == MESSAGE_FORMAT_BATCH || incoming.state.is_some() {
            // A batch or a transactional message is stored on its own, after the messages before it.
            group.flush(sender, coordinator, &mut answers, wait).await;
            answer(
                &mut answers,
                transfer::store(sender, coordinator, &incoming, wait).await,
                incoming.id,
            );
            continue;
        }
        match group.push(sender, coordinator, &incoming) {
            Ok(()) => group.messages.push(incoming),
            Err(error) => answer(&mut answers, fault::of(&error).into(), incoming.id),
        }
    }
    group.flush(sender, coordinator, &mut answers, wait).await;
    answers
}

fn answer(answers: &mut SendOutcomes, state: DeliveryState, id: Option<IncomingId>) {
    answers.extend(id.map(|id| (id, state)));
}

impl<'a> SendGroup<'a> {
    fn push(
        &mut self,
        sender: &'a Sender,
        coordinator: &Coordinator,
        incoming: &IncomingDelivery,
    ) -> oxbus_model::Result<()> {
        let message = record::read_new(&incoming.message, coordinator.new_id(), |fields| {
            sender.entity().encode(fields)
        })?;
        let partitioner = match &mut self.partitioner {
            Some(partitioner) => partitioner,
            // Messages without a key go together to one partition, the next in turn.
            none => none.insert(Partitioner::new(sender, Keyless::Together)?),
        };
        partitioner.push(message, None)
    }

    async fn flush(&mut self, sender: &Sender, coordinator: &Coordinator, answers: &mut SendOutcomes, wait: &Wait<'_>) {
        let Some(partitioner) = self.partitioner.take() else {
            return;
        };
        let stored = partitioner.send_async(wait).await;
        let mut failed = stored.refused.iter().peekable();
        for (position, incoming) in self.messages.drain(..).enumerate() {
            let state = match (failed.next_if(|it| it.position == position), &stored.reason) {
                (None, _) | (_, None) => DeliveryState::Accepted,
                (Some(it), _) if it.is_definite => transfer::store(sender, coordinator, &incoming, wait).await,
                // The message may have been stored.
                (Some(_), Some(error)) => fault::of(error).into(),
            };
            answer(answers, state, incoming.id);
        }
    }
}
