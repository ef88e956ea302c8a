// SPDX-License-Identifier: Apache-2.0
//! What the senders and receivers of a client share: its connection, opened at first use and again when it is lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oxbus_model::ErrorKind;

use crate::connection::{Connection, RequestLink, RequestNode};
use crate::deadline::Deadline;
use crate::error::{ClientError, Result};
use crate::options::ClientOptions;
use crate::retry::Retries;
use crate::runtime;
use crate::transport::{TlsConfig, tls_config};

/// The state that senders and receivers share.
pub(crate) struct SharedClient {
    options: Arc<ClientOptions>,
    tls: Option<TlsConfig>,
    current: tokio::sync::Mutex<Current>,
    is_closed: AtomicBool,
}

/// The connection, and the links of requests over it.
#[derive(Default)]
struct Current {
    connection: Option<Arc<Connection>>,
    managements: HashMap<String, Arc<RequestLink>>,
}

impl SharedClient {
    /// The state of a client that has not connected.
    pub(crate) fn new(options: ClientOptions) -> Result<Self> {
        options.check()?;
        runtime::handle()?;
        let tls = options
            .tls
            .then(|| tls_config(options.ca_file.as_deref()))
            .transpose()?;
        Ok(Self {
            options: Arc::new(options),
            tls,
            current: tokio::sync::Mutex::default(),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Closes the connection, and refuses further calls.
    pub(crate) async fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let current = std::mem::take(&mut *self.current.lock().await);
        if let Some(connection) = current.connection {
            connection.close();
        }
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// The end of one try of a call.
    pub(crate) fn one_try(&self, deadline: Deadline) -> Deadline {
        deadline.min(Deadline::after(self.options.try_timeout))
    }

    /// The connection, opened if need be.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>> {
        runtime::handle()?;
        if self.is_closed.load(Ordering::Acquire) {
            return Err(ClientError::broker(
                ErrorKind::Closed,
                "the client was closed; make a new one",
            ));
        }
        let mut current = self.current.lock().await;
        if let Some(connection) = current.connection.as_ref().filter(|connection| connection.is_alive()) {
            return Ok(Arc::clone(connection));
        }
        *current = Current::default();
        let opened = Box::pin(Connection::open(Arc::clone(&self.options), self.tls.clone())).await?;
        current.connection = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// The connection, with a token for an entity.
    pub(crate) async fn authorized(&self, path: &str) -> Result<Arc<Connection>> {
        let connection = self.connection().await?;
        connection.authorize(path).await?;
        Ok(connection)
    }

    /// The links to the management of an entity, on a connection.
    pub(crate) async fn management_on(&self, connection: &Arc<Connection>, path: &str) -> Result<Arc<RequestLink>> {
        {
            let current = self.current.lock().await;
            let is_same = current
                .connection
                .as_ref()
                .is_some_and(|current| Arc::ptr_eq(current, connection));
            if let Some(found) = current
                .managements
                .get(path)
                .filter(|link| is_same && link.ended().is_none())
            {
                return Ok(Arc::clone(found));
            }
        }
        connection.authorize(path).await?;
        let address = format!("{path}/$management");
        let opened = Arc::new(RequestLink::open(connection, RequestNode::Management, &address).await?);
        let mut current = self.current.lock().await;
        if current
            .connection
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, connection))
        {
            current.managements.insert(path.to_owned(), Arc::clone(&opened));
        }
        Ok(opened)
    }

    /// Decides whether a call on an entity is tried again, and waits before it.
    pub(crate) async fn again(&self, retries: &mut Retries, error: &ClientError, path: &str) -> bool {
        if !retries.takes_new_token(error) {
            return retries.wait(error).await;
        }
        if let Some(connection) = &self.current.lock().await.connection {
            connection.forget_token(path).await;
        }
        true
    }

    /// Repeats a call within its deadline while the retry options allow it.
    pub(crate) async fn retry<T, F: Future<Output = Result<T>>>(
        &self,
        deadline: Deadline,
        what: &str,
        call: impl FnMut() -> F,
    ) -> Result<T> {
        deadline.within(what, self.options.retry.run(deadline, call)).await
    }
}

impl Drop for SharedClient {
    fn drop(&mut self) {
        if let Some(connection) = &self.current.get_mut().connection {
            connection.close();
        }
    }
}
