// SPDX-License-Identifier: Apache-2.0
//! `schedule-message` and `cancel-scheduled-message` (B-232 … B-243).

use oxbus_amqp::codec::Value;
use oxbus_broker::client::Batch;
use oxbus_model::message::Fields;
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::Wait;

use super::reply::{Answer, array};
use super::request::{Request, wrong};
use crate::amqp::message;

/// Stores messages that wait for their time: all or none. In a transaction their numbers are 0: they are known when it is
/// committed, and no answer comes then.
pub(super) fn schedule(request: &Request<'_>, wait: &Wait<'_>) -> Result<Answer> {
    let sender = request.call.context.namespace().sender(&request.place.path)?;
    let mut batch = Batch::new(usize::MAX);
    for entry in request.items("messages")? {
        let Some(Value::Binary(bytes)) = entry.as_map().and_then(|entry| entry.get("message")) else {
            return Err(wrong("messages", "a list of maps with the binary message"));
        };
        message::read_new(bytes, request.call.context.new_id(), |fields| push(&mut batch, fields))?;
    }
    if batch.is_empty() {
        return Err(wrong("messages", "a list of at least one map"));
    }
    let count = batch.len();
    let numbers = if let Some(transaction) = request.transaction()? {
        transaction.send(&sender, batch, None)?;
        vec![Value::Long(0); count]
    } else {
        let numbers = sender.send_batch(batch, None, wait)?;
        let number = |number: oxbus_model::SequenceNumber| Value::Long(number.0.cast_signed());
        numbers.into_iter().map(number).collect()
    };
    Ok(Answer::of("sequence-numbers", array(numbers)))
}

fn push(batch: &mut Batch, fields: &Fields<'_>) -> Result<()> {
    if fields.scheduled_enqueue_time.is_none() {
        let detail =
            "a message that is scheduled needs a time; set the annotation x-opt-scheduled-enqueue-time to a timestamp";
        return Err(Error::new(ErrorKind::InvalidArgument, detail));
    }
    batch.push(fields)
}

/// Removes messages before their time: all or none.
pub(super) fn cancel(request: &Request<'_>, wait: &Wait<'_>) -> Result<Answer> {
    request.refuse_transaction()?;
    let sender = request.call.context.namespace().sender(&request.place.path)?;
    sender.cancel_scheduled(&request.numbers()?, wait)?;
    Ok(Answer::done())
}
