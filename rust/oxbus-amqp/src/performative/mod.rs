// SPDX-License-Identifier: Apache-2.0
//! Performatives and frames (AMQP 1.0, part 2, 2.7; part 4; part 5, 5.3.3).
//!
//! All types are encoded with all fields and a one-byte descriptor, because common clients read fields by position.

mod connection;
mod delivery_state;
mod error;
mod frame;
mod link;
mod sasl;
mod session;
mod terminus;
mod transaction;
mod transfer;

pub use connection::{Close, Open};
pub use delivery_state::{DeliveryState, Modified};
pub use error::{AmqpError, condition};
pub use frame::{
    AmqpFrameHeader, Frame, FrameKind, Performative, SaslFrame, put_empty_frame, put_frame, put_sasl_frame,
};
pub(crate) use frame::{begin_frame, end_frame};
pub use link::{Attach, Detach, ReceiverSettleMode, Role, SenderSettleMode};
pub use sasl::{PlainCredentials, SaslCode, SaslInit, SaslMechanisms, SaslOutcome, mechanism};
pub use session::{Begin, Disposition, End, Flow};
pub use terminus::{Coordinator, Source, Target, Terminus};
pub use transaction::{Declare, Discharge, TransactionRequest};
pub use transfer::{Transfer, TransferHeader, put_transfer};
