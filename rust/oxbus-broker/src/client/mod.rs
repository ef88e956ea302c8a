// SPDX-License-Identifier: Apache-2.0
//! Handles of a program: a sender, a receiver with its cache.

mod acceptor;
mod attach;
mod attempts;
mod batch;
mod browse;
mod commit;
mod deferred;
mod duplicates;
mod fan_in;
mod named;
mod partitioner;
mod receiver;
mod reservations;
mod sender;
mod session;
mod settle_list;
mod settlement;
mod transaction;
mod wait;

pub use acceptor::{Acceptor, Wanted};
pub(crate) use attach::{attach_committed, is_attached};
pub use batch::Batch;
pub use browse::Browsed;
pub use partitioner::{Keyless, KeylessTurn, Partitioner, Refused, Stored};
pub use receiver::{Deliveries, Delivery, Receiver, ReceiverOptions};
pub use reservations::{ReadPage, Reservations};
pub use sender::Sender;
pub use settle_list::Unsettled;
pub use settlement::{SettleKey, Settlement};
pub use transaction::{Numbers, Transaction};
pub use wait::{Step, WaitOptions, WaitPlace, WaitSource, Waiting, step};

pub use crate::entity::reservation::{
    Acquired, Completed, PartitionPlan, Plan, ReservationInfo, Standing, Start, Wish,
};
