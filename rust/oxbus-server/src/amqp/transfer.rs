// SPDX-License-Identifier: Apache-2.0
//! Stores one transfer of a client: a message or a batch.

use oxbus_amqp::engine::IncomingDelivery;
use oxbus_amqp::message::MESSAGE_FORMAT_BATCH;
use oxbus_amqp::performative::DeliveryState;
use oxbus_amqp::record;
use oxbus_broker::Sender;
use oxbus_broker::client::Batch;
use oxbus_model::Result;
use oxbus_model::caps::MESSAGE_SIZE_BYTES_MAX;
use oxbus_model::message::NewId;
use oxbus_store::Wait;

use super::fault;
use super::transactions::Coordinator;

/// Stores a message or a batch. Returns the outcome for the client.
pub(super) async fn store(
    sender: &Sender,
    coordinator: &Coordinator,
    incoming: &IncomingDelivery,
    wait: &Wait<'_>,
) -> DeliveryState {
    if let Some(DeliveryState::Transactional { transaction_id, .. }) = &incoming.state {
        let transaction = match coordinator.transaction(transaction_id, incoming.link.session()) {
            Ok(transaction) => transaction,
            Err(fault) => return fault.into(),
        };
        let sent = batch(incoming, coordinator.new_id()).and_then(|batch| transaction.send(sender, batch, None));
        return match sent {
            Ok(_) => DeliveryState::Transactional {
                transaction_id: transaction_id.clone(),
                outcome: Some(Box::new(DeliveryState::Accepted)),
            },
            Err(error) => fault::of(&error).into(),
        };
    }
    let sent = if incoming.message_format == MESSAGE_FORMAT_BATCH {
        match batch(incoming, coordinator.new_id()) {
            Ok(batch) => sender.send_batch_async(batch, None, wait).await.map(drop),
            Err(error) => Err(error),
        }
    } else {
        record::read_new(&incoming.message, coordinator.new_id(), |fields| {
            sender.send(fields, None, wait).map(drop)
        })
    };
    match sent {
        Ok(()) => DeliveryState::Accepted,
        Err(error) => fault::of(&error).into(),
    }
}

/// The messages of a transfer, one or many.
fn batch(incoming: &IncomingDelivery, new_id: NewId) -> Result<Batch> {
    let mut batch = Batch::new(MESSAGE_SIZE_BYTES_MAX);
    if incoming.message_format == MESSAGE_FORMAT_BATCH {
        record::each_of_batch(&incoming.message, |one| {
            record::read_new(one, new_id, |fields| batch.push(fields))
        })?;
    } else {
        record::read_new(&incoming.message, new_id, |fields| batch.push(fields))?;
    }
    Ok(batch)
}
