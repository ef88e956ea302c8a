// SPDX-License-Identifier: Apache-2.0
//! `renew-lock` (B-154).

use oxbus_amqp::codec::{Timestamp, Value};
use oxbus_model::Result;
use oxbus_model::options::ReceiveMode;
use oxbus_store::Wait;

use super::reply::{Answer, array};
use super::request::Request;

/// Renews locks; the first one that is lost ends it. One renewed before keeps its new end.
pub(super) fn renew(request: &Request<'_>, wait: &Wait<'_>) -> Result<Answer> {
    let receiver = request.receiver(ReceiveMode::PeekLock)?;
    let mut expirations = Vec::new();
    for hold in request.holds(&receiver)? {
        let until = receiver.renew(hold, wait)?;
        expirations.push(Value::from(Timestamp(until.0.cast_signed())));
    }
    Ok(Answer::of("expirations", array(expirations)))
}
