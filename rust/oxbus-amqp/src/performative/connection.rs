// SPDX-License-Identifier: Apache-2.0
//! Open and close.

use bytestring::ByteString;

use super::AmqpError;
use crate::codec::{Map, Symbol, composite};

composite! {
    /// The first frame of a connection.
    Open = 0x10 "open" {
        /// The name of the peer that opens the connection.
        container_id: ByteString,
        /// Whom it means to reach, as TLS and SASL have it.
        hostname: Option<ByteString>,
        /// Bytes of a frame that it takes; absent means any.
        max_frame_size: Option<u32>,
        /// Largest channel number; absent means any.
        channel_max: Option<u16>,
        /// Milliseconds without a frame after which it gives the connection up.
        idle_time_out_ms: Option<u32>,
        /// Languages of texts that it writes.
        outgoing_locales: Vec<Symbol>,
        /// Languages of texts that it wants.
        incoming_locales: Vec<Symbol>,
        /// Capabilities that the peer supports.
        offered_capabilities: Vec<Symbol>,
        /// Capabilities that the peer wants the other side to use.
        desired_capabilities: Vec<Symbol>,
        /// Product, version, platform.
        properties: Option<Map>,
    }
}

composite! {
    /// The last frame of a connection.
    Close = 0x18 "close" {
        /// Why, when something went wrong.
        error: Option<AmqpError>,
    }
}
