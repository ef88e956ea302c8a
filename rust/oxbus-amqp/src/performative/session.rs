// SPDX-License-Identifier: Apache-2.0
//! Begin, flow, disposition and end.

use super::{AmqpError, DeliveryState, Role};
use crate::codec::{Map, Symbol, composite};

composite! {
    /// Opens a session.
    Begin = 0x11 "begin" {
        /// In an answer, the channel of the `begin` that it answers.
        remote_channel: Option<u16>,
        /// The number of the first transfer.
        next_outgoing_id: u32,
        /// Transfers that it takes.
        incoming_window: u32,
        /// Transfers that it may send without settlement.
        outgoing_window: u32,
        /// Largest handle; absent means any.
        handle_max: Option<u32>,
        /// Capabilities that the peer supports.
        offered_capabilities: Vec<Symbol>,
        /// Capabilities that the peer wants the other side to use.
        desired_capabilities: Vec<Symbol>,
        /// More about it.
        properties: Option<Map>,
    }
}

composite! {
    /// Says how much may be sent: on a session, and on a link when it names one.
    Flow = 0x13 "flow" {
        /// The transfer that it waits for; absent before the other side's `begin`.
        next_incoming_id: Option<u32>,
        /// Transfers that it takes.
        incoming_window: u32,
        /// The number of its next transfer.
        next_outgoing_id: u32,
        /// Transfers that it may send without settlement.
        outgoing_window: u32,
        /// The link, if it is about one.
        handle: Option<u32>,
        /// Deliveries of the link so far, as this side counts them.
        delivery_count: Option<u32>,
        /// Deliveries that the receiver takes beyond the count.
        link_credit: Option<u32>,
        /// Deliveries that the sender has ready.
        available: Option<u32>,
        /// The sender is to use up the credit, with nothing if it has nothing.
        drain: bool,
        /// An answer is expected.
        echo: bool,
        /// More about it.
        properties: Option<Map>,
    }
}

composite! {
    /// Says what became of deliveries.
    Disposition = 0x15 "disposition" {
        /// The role of the peer that sends the disposition: receiver or sender of the deliveries.
        role: Role,
        /// The first delivery.
        first: u32,
        /// The last one; absent means the first.
        last: Option<u32>,
        /// True if the peer has settled the deliveries.
        settled: bool,
        /// The state of the deliveries.
        state: Option<DeliveryState>,
        /// True if the answer may be batched with others.
        batchable: bool,
    }
}

composite! {
    /// Ends a session.
    End = 0x17 "end" {
        /// Why, when something went wrong.
        error: Option<AmqpError>,
    }
}
