// SPDX-License-Identifier: Apache-2.0
//! The size of a connection's read buffer: it grows with the input and shrinks when the connection is idle.
//!
//! A thousand idle connections must not hold a thousand buffers of the largest frame.

use bytes::BytesMut;
use oxbus_model::caps::{AMQP_READ_BYTES, AMQP_READ_BYTES_MIN};

/// The number of bytes to reserve for the next read.
pub(super) struct ReadBuffer {
    size: usize,
}

impl ReadBuffer {
    pub(super) fn new() -> Self {
        Self {
            size: AMQP_READ_BYTES_MIN,
        }
    }

    /// Reserves space in `input`, which may hold the beginning of a frame.
    pub(super) fn reserve(&self, input: &mut BytesMut) {
        if input.is_empty() && input.capacity() > 2 * self.size {
            *input = BytesMut::with_capacity(self.size);
        } else if input.capacity() - input.len() < self.size {
            input.reserve(self.size);
        }
    }

    /// Adapts the size to a read of `count` bytes.
    pub(super) fn record_read(&mut self, count: usize) {
        if count >= self.size {
            self.size = (4 * self.size).min(AMQP_READ_BYTES);
        } else if count < self.size / 8 {
            self.size = (self.size / 2).max(AMQP_READ_BYTES_MIN);
        }
    }

    /// Resets the size after a period without input.
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
    fn buffer_grows_with_input_and_shrinks_when_idle() {
        // A connection used to keep 128 KiB from its first byte on: a thousand idle ones took 140 MiB.
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
        // Buffered bytes stay, and are not copied into a smaller buffer.
        buffer.shrink();
        buffer.reserve(&mut input);
        assert_eq!(&input[..], b"AMQP");
        assert!(input.capacity() >= AMQP_READ_BYTES);
        input.clear();
        buffer.reserve(&mut input);
        assert_eq!(input.capacity(), AMQP_READ_BYTES_MIN);
    }
}
