// SPDX-License-Identifier: Apache-2.0
//! Open and close.

use bytestring::ByteString;

use super::AmqpError;
use crate::codec::{Map, Symbol, composite};

composite! {
    /// The first frame of a connection.
    Open = 0x10 "open" {
        /// Who opens.
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
        /// What it can.
        offered_capabilities: Vec<Symbol>,
        /// What it would like the other side to do.
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
