// SPDX-License-Identifier: Apache-2.0
//! A client of a namespace, from which senders, receivers and transactions come.

use std::sync::Arc;

use crate::deadline::Deadline;
use crate::error::Result;
use crate::management::Management;
use crate::options::ClientOptions;
use crate::receiver::{Receiver, ReceiverOptions};
use crate::sender::Sender;
use crate::session::SessionChoice;
use crate::shared::SharedClient;
use crate::transaction::Transaction;

/// A client of one namespace. Threads may share it. A forked child needs a new one.
#[derive(Clone)]
pub struct Client(Arc<SharedClient>);

impl Client {
    /// A client, without connecting.
    pub fn new(options: ClientOptions) -> Result<Self> {
        Ok(Self(Arc::new(SharedClient::new(options)?)))
    }

    /// A sender to a queue or topic. It attaches its link at first use.
    pub fn sender(&self, path: impl Into<String>) -> Sender {
        Sender::new(Arc::clone(&self.0), path.into())
    }

    /// A receiver of a queue or subscription, or of a sub-queue. It attaches its link at first use.
    pub fn receiver(&self, path: impl Into<String>, options: ReceiverOptions) -> Receiver {
        Receiver::new(Arc::clone(&self.0), path.into(), options)
    }

    /// Accepts a session, and returns its receiver. Waits until a session is available, or until the deadline.
    pub async fn accept_session(
        &self,
        path: impl Into<String>,
        choice: SessionChoice,
        options: ReceiverOptions,
        deadline: Deadline,
    ) -> Result<Receiver> {
        Receiver::accept(Arc::clone(&self.0), path.into(), choice, options, deadline).await
    }

    /// The management of a queue, topic or subscription.
    pub fn management(&self, path: impl Into<String>) -> Management {
        Management::new(Arc::clone(&self.0), path.into(), None, None)
    }

    /// Begins a transaction. It is rolled back unless it is committed.
    pub async fn transaction(&self, deadline: Deadline) -> Result<Transaction> {
        Transaction::declare(Arc::clone(&self.0), deadline).await
    }

    /// Opens the connection, and checks the credential for an entity. Calls do it by themselves.
    pub async fn connect(&self, path: &str, deadline: Deadline) -> Result<()> {
        let client = &self.0;
        client
            .retry(deadline, "connecting", || async {
                client.authorized(path).await.map(drop)
            })
            .await
    }

    /// Closes the connection. Calls on its senders and receivers fail from now on.
    pub async fn close(&self) {
        self.0.close().await;
    }
}
