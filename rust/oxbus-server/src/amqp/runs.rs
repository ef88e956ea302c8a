// SPDX-License-Identifier: Apache-2.0
//! Messages of a link that came together, where each store waits for a journal: those of a partition are stored together.
//!
//! Their order in a partition is that of the link. Each is answered for itself: when a partition refuses all of them, and has
//! stored none, they are tried one by one.

use oxbus_amqp::engine::{Incoming, IncomingId};
use oxbus_amqp::message::MESSAGE_FORMAT_BATCH;
use oxbus_amqp::performative::DeliveryState;
use oxbus_arrow::NewId;
use oxbus_broker::Sender;
use oxbus_broker::client::Row;
use oxbus_broker::routing::Route;
use oxbus_model::{PartitionId, Result};

use super::sends;
use super::transactions::Coordinator;
use super::{fault, message};

type Answers = Vec<(IncomingId, DeliveryState)>;

/// Messages that go to one partition.
struct Group {
    partition: PartitionId,
    messages: Vec<Incoming>,
    rows: Vec<Row>,
}

/// Stores messages; what became of those that somebody waits for.
pub(super) fn store(sender: &Sender, coordinator: &Coordinator, queued: Vec<Incoming>) -> Answers {
    let mut answers = Answers::with_capacity(queued.len());
    let mut groups: Vec<Group> = Vec::new();
    // Messages without a key go where the next one would.
    let mut next = None;
    for incoming in queued {
        if incoming.message_format == MESSAGE_FORMAT_BATCH || incoming.state.is_some() {
            // A batch is its own store, and comes behind what came before it.
            flush(sender, coordinator, &mut groups, &mut answers);
            answer(&mut answers, sends::store(sender, coordinator, &incoming), incoming.id);
            continue;
        }
        match row(sender, coordinator.new_id(), &incoming, &mut next) {
            Err(error) => answer(&mut answers, fault::of(&error).into(), incoming.id),
            Ok((partition, row)) => {
                let at = groups.iter().position(|group| group.partition == partition);
                let at = at.unwrap_or_else(|| {
                    groups.push(Group {
                        partition,
                        messages: Vec::new(),
                        rows: Vec::new(),
                    });
                    groups.len() - 1
                });
                groups[at].messages.push(incoming);
                groups[at].rows.push(row);
            }
        }
    }
    flush(sender, coordinator, &mut groups, &mut answers);
    answers
}

fn answer(answers: &mut Answers, state: DeliveryState, id: Option<IncomingId>) {
    answers.extend(id.map(|id| (id, state)));
}

/// A message as a row, and where it goes.
fn row(
    sender: &Sender,
    new_id: NewId,
    incoming: &Incoming,
    next: &mut Option<PartitionId>,
) -> Result<(PartitionId, Row)> {
    message::read_new(&incoming.message, new_id, |fields| {
        let partition = match sender.route(fields)? {
            Route::Keyed(partition) => partition,
            Route::Keyless => *next.get_or_insert_with(|| sender.turn().next().unwrap_or(PartitionId(0))),
        };
        Ok((partition, Row::new(fields, sender.queue().message_size_bytes_max())?))
    })
}

fn flush(sender: &Sender, coordinator: &Coordinator, groups: &mut Vec<Group>, answers: &mut Answers) {
    for mut group in groups.drain(..) {
        let refused = sender.send_rows(group.partition, &mut group.rows).err();
        for incoming in group.messages {
            let state = match &refused {
                None => DeliveryState::Accepted,
                Some(refusal) if refusal.is_definite => sends::store(sender, coordinator, &incoming),
                // Nobody knows whether they are stored.
                Some(refusal) => fault::of(&refusal.error).into(),
            };
            answer(answers, state, incoming.id);
        }
    }
}
