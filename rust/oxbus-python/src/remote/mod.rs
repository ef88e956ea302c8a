// SPDX-License-Identifier: Apache-2.0
//! The transport to a server: what the handles of a client call when its namespace is in another process.
//!
//! `namespace` holds the connection, from which `sender`, `receiver` and `transaction` come. Each call is a future of
//! `oxbus_client`, for which `call` waits detached from the interpreter. Messages are decoded there too, into the
//! records that messages of this process have (`message`).

mod call;
mod error;
mod message;
mod namespace;
mod options;
mod receiver;
mod rows;
mod sender;
mod session;
mod settle;
mod transaction;
mod wait;

pub(crate) use self::message::{RemoteHandle, RemoteMessage};
pub(crate) use self::namespace::RemoteNamespace;
pub(crate) use self::options::RemoteOptions;
pub(crate) use self::receiver::{RemoteAcceptor, RemoteReceiver};
pub(crate) use self::rows::{Rows, RowsSent};
pub(crate) use self::sender::{RemoteBatch, RemoteSender};
pub(crate) use self::settle::SettledList;
pub(crate) use self::transaction::RemoteTransaction;
pub(crate) use self::wait::RemoteWait;
