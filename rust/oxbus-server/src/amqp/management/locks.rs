// SPDX-License-Identifier: Apache-2.0
//! `renew-lock` (B-154).

use oxbus_amqp::codec::{AmqpTimestamp, AmqpValue};
use oxbus_model::Result;
use oxbus_model::options::ReceiveMode;
use oxbus_store::Wait;

use super::reply::{OperationOutcome, array};
use super::request::ManagementRequest;

/// Renews locks in order, up to the first one that is lost. Locks renewed before it stay renewed.
pub(super) fn renew(request: &ManagementRequest<'_>, wait: &Wait<'_>) -> Result<OperationOutcome> {
    let receiver = request.receiver(ReceiveMode::PeekLock)?;
    let mut expirations = Vec::new();
    for settle_key in request.settle_keys(&receiver)? {
        let until = receiver.renew(settle_key, wait)?;
        expirations.push(AmqpValue::from(AmqpTimestamp(until.0.cast_signed())));
    }
    Ok(OperationOutcome::of("expirations", array(expirations)))
}
