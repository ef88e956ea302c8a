// SPDX-License-Identifier: Apache-2.0
//! Handles that programs use: senders, receivers, session acceptors, transactions and reservations.

mod acceptor;
mod attach;
mod batch;
mod browse;
mod browse_page;
mod commit;
mod deferred;
mod delivery_journal;
mod duplicates;
mod fan_in;
mod numbered_error;
mod partitioner;
mod receiver;
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
pub use browse::BrowseItem;
pub use partitioner::{Keyless, KeylessMessages, KeylessRotation, Partitioner, RefusedMessage, SendSummary};
pub use receiver::{Deliveries, Delivery, Receiver, ReceiverOptions};
pub use reservations::{ReadPage, Reservations, ReservedSession, SessionPage, SessionStates};
pub use sender::Sender;
pub use settle_list::SettleListError;
pub use settlement::{SettleKey, Settlement};
pub use transaction::{PendingNumbers, Transaction};
pub use wait::{Looks, WaitOptions, WaitQueueRef, WaitRegistration, WaitSource, WaitStep, step};

pub use crate::entity::reservation::{
    AcquiredConsumer, Completion, PartitionPlan, ReservationInfo, ReservationPlan, ReservationStatus, ReserveOptions,
    StartPosition,
};
