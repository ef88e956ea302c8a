// SPDX-License-Identifier: Apache-2.0
//! How much room a connection keeps for what it reads: little while little comes, much while much does.
//!
//! A thousand connections that wait have no use for a thousand buffers of the largest frame.

use bytes::BytesMut;
use oxbus_model::caps::{AMQP_READ_BYTES, AMQP_READ_BYTES_MIN};

/// Room for the next read.
pub(super) struct ReadBuffer {
    size: usize,
}

impl ReadBuffer {
    pub(super) fn new() -> Self {
        Self {
            size: AMQP_READ_BYTES_MIN,
        }
    }

    /// Makes room in `input`, which may hold the beginning of a frame.
    pub(super) fn reserve(&self, input: &mut BytesMut) {
        if input.is_empty() && input.capacity() > 2 * self.size {
            *input = BytesMut::with_capacity(self.size);
        } else if input.capacity() - input.len() < self.size {
            input.reserve(self.size);
        }
    }

    /// So many bytes came.
    pub(super) fn record_read(&mut self, count: usize) {
        if count >= self.size {
            self.size = (4 * self.size).min(AMQP_READ_BYTES);
        } else if count < self.size / 8 {
            self.size = (self.size / 2).max(AMQP_READ_BYTES_MIN);
        }
    }

    /// Nothing came for some time.
    pub(super) fn shrink(&mut self) {
        self.size = AMQP_READ_BYTES_MIN;
    }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, BytesMut};
    use oxbus_model::caps::{AMQP_READ_BYTES, AMQP_READ_BYTES_MIN};

    use super::ReadBuffer;

    #[test]
    fn room_grows_with_what_comes_and_goes_when_nothing_does() {
        // A connection kept 128 KiB from its first byte on, so that a thousand idle ones took 140 MiB.
        let (mut buffer, mut input) = (ReadBuffer::new(), BytesMut::new());
        buffer.reserve(&mut input);
        assert_eq!(input.capacity(), AMQP_READ_BYTES_MIN);
        input.put_slice(b"AMQP");
        buffer.record_read(4);
        buffer.reserve(&mut input);
        assert!(input.capacity() <= 2 * AMQP_READ_BYTES_MIN, "{}", input.capacity());
        for _ in 0..4 {
            buffer.record_read(AMQP_READ_BYTES);
        }
        buffer.reserve(&mut input);
        assert!(input.capacity() >= AMQP_READ_BYTES);
        // What is there stays there, and is not copied for want of room.
        buffer.shrink();
        buffer.reserve(&mut input);
        assert_eq!(&input[..], b"AMQP");
        assert!(input.capacity() >= AMQP_READ_BYTES);
        input.clear();
        buffer.reserve(&mut input);
        assert_eq!(input.capacity(), AMQP_READ_BYTES_MIN);
    }
}
