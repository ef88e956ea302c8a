// SPDX-License-Identifier: Apache-2.0
//! What both halves of a connection have in common: frames, session windows, link credit, assembly of messages,
//! dispositions, idle timeouts. `engine` builds the server half on it, `client` the client half.

mod activity;
mod assembly;
mod credit;
mod deliveries;
mod dispositions;
mod id;
mod input;
mod peer;
mod transfers;
mod window;

pub(crate) use activity::ActivityTimes;
pub(crate) use assembly::{Assembly, DeliveryHead, message_size_max};
pub(crate) use credit::LinkCredit;
pub(crate) use deliveries::{DeliveryRange, DeliveryTable};
pub(crate) use dispositions::{DispositionBuffer, is_outcome, put_settled};
pub use id::{DeliveryId, IncomingId, LinkId, SessionId};
pub(crate) use input::{AMQP_HEADER, ProtocolError, SASL_HEADER, split_frame};
pub(crate) use peer::PeerLimits;
pub use transfers::SendError;
pub(crate) use window::SessionWindow;
