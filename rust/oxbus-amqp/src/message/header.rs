// SPDX-License-Identifier: Apache-2.0
//! The header of a message.

use crate::codec::composite;

composite! {
    /// Fields that brokers on the way read and change.
    Header = 0x70 "header" {
        /// True if the message must survive a crash.
        durable: Option<bool>,
        /// Its rank; 4 when absent.
        priority: Option<u8>,
        /// Milliseconds that it lives.
        ttl_ms: Option<u32>,
        /// True if no other receiver acquired the message before.
        first_acquirer: Option<bool>,
        /// Deliveries before this one that failed.
        delivery_count: Option<u32>,
    }
}

impl Header {
    /// A header as the service writes it: how often it was delivered before, and how long it lives.
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
