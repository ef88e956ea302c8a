// SPDX-License-Identifier: Apache-2.0
//! A message on its way, or a part of one. Written by hand: of all frames most are these.

use bytes::{BufMut, BytesMut};
use oxbus_model::caps::AMQP_TAG_BYTES_MAX;

use super::{DeliveryState, ReceiverSettleMode};
use crate::codec::{Tag, code, composite};

composite! {
    /// A message, or a part of one; the bytes of it follow in the frame.
    Transfer = 0x14 "transfer" {
        /// The link.
        handle: u32,
        /// Its number in the session; may be left out behind the first part.
        delivery_id: Option<u32>,
        /// Its name; may be left out behind the first part.
        delivery_tag: Option<Tag>,
        /// How the message is to be read.
        message_format: Option<u32>,
        /// True if the sender has settled the delivery.
        settled: Option<bool>,
        /// True if another part follows.
        more: bool,
        /// When the receiver settles the delivery.
        rcv_settle_mode: Option<ReceiverSettleMode>,
        /// The state of the delivery at the sender, with its transaction.
        state: Option<DeliveryState>,
        /// True if the delivery began on an earlier link.
        resume: bool,
        /// True if the sender has aborted the delivery.
        aborted: bool,
        /// True if the answer may be batched with others.
        batchable: bool,
    }
}

/// The fields of a transfer that a server sends.
#[derive(Debug, Clone, Copy)]
pub struct TransferHeader<'a> {
    /// The link.
    pub handle: u32,
    /// Its number in the session.
    pub delivery_id: Option<u32>,
    /// Its name.
    pub tag: Option<&'a Tag>,
    /// How the message is to be read.
    pub message_format: Option<u32>,
    /// True if the delivery is settled already.
    pub settled: bool,
    /// True if another part follows.
    pub more: bool,
}

impl TransferHeader<'static> {
    /// The head of a part behind the first one: it is known which delivery it belongs to.
    pub fn following(handle: u32) -> Self {
        Self {
            handle,
            delivery_id: None,
            tag: None,
            message_format: None,
            settled: false,
            more: false,
        }
    }
}

/// Bytes that the fields of a transfer take at most: three numbers, a tag, seven others.
const FIELDS_BYTES_MAX: usize = 3 * 5 + 2 + AMQP_TAG_BYTES_MAX + 7;

/// Writes the eleven fields of a transfer in the short form. Its length does not depend on its flags.
pub fn put_transfer(out: &mut BytesMut, head: &TransferHeader<'_>) {
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
        // Of a part behind the first one it is known.
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
