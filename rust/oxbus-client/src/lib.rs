// SPDX-License-Identifier: Apache-2.0
//! A client of Service Bus servers: of `oxbus serve`, of the emulator, of the service.
//!
//! ```text
//! Client            one connection, opened at first use and again when it is lost
//!   .sender(path)           → Sender     send, send_each, limits
//!   .receiver(path, …)      → Receiver   receive, settle, peek, receive_deferred, renew_locks, close
//!   .accept_session(path, …)→ Receiver   as above, and session: state, renewal
//!   .management(path)       → Management schedule, cancel, list_sessions, rules, delete_messages
//!   .transaction()          → Transaction commit, rollback; sends and settlements take it
//!   .close()
//! ```
//!
//! Each call is a future. [`block_on`] waits for it on the caller's thread, which reads and writes the sockets of all
//! clients meanwhile; an event loop polls it inside [`enter`], and holds a [`Polled`] meanwhile. One thread of the
//! process, started at first use, does this work when no call blocks. Messages are encoded and decoded on the threads of
//! the callers.
//!
//! A call takes a [`Deadline`]. A call that fails without an effect because the connection or the link is lost, or
//! because the server is busy, is tried again as [`RetryOptions`] say. Otherwise its error tells the effect:
//! [`oxbus_model::Effect::Unknown`] for a message whose bytes had left when the connection broke. A lost link is attached
//! again by the next call, with its credit. Settlements whose link is lost go over `$management` with the lock token.
//!
//! Messages are AMQP sections in one piece of bytes. `oxbus_amqp::record` converts them to and from the model's fields.
//!
//! The modules, from the bottom: `transport` (byte streams), `connection` (the engine behind a lock, tokens, requests),
//! `shared` (the connection of a client), `transaction`, `management`, `sender`, `receiver`, `client`.

mod block_on;
mod client;
mod closing;
mod condition;
mod connection;
mod credential;
mod deadline;
mod error;
mod kind;
mod link_slot;
mod management;
mod message;
mod options;
mod outcome;
mod receiver;
mod retry;
mod runtime;
mod sender;
mod session;
mod settle;
mod shared;
mod transaction;
mod transport;

pub use block_on::{block_on, block_on_until};
pub use client::Client;
pub use closing::Closing;
pub use credential::{AccessToken, Credential, TOKEN_SCOPE, TokenFunction};
pub use deadline::Deadline;
pub use error::{ClientError, Result};
pub use kind::ClientErrorKind;
pub use management::{DeferredMessage, Management};
pub use message::{BatchBuilder, EncodedMessage, Received, SettleHandle};
pub use options::{ClientOptions, Proxy, TransportKind};
pub use receiver::{Receiver, ReceiverOptions};
pub use retry::{RetryMode, RetryOptions};
pub use runtime::{Polled, enter, polled};
pub use sender::{SendLimits, Sender};
pub use session::{Session, SessionChoice};
pub use settle::Settlement;
pub use transaction::Transaction;
