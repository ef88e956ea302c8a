// SPDX-License-Identifier: Apache-2.0
//! `schedule-message` and `cancel-scheduled-message` (B-232 … B-243).

use oxbus_amqp::codec::AmqpValue;
use oxbus_broker::client::Batch;
use oxbus_model::message::Fields;
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::Wait;

use super::reply::{OperationOutcome, array};
use super::request::{ManagementRequest, wrong_type};
use oxbus_amqp::record;

/// Schedules all messages, or none. In a transaction, the returned numbers are 0: they are assigned at the commit,
/// which has no reply.
pub(super) async fn schedule(request: &ManagementRequest<'_>, wait: &Wait<'_>) -> Result<OperationOutcome> {
    let sender = request.amqp.context.namespace().sender(&request.address.path)?;
    let mut batch = Batch::new(usize::MAX);
    for entry in request.items("messages")? {
        let Some(AmqpValue::Binary(bytes)) = entry.as_map().and_then(|entry| entry.get("message")) else {
            return Err(wrong_type("messages", "a list of maps with the binary message"));
        };
        record::read_new(bytes, request.amqp.context.new_id(), |fields| push(&mut batch, fields))?;
    }
    if batch.is_empty() {
        return Err(wrong_type("messages", "a list of at least one map"));
    }
    let count = batch.len();
    let numbers = if let Some(transaction) = request.transaction()? {
        transaction.send(&sender, batch, None)?;
        vec![AmqpValue::Long(0); count]
    } else {
        let numbers = sender.send_batch_async(batch, None, wait).await?;
        let number = |number: oxbus_model::SequenceNumber| AmqpValue::Long(number.0.cast_signed());
        numbers.into_iter().map(number).collect()
    };
    Ok(OperationOutcome::of("sequence-numbers", array(numbers)))
}

fn push(batch: &mut Batch, fields: &Fields<'_>) -> Result<()> {
    if fields.scheduled_enqueue_time.is_none() {
        let detail = "a scheduled message needs a time; set the annotation x-opt-scheduled-enqueue-time to a timestamp";
        return Err(Error::new(ErrorKind::InvalidArgument, detail));
    }
    batch.push(fields)
}

/// Cancels all scheduled messages, or none.
pub(super) async fn cancel(request: &ManagementRequest<'_>, wait: &Wait<'_>) -> Result<OperationOutcome> {
    request.reject_transaction()?;
    let sender = request.amqp.context.namespace().sender(&request.address.path)?;
    sender.cancel_scheduled_async(&request.numbers()?, wait).await?;
    Ok(OperationOutcome::done())
}
