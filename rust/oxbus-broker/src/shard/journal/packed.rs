// SPDX-License-Identifier: Apache-2.0
//! Compressed events. A fold compresses its events, because those of dead letters are very similar.

use oxbus_model::varint::{self, VarintReader};

/// Upper limit of the uncompressed bytes. The length is untrusted, so memory for it is limited.
const LEN_MAX: u64 = 64 << 20;
const LZ4: u8 = 0;

/// Events as an LZ4 block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedEvents<'a> {
    len: usize,
    block: &'a [u8],
}

impl<'a> PackedEvents<'a> {
    pub(super) fn push(self, out: &mut Vec<u8>) {
        varint::push(out, self.len as u64);
        out.push(LZ4);
        varint::push_bytes(out, self.block);
    }

    pub(super) fn take(from: &mut VarintReader<'a>) -> Option<Self> {
        let len = from.varint().filter(|len| *len <= LEN_MAX)?;
        if from.take(1)? != [LZ4] {
            return None;
        }
        let block = from.bytes()?;
        // No LZ4 block has a higher compression ratio.
        (len <= block.len() as u64 * 256).then_some(Self {
            len: len as usize,
            block,
        })
    }

    /// The uncompressed events; `None` if the block is invalid.
    pub fn unpack(self) -> Option<Vec<u8>> {
        let events = lz4_flex::block::decompress(self.block, self.len).ok()?;
        (events.len() == self.len).then_some(events)
    }
}

/// Compresses events. Returns what `show` makes of them, or `events` unchanged if the result is not shorter.
pub(super) fn packed(events: Vec<u8>, show: impl FnOnce(PackedEvents<'_>) -> Vec<u8>) -> Vec<u8> {
    if events.len() as u64 > LEN_MAX {
        return events;
    }
    let block = lz4_flex::block::compress(&events);
    let packed = show(PackedEvents {
        len: events.len(),
        block: &block,
    });
    if packed.len() < events.len() { packed } else { events }
}
