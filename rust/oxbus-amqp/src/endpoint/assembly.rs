// SPDX-License-Identifier: Apache-2.0
//! Assembles the messages of a link from its transfers.

use bytes::{Bytes, BytesMut};
use oxbus_model::caps::{AMQP_PARTIAL_BYTES_MAX, MESSAGE_SIZE_BYTES_MAX};

use super::LinkCredit;
use crate::codec::Tag;
use crate::performative::{AmqpError, DeliveryState, Transfer, condition};

/// What the first transfer says about a message.
#[derive(Debug)]
pub(crate) struct DeliveryHead {
    pub(crate) delivery_id: u32,
    pub(crate) tag: Tag,
    pub(crate) message_format: u32,
    pub(crate) settled: bool,
    pub(crate) state: Option<DeliveryState>,
}

/// The incomplete message of a link, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    partial: Option<(DeliveryHead, BytesMut)>,
}

/// Limit of a message on a link that announces `own` bytes, or none with zero.
pub(crate) fn message_size_max(own: u64) -> usize {
    let own = usize::try_from(own).unwrap_or(usize::MAX);
    if own == 0 {
        MESSAGE_SIZE_BYTES_MAX
    } else {
        own.min(MESSAGE_SIZE_BYTES_MAX)
    }
}

impl Assembly {
    /// True if the rest of a message is yet to come.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.partial.is_some()
    }

    /// Adds a transfer. Returns the message after the last one.
    ///
    /// `partial_bytes` counts the incomplete messages of the connection; `size_max` limits a message; `is_settled` says
    /// that all messages of the link are.
    #[inline]
    pub(crate) fn push(
        &mut self,
        credit: &mut LinkCredit,
        partial_bytes: &mut usize,
        size_max: usize,
        is_settled: bool,
        transfer: Transfer,
        payload: Bytes,
    ) -> Result<Option<(DeliveryHead, Bytes)>, AmqpError> {
        let Some((mut head, mut bytes)) = self.partial.take() else {
            return self.begin(credit, partial_bytes, size_max, is_settled, transfer, payload);
        };
        let so_far = bytes.len();
        *partial_bytes -= so_far;
        if transfer.aborted {
            return Ok(None);
        }
        if transfer.delivery_id.is_some_and(|number| number != head.delivery_id) {
            let text = "a transfer of another delivery; complete or abort this one first";
            return Err(AmqpError::new(condition::NOT_ALLOWED, text));
        }
        check_size(*partial_bytes, size_max, so_far, payload.len())?;
        bytes.extend_from_slice(&payload);
        head.settled |= transfer.settled.unwrap_or(false);
        if transfer.state.is_some() {
            head.state = transfer.state;
        }
        if transfer.more {
            *partial_bytes += bytes.len();
            self.partial = Some((head, bytes));
            return Ok(None);
        }
        Ok(Some((head, bytes.freeze())))
    }

    fn begin(
        &mut self,
        credit: &mut LinkCredit,
        partial_bytes: &mut usize,
        size_max: usize,
        is_settled: bool,
        transfer: Transfer,
        payload: Bytes,
    ) -> Result<Option<(DeliveryHead, Bytes)>, AmqpError> {
        let Some(delivery_id) = transfer.delivery_id else {
            let text = "the first transfer of a delivery has no delivery-id";
            return Err(AmqpError::new(condition::INVALID_FIELD, text));
        };
        credit.take();
        if transfer.aborted {
            return Ok(None);
        }
        check_size(*partial_bytes, size_max, 0, payload.len())?;
        let head = DeliveryHead {
            delivery_id,
            tag: transfer.delivery_tag.unwrap_or(Tag::EMPTY),
            message_format: transfer.message_format.unwrap_or(0),
            settled: transfer.settled.unwrap_or(false) || is_settled,
            state: transfer.state,
        };
        if !transfer.more {
            return Ok(Some((head, payload)));
        }
        *partial_bytes += payload.len();
        self.partial = Some((head, BytesMut::from(&payload[..])));
        Ok(None)
    }

    /// Drops the incomplete message.
    pub(crate) fn clear(&mut self, partial_bytes: &mut usize) {
        if let Some((_, bytes)) = self.partial.take() {
            *partial_bytes -= bytes.len();
        }
    }
}

fn check_size(partial_bytes: usize, size_max: usize, so_far: usize, more: usize) -> Result<(), AmqpError> {
    let size = so_far + more;
    if size > size_max {
        let text = format!("the message is too large: max_message_size=`{size_max}`");
        return Err(AmqpError::new(condition::MESSAGE_SIZE_EXCEEDED, text));
    }
    if size > 0 && partial_bytes + size > AMQP_PARTIAL_BYTES_MAX {
        let text = "too many incomplete messages; complete some first";
        return Err(AmqpError::new(condition::RESOURCE_LIMIT_EXCEEDED, text));
    }
    Ok(())
}
