// SPDX-License-Identifier: Apache-2.0
//! Begin, flow, disposition and end.

use super::{AmqpError, DeliveryState, Role};
use crate::codec::{Map, Symbol, composite};

composite! {
    /// Opens a session.
    Begin = 0x11 "begin" {
        /// In an answer, the channel of the `begin` that it answers.
        remote_channel: Option<u16>,
        /// The id of the first transfer.
        next_outgoing_id: u32,
        /// Transfers that it accepts.
        incoming_window: u32,
        /// Transfers that it may send.
        outgoing_window: u32,
        /// Largest handle. Absent means unlimited.
        handle_max: Option<u32>,
        /// Capabilities that it offers.
        offered_capabilities: Vec<Symbol>,
        /// Capabilities that it requests.
        desired_capabilities: Vec<Symbol>,
        /// Further properties.
        properties: Option<Map>,
    }
}

composite! {
    /// Updates flow control of a session, and of a link if it names one.
    Flow = 0x13 "flow" {
        /// The id of the next expected transfer. Absent before the other side's `begin`.
        next_incoming_id: Option<u32>,
        /// Transfers that it accepts.
        incoming_window: u32,
        /// The id of its next transfer.
        next_outgoing_id: u32,
        /// Transfers that it may send.
        outgoing_window: u32,
        /// The link, if any.
        handle: Option<u32>,
        /// The writer's delivery count of the link.
        delivery_count: Option<u32>,
        /// Deliveries that the receiver accepts beyond the count.
        link_credit: Option<u32>,
        /// Deliveries available at the sender.
        available: Option<u32>,
        /// True if the sender must use up the credit.
        drain: bool,
        /// True if the writer requests a flow as answer.
        echo: bool,
        /// Further properties.
        properties: Option<Map>,
    }
}

composite! {
    /// Updates the state of deliveries.
    Disposition = 0x15 "disposition" {
        /// The role of the writer.
        role: Role,
        /// The first delivery.
        first: u32,
        /// The last delivery. Absent means only the first.
        last: Option<u32>,
        /// True if the writer settles them.
        settled: bool,
        /// Their state.
        state: Option<DeliveryState>,
        /// True if the answer may be batched.
        batchable: bool,
    }
}

composite! {
    /// Ends a session.
    End = 0x17 "end" {
        /// The error, if there is one.
        error: Option<AmqpError>,
    }
}
