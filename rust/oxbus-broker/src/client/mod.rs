// SPDX-License-Identifier: Apache-2.0
//! Handles of a program: a sender, a receiver with its cache.

mod acceptor;
mod attach;
mod batch;
mod browse;
mod commit;
mod deferred;
mod duplicates;
mod fan_in;
mod message_errors;
mod partitioner;
mod receiver;
mod record_deliveries;
mod reservations;
mod sender;
mod session;
mod settle_list;
mod settlement;
mod transaction;
mod wait;

pub use acceptor::{Acceptor, SessionSelector};
pub(crate) use attach::{attach_committed, is_attached};
pub use batch::Batch;
pub use browse::BrowsedMessage;
pub use partitioner::{KeylessPolicy, KeylessRoundRobin, PartitionedSend, Partitioner, RejectedMessage};
pub use receiver::{Deliveries, Delivery, Receiver, ReceiverOptions};
pub use reservations::{ReadPage, Reservations};
pub use sender::Sender;
pub use settle_list::PartialSettlement;
pub use settlement::{SettleKey, Settlement};
pub use transaction::{ScheduledNumbers, Transaction};
pub use wait::{PendingWait, WaitOptions, WaitPlace, WaitSource, WaitStep, step};

pub use crate::entity::reservation::{
    Acquired, Completed, PartitionPlan, Plan, ReservationInfo, Standing, Start, Wish,
};
