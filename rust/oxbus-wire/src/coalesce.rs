// SPDX-License-Identifier: Apache-2.0
//! Buffers as pieces of a body.

use bytes::{Bytes, BytesMut};

/// Buffers below this are written together.
const SMALL_BYTES: usize = 16 << 10;

/// The bytes of buffers in their order: small ones together, large ones as they are, without a copy.
pub fn coalesce<B: AsRef<[u8]> + Send + 'static>(buffers: Vec<B>) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    let mut together = BytesMut::new();
    for buffer in buffers {
        let bytes = buffer.as_ref();
        if bytes.len() < SMALL_BYTES {
            together.extend_from_slice(bytes);
            continue;
        }
        if !together.is_empty() {
            pieces.push(together.split().freeze());
        }
        pieces.push(Bytes::from_owner(buffer));
    }
    if !together.is_empty() {
        pieces.push(together.freeze());
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::coalesce;

    #[test]
    fn bytes_keep_their_order_and_large_ones_are_not_copied() {
        let large = vec![3; 20_000];
        let place = large.as_ptr();
        let made = coalesce(vec![vec![1; 3], vec![2; 2], large, vec![4; 1]]);
        assert_eq!(made.iter().map(bytes::Bytes::len).collect::<Vec<_>>(), [5, 20_000, 1]);
        assert_eq!(made[1].as_ptr(), place);
        let all: Vec<u8> = made.concat();
        assert!(all.is_sorted(), "in their order");
    }
}
