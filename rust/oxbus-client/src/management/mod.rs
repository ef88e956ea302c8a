// SPDX-License-Identifier: Apache-2.0
//! `$management`: requests about an entity, and about the session of a receiver.

mod messages;
mod rules;
mod sessions;

use std::sync::Arc;

use oxbus_amqp::codec::{AmqpValue, Array, Map};
use oxbus_amqp::performative::DeliveryState;

pub use self::messages::DeferredMessage;
use crate::connection::properties;
use crate::deadline::Deadline;
use crate::error::Result;
use crate::shared::SharedClient;
use crate::transaction::Transaction;

/// The management of an entity.
pub struct Management {
    client: Arc<SharedClient>,
    path: String,
    /// The session of the receiver whose management this is.
    session: Option<String>,
    /// The link of that receiver.
    link: Option<String>,
}

/// Arguments of a request. Keys are strings, as servers expect.
struct Arguments(Map);

impl Arguments {
    fn new() -> Self {
        Self(Map::new())
    }

    fn with(mut self, key: &str, value: impl Into<AmqpValue>) -> Self {
        self.0.push(AmqpValue::from(key), value);
        self
    }
}

/// An array of values of one type.
fn array(items: impl IntoIterator<Item = AmqpValue>) -> AmqpValue {
    Array::new(items.into_iter().collect())
        .expect("all items have the same type")
        .into()
}

impl Management {
    pub(crate) fn new(client: Arc<SharedClient>, path: String, session: Option<String>, link: Option<String>) -> Self {
        Self {
            client,
            path,
            session,
            link,
        }
    }

    /// Arguments, with the session if there is one.
    fn arguments(&self) -> Arguments {
        match &self.session {
            Some(session) => Arguments::new().with("session-id", session.as_str()),
            None => Arguments::new(),
        }
    }

    /// Sends a request that may be repeated. Returns the body of the reply, or `None` if there is nothing.
    async fn ask(&self, operation: &'static str, arguments: Arguments, deadline: Deadline) -> Result<Option<Map>> {
        let body = AmqpValue::from(arguments.0);
        let asked = self.client.retry(deadline, operation, || {
            let one_try = self.client.one_try(deadline);
            one_try.within(operation, Box::pin(self.request(operation, &body, deadline, None)))
        });
        asked.await
    }

    /// Sends a request once.
    async fn tell(
        &self,
        operation: &'static str,
        arguments: Arguments,
        transaction: Option<&Transaction>,
        deadline: Deadline,
    ) -> Result<Option<Map>> {
        let body = AmqpValue::from(arguments.0);
        let told = Box::pin(self.request(operation, &body, deadline, transaction));
        self.client.one_try(deadline).within(operation, told).await
    }

    async fn request(
        &self,
        operation: &'static str,
        body: &AmqpValue,
        deadline: Deadline,
        transaction: Option<&Transaction>,
    ) -> Result<Option<Map>> {
        let connection = self.client.connection().await?;
        if let Some(transaction) = transaction {
            transaction.check_alive()?;
            transaction.check_connection(&connection)?;
        }
        let link = self.client.management_on(&connection, &self.path).await?;
        let mut about = properties(&[
            ("operation", format!("com.microsoft:{operation}").into()),
            ("type", "entity-mgmt".into()),
        ]);
        if let Some(left) = deadline.left() {
            let ms = u32::try_from(left.as_millis()).unwrap_or(u32::MAX);
            about.push(AmqpValue::from("com.microsoft:server-timeout"), ms);
        }
        if let Some(link) = &self.link {
            about.push(AmqpValue::from("associated-link-name"), link.as_str());
        }
        let state: Option<DeliveryState> = transaction.map(|transaction| transaction.state(None));
        link.request(&about, body, state.as_ref()).await?.into_body()
    }
}
