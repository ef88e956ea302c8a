// SPDX-License-Identifier: Apache-2.0
//! Where the entities of a handle are: in this process, or on a server. Each handle has one implementation of its
//! Python class, which calls one of these.

use oxbus_broker::client::{Acceptor, Transaction};
use oxbus_broker::{Namespace, Receiver, Sender};

use crate::remote::{RemoteAcceptor, RemoteNamespace, RemoteReceiver, RemoteSender, RemoteTransaction};

/// The namespace of a handle.
#[derive(Clone)]
pub(crate) enum NamespaceTransport {
    Local(Namespace),
    Remote(RemoteNamespace),
}

impl NamespaceTransport {
    /// True for the namespace of a server.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Self::Remote(_))
    }
}

/// What a `ServiceBusSender` sends to.
pub(crate) enum SenderTransport {
    Local(Sender),
    Remote(RemoteSender),
}

/// What a `ServiceBusReceiver` receives from.
pub(crate) enum ReceiverTransport {
    Local(Receiver),
    Remote(RemoteReceiver),
}

/// What accepts the session of a `ServiceBusReceiver`.
pub(crate) enum AcceptorTransport {
    Local(Acceptor),
    Remote(RemoteAcceptor),
}

/// What a `Transaction` commits.
pub(crate) enum TransactionTransport {
    Local(Transaction),
    Remote(RemoteTransaction),
}
