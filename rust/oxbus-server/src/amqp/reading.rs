// SPDX-License-Identifier: Apache-2.0
//! How much room a connection keeps for what it reads: little while little comes, much while much does.
//!
//! A thousand connections that wait have no use for a thousand buffers of the largest frame.

use bytes::BytesMut;
use oxbus_model::caps::{AMQP_READ_BYTES, AMQP_READ_BYTES_MIN};

/// Room for the next read.
pub(super) struct Reading {
    room: usize,
}

impl Reading {
    pub(super) fn new() -> Self {
        Self {
            room: AMQP_READ_BYTES_MIN,
        }
    }

    /// Makes room in `input`, which may hold the beginning of a frame.
    pub(super) fn make_room(&self, input: &mut BytesMut) {
        if input.is_empty() && input.capacity() > 2 * self.room {
            *input = BytesMut::with_capacity(self.room);
        } else if input.capacity() - input.len() < self.room {
            input.reserve(self.room);
        }
    }

    /// So many bytes came.
    pub(super) fn came(&mut self, count: usize) {
        if count >= self.room {
            self.room = (4 * self.room).min(AMQP_READ_BYTES);
        } else if count < self.room / 8 {
            self.room = (self.room / 2).max(AMQP_READ_BYTES_MIN);
        }
    }

    /// Nothing came for some time.
    pub(super) fn rest(&mut self) {
        self.room = AMQP_READ_BYTES_MIN;
    }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, BytesMut};
    use oxbus_model::caps::{AMQP_READ_BYTES, AMQP_READ_BYTES_MIN};

    use super::Reading;

    #[test]
    fn room_grows_with_what_comes_and_goes_when_nothing_does() {
        // A connection kept 128 KiB from its first byte on, so that a thousand idle ones took 140 MiB.
        let (mut reading, mut input) = (Reading::new(), BytesMut::new());
        reading.make_room(&mut input);
        assert_eq!(input.capacity(), AMQP_READ_BYTES_MIN);
        input.put_slice(b"AMQP");
        reading.came(4);
        reading.make_room(&mut input);
        assert!(input.capacity() <= 2 * AMQP_READ_BYTES_MIN, "{}", input.capacity());
        for _ in 0..4 {
            reading.came(AMQP_READ_BYTES);
        }
        reading.make_room(&mut input);
        assert!(input.capacity() >= AMQP_READ_BYTES);
        // What is there stays there, and is not copied for want of room.
        reading.rest();
        reading.make_room(&mut input);
        assert_eq!(&input[..], b"AMQP");
        assert!(input.capacity() >= AMQP_READ_BYTES);
        input.clear();
        reading.make_room(&mut input);
        assert_eq!(input.capacity(), AMQP_READ_BYTES_MIN);
    }
}
