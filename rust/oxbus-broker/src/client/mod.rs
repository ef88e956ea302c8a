// SPDX-License-Identifier: Apache-2.0
//! Handles of a program: a sender, a receiver with its cache.

mod admission;
mod attempts;
mod batch;
mod browse;
mod deferred;
mod fan_in;
mod receiver;
mod sender;
mod settlement;
mod wake;

pub use batch::Batch;
pub use browse::Browsed;
pub use receiver::{Deliveries, Delivery, Received, Receiver, ReceiverOptions};
pub use sender::{Row, Sender};
pub use settlement::{SettleKey, Settlement};
pub use wake::WakeTicket;
