// SPDX-License-Identifier: Apache-2.0
//! A message on its way, or a part of one. Written by hand: of all frames most are these.

use bytes::{BufMut, BytesMut};

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
        /// Whether the sender has settled it.
        settled: Option<bool>,
        /// Whether another part follows.
        more: bool,
        /// Whether the receiver settles at once.
        rcv_settle_mode: Option<ReceiverSettleMode>,
        /// What the sender knows of it; the transaction that it is part of.
        state: Option<DeliveryState>,
        /// Whether it was begun on a link before this one.
        resume: bool,
        /// Whether it is given up.
        aborted: bool,
        /// Whether an answer may wait for others.
        batchable: bool,
    }
}

/// What a server says of a delivery.
#[derive(Debug, Clone, Copy)]
pub struct TransferHead<'a> {
    /// The link.
    pub handle: u32,
    /// Its number in the session.
    pub delivery_id: u32,
    /// Its name.
    pub tag: &'a Tag,
    /// How the message is to be read.
    pub message_format: u32,
    /// Whether it is settled already.
    pub settled: bool,
    /// Whether another part follows.
    pub more: bool,
}

/// Writes the eleven fields of a transfer in the short form: they take at most 70 bytes.
pub fn put_transfer(out: &mut BytesMut, head: &TransferHead<'_>) {
    let mut list = [0; 80];
    let mut writer = &mut list[..];
    put_uint(&mut writer, head.handle);
    put_uint(&mut writer, head.delivery_id);
    let tag = head.tag.as_bytes();
    writer.put_u8(code::BINARY_8);
    writer.put_u8(tag.len() as u8);
    writer.put_slice(tag);
    put_uint(&mut writer, head.message_format);
    let flag = |value| if value { code::TRUE } else { code::FALSE };
    writer.put_slice(&[
        flag(head.settled),
        flag(head.more),
        code::NULL,
        code::NULL,
        code::FALSE,
        code::FALSE,
        code::FALSE,
    ]);
    let length = 80 - writer.len();
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

fn put_uint(out: &mut &mut [u8], value: u32) {
    match u8::try_from(value) {
        Ok(0) => out.put_u8(code::UINT_0),
        Ok(small) => out.put_slice(&[code::UINT_SMALL, small]),
        Err(_) => {
            out.put_u8(code::UINT);
            out.put_u32(value);
        }
    }
}
