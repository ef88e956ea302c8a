// SPDX-License-Identifier: Apache-2.0
//! The namespace of a server.

use oxbus_client::{Client, Closing, ReceiverOptions, SessionChoice};
use oxbus_model::name::SubQueue;
use oxbus_model::options::LockPolicy;
use oxbus_model::{Error, ErrorKind, Timestamp};
use pyo3::prelude::*;

use super::call;
use super::error::raise;
use super::options::RemoteOptions;
use super::receiver::{RemoteAcceptor, RemoteReceiver};
use super::sender::RemoteSender;
use super::transaction::RemoteTransaction;

/// The connection to a server, of which handles are made.
#[derive(Clone)]
pub(crate) struct RemoteNamespace {
    client: Client,
}

impl RemoteNamespace {
    /// The namespace of a server. It connects at the first call.
    pub(crate) fn new(options: RemoteOptions) -> PyResult<Self> {
        let client = Client::new(options.build()?).map_err(|error| raise(&error))?;
        Ok(Self { client })
    }

    pub(crate) fn sender(&self, path: &str) -> RemoteSender {
        RemoteSender::new(self.client.clone(), path)
    }

    pub(crate) fn receiver(
        &self,
        path: &str,
        options: oxbus_broker::ReceiverOptions,
        owner: &str,
    ) -> oxbus_model::Result<RemoteReceiver> {
        let receiver = self
            .client
            .receiver(of_sub_queue(path, options), of_client(options, owner)?);
        Ok(RemoteReceiver::new(receiver, options.mode))
    }

    pub(crate) fn acceptor(
        &self,
        path: &str,
        selector: oxbus_broker::client::SessionSelector,
        options: oxbus_broker::ReceiverOptions,
        owner: &str,
    ) -> oxbus_model::Result<RemoteAcceptor> {
        use oxbus_broker::client::SessionSelector;
        Ok(RemoteAcceptor {
            client: self.client.clone(),
            path: of_sub_queue(path, options),
            options: of_client(options, owner)?,
            closing: Closing::default(),
            choice: match selector {
                SessionSelector::Id(id) => SessionChoice::Id(id),
                SessionSelector::Next => SessionChoice::Next,
            },
        })
    }

    pub(crate) fn transaction(&self, py: Python<'_>, cross_entity: bool) -> PyResult<RemoteTransaction> {
        RemoteTransaction::begin(py, &self.client, cross_entity)
    }

    /// The ids of the sessions of an entity: all, or those whose state was set after a time.
    pub(crate) fn session_ids(
        &self,
        py: Python<'_>,
        path: &str,
        updated_since: Option<Timestamp>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<String>> {
        let deadline = call::deadline("timeout", timeout)?;
        call::run(py, self.client.management(path).list_sessions(updated_since, deadline))
    }

    pub(crate) fn now(&self) -> Timestamp {
        call::now()
    }

    /// Closes the connection.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        call::run(py, async {
            self.client.close().await;
            Ok(())
        })
    }
}

/// The path of a queue or of one of its sub-queues.
fn of_sub_queue(path: &str, options: oxbus_broker::ReceiverOptions) -> String {
    match (options.sub_queue, options.transfer) {
        (_, true) => format!("{path}/$Transfer/$DeadLetterQueue"),
        (SubQueue::DeadLetter, false) => format!("{path}/$DeadLetterQueue"),
        (SubQueue::Main, false) => path.to_owned(),
    }
}

/// The options of a receiver, as far as servers have them.
fn of_client(options: oxbus_broker::ReceiverOptions, owner: &str) -> oxbus_model::Result<ReceiverOptions> {
    let only_local = |what: &str| {
        let detail = format!("{what} works only on a namespace of this process; leave it out");
        Err(Error::new(ErrorKind::NotSupported, detail))
    };
    if options.partition.is_some() {
        return only_local("partition_id");
    }
    if options.lock_policy == Some(LockPolicy::Fresh) {
        return only_local("lock_policy=\"fresh\"");
    }
    Ok(ReceiverOptions {
        mode: options.mode,
        prefetch: u32::try_from(options.prefetch).unwrap_or(u32::MAX),
        name: Some(owner.to_owned()),
    })
}
