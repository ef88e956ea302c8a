// SPDX-License-Identifier: Apache-2.0
//! The header of a message.

use crate::codec::composite;

composite! {
    /// The header section: delivery details that brokers may change.
    Header = 0x70 "header" {
        /// True if the message must survive a crash.
        durable: Option<bool>,
        /// Priority. Absent means 4.
        priority: Option<u8>,
        /// Time to live, in milliseconds.
        ttl_ms: Option<u32>,
        /// True if no other receiver has acquired it before.
        first_acquirer: Option<bool>,
        /// Number of earlier failed deliveries.
        delivery_count: Option<u32>,
    }
}

impl Header {
    /// A header as the service writes it: delivery count and time to live.
    pub fn of(delivery_count: u32, ttl_ms: Option<u32>) -> Self {
        Self {
            durable: None,
            priority: None,
            ttl_ms,
            first_acquirer: None,
            delivery_count: Some(delivery_count),
        }
    }
}
