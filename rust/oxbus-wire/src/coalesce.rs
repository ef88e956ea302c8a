// SPDX-License-Identifier: Apache-2.0
//! Joins small buffers of a body.

use bytes::{Bytes, BytesMut};

/// The size below which a buffer is joined with its neighbours.
const SMALL_BYTES: usize = 16 << 10;

/// Joins each run of small buffers into one. Keeps large buffers without a copy. Keeps the order.
pub fn coalesce<B: AsRef<[u8]> + Send + 'static>(buffers: Vec<B>) -> Vec<Bytes> {
    let mut chunks = Vec::new();
    let mut joined = BytesMut::new();
    for buffer in buffers {
        let bytes = buffer.as_ref();
        if bytes.len() < SMALL_BYTES {
            joined.extend_from_slice(bytes);
            continue;
        }
        if !joined.is_empty() {
            chunks.push(joined.split().freeze());
        }
        chunks.push(Bytes::from_owner(buffer));
    }
    if !joined.is_empty() {
        chunks.push(joined.freeze());
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::coalesce;

    #[test]
    fn bytes_keep_their_order_and_large_buffers_are_not_copied() {
        let large = vec![3; 20_000];
        let place = large.as_ptr();
        let made = coalesce(vec![vec![1; 3], vec![2; 2], large, vec![4; 1]]);
        assert_eq!(made.iter().map(bytes::Bytes::len).collect::<Vec<_>>(), [5, 20_000, 1]);
        assert_eq!(made[1].as_ptr(), place);
        let all: Vec<u8> = made.concat();
        assert!(all.is_sorted(), "in their order");
    }
}
