// SPDX-License-Identifier: Apache-2.0
//! Transfers. Their encoder is hand-written, because most frames are transfers.

use bytes::{BufMut, BytesMut};
use oxbus_model::caps::AMQP_TAG_BYTES_MAX;

use super::{DeliveryState, ReceiverSettleMode};
use crate::codec::{Field, Tag, code, composite};

composite! {
    /// Transfers a message or a part of one, in the payload of the frame.
    Transfer = 0x14 "transfer" {
        /// The link.
        handle: u32,
        /// Its number in the session. Optional after the first transfer.
        delivery_id: Option<u32>,
        /// Its tag. Optional after the first transfer.
        delivery_tag: Option<Tag>,
        /// The message format.
        message_format: Option<u32>,
        /// True if the sender has settled it.
        settled: Option<bool>,
        /// True if another transfer of the message follows.
        more: bool,
        /// When the receiver settles.
        rcv_settle_mode: Option<ReceiverSettleMode>,
        /// The state of the delivery, which may name a transaction.
        state: Option<DeliveryState>,
        /// True if it resumes a delivery of an earlier link.
        resume: bool,
        /// True if the delivery is aborted.
        aborted: bool,
        /// True if the answer may be batched.
        batchable: bool,
    }
}

/// The fields of a transfer that this side sets.
#[derive(Debug, Clone, Copy)]
pub struct TransferHeader<'a> {
    /// The link.
    pub handle: u32,
    /// Its number in the session.
    pub delivery_id: Option<u32>,
    /// Its tag.
    pub tag: Option<&'a Tag>,
    /// The message format.
    pub message_format: Option<u32>,
    /// True if it is settled.
    pub settled: bool,
    /// True if another transfer of the message follows.
    pub more: bool,
    /// The state of the delivery, which names a transaction.
    pub state: Option<&'a DeliveryState>,
}

impl TransferHeader<'static> {
    /// A transfer after the first one of a message, without id, tag and format.
    pub fn following(handle: u32) -> Self {
        Self {
            handle,
            delivery_id: None,
            tag: None,
            message_format: None,
            settled: false,
            more: false,
            state: None,
        }
    }
}

/// Maximum bytes of the fields of a transfer: three numbers, a tag, seven others.
const FIELDS_BYTES_MAX: usize = 3 * 5 + 2 + AMQP_TAG_BYTES_MAX + 7;

/// Writes the eleven fields of a transfer in the short encoding. The length does not depend on the flags.
pub fn put_transfer(out: &mut BytesMut, head: &TransferHeader<'_>) {
    if let Some(state) = head.state {
        return put_transfer_in_state(out, head, state);
    }
    let mut list = [0; FIELDS_BYTES_MAX];
    let mut writer = &mut list[..];
    put_uint(&mut writer, Some(head.handle));
    put_uint(&mut writer, head.delivery_id);
    match head.tag {
        Some(tag) => {
            writer.put_slice(&[code::BINARY_8, tag.as_bytes().len() as u8]);
            writer.put_slice(tag.as_bytes());
        }
        None => writer.put_u8(code::NULL),
    }
    put_uint(&mut writer, head.message_format);
    let flag = |value| if value { code::TRUE } else { code::FALSE };
    writer.put_slice(&[
        // Omitted after the first transfer.
        if head.delivery_id.is_some() {
            flag(head.settled)
        } else {
            code::NULL
        },
        flag(head.more),
        code::NULL,
        code::NULL,
        code::FALSE,
        code::FALSE,
        code::FALSE,
    ]);
    let length = FIELDS_BYTES_MAX - writer.len();
    out.put_slice(&[
        code::DESCRIBED,
        code::ULONG_SMALL,
        Transfer::CODE,
        code::LIST_8,
        length as u8 + 1,
        11,
    ]);
    out.put_slice(&list[..length]);
}

/// Writes a transfer that belongs to a transaction.
#[cold]
fn put_transfer_in_state(out: &mut BytesMut, head: &TransferHeader<'_>, state: &DeliveryState) {
    let transfer = Transfer {
        handle: head.handle,
        delivery_id: head.delivery_id,
        delivery_tag: head.tag.copied(),
        message_format: head.message_format,
        settled: Some(head.settled),
        more: head.more,
        rcv_settle_mode: None,
        state: Some(state.clone()),
        resume: false,
        aborted: false,
        batchable: false,
    };
    transfer.encode(out);
}

fn put_uint(out: &mut impl BufMut, value: Option<u32>) {
    let Some(value) = value else {
        out.put_u8(code::NULL);
        return;
    };
    match u8::try_from(value) {
        Ok(0) => out.put_u8(code::UINT_0),
        Ok(small) => out.put_slice(&[code::UINT_SMALL, small]),
        Err(_) => {
            out.put_u8(code::UINT);
            out.put_u32(value);
        }
    }
}
