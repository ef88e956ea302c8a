// SPDX-License-Identifier: Apache-2.0
//! Open and close.

use bytestring::ByteString;

use super::AmqpError;
use crate::codec::{Map, Symbol, composite};

composite! {
    /// The first frame of a connection.
    Open = 0x10 "open" {
        /// Name of the peer.
        container_id: ByteString,
        /// The requested host, as in TLS and SASL.
        hostname: Option<ByteString>,
        /// Maximum frame size, in bytes. Absent means unlimited.
        max_frame_size: Option<u32>,
        /// Largest channel number. Absent means unlimited.
        channel_max: Option<u16>,
        /// Idle timeout, in milliseconds.
        idle_time_out_ms: Option<u32>,
        /// Languages of its texts.
        outgoing_locales: Vec<Symbol>,
        /// Languages that it requests.
        incoming_locales: Vec<Symbol>,
        /// Capabilities that it offers.
        offered_capabilities: Vec<Symbol>,
        /// Capabilities that it requests.
        desired_capabilities: Vec<Symbol>,
        /// Product, version, platform.
        properties: Option<Map>,
    }
}

composite! {
    /// The last frame of a connection.
    Close = 0x18 "close" {
        /// The error, if there is one.
        error: Option<AmqpError>,
    }
}
