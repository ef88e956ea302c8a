// SPDX-License-Identifier: Apache-2.0
//! Transactions through the coordinator of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use oxbus_amqp::client::LinkRequest;
use oxbus_amqp::codec::{AmqpValue, Field, Symbol, code};
use oxbus_amqp::message::{MESSAGE_FORMAT_DEFAULT, section};
use oxbus_amqp::performative::{Coordinator, Declare, DeliveryState, Discharge, Source, Target};
use oxbus_model::{Effect, ErrorKind};

use crate::connection::{Connection, LinkHandle, SendResult, Transfer};
use crate::deadline::Deadline;
use crate::error::{ClientError, Result};
use crate::kind::ClientErrorKind;
use crate::outcome;
use crate::shared::SharedClient;

/// A transaction. The server rolls it back when it is dropped, or when the connection breaks.
pub struct Transaction {
    /// The coordinator's link belongs to this transaction: it ends with it.
    link: LinkHandle,
    id: Bytes,
    is_over: AtomicBool,
}

impl Transaction {
    pub(crate) async fn declare(client: Arc<SharedClient>, deadline: Deadline) -> Result<Self> {
        client
            .retry(deadline, "beginning a transaction", || Self::try_declare(&client))
            .await
    }

    async fn try_declare(client: &Arc<SharedClient>) -> Result<Self> {
        let connection = client.connection().await?;
        let name = connection.link_name("coordinator");
        let request = LinkRequest {
            target: Target::Coordinator(Coordinator {
                capabilities: vec![Symbol::from_static("amqp:local-transactions")],
            }),
            ..LinkRequest::sender(name.clone(), Source::of(name), Target::of(""))
        };
        let (link, _) = connection.attach(request).await?;
        let declare = Declare {
            global_id: AmqpValue::Null,
        };
        match coordinate(&link, &declare).await? {
            Some(DeliveryState::Declared { transaction_id }) => Ok(Self {
                link,
                id: transaction_id,
                is_over: AtomicBool::new(false),
            }),
            other => Err(unexpected(other.as_ref())),
        }
    }

    /// The state of messages and settlements of the transaction.
    pub(crate) fn state(&self, outcome: Option<DeliveryState>) -> DeliveryState {
        DeliveryState::Transactional {
            transaction_id: self.id.clone(),
            outcome: outcome.map(Box::new),
        }
    }

    /// Rejects work for a transaction that has ended.
    pub(crate) fn check_alive(&self) -> Result<()> {
        if self.is_over.load(Ordering::Acquire) {
            let detail = "Transaction hasn't been declared yet, or has already been discharged. Begin another one.";
            return Err(ClientError::broker(ErrorKind::TransactionOver, detail));
        }
        if self.link.ended().is_some() {
            return Err(broken());
        }
        Ok(())
    }

    /// Rejects work on another connection than the transaction's.
    pub(crate) fn check_connection(&self, connection: &Arc<Connection>) -> Result<()> {
        if Arc::ptr_eq(connection, self.link.connection()) {
            Ok(())
        } else {
            Err(broken())
        }
    }

    /// Makes the work of the transaction effective, all of it or nothing.
    pub async fn commit(&self, deadline: Deadline) -> Result<()> {
        self.discharge(false, deadline).await
    }

    /// Undoes the work of the transaction.
    pub async fn rollback(&self, deadline: Deadline) -> Result<()> {
        self.discharge(true, deadline).await
    }

    async fn discharge(&self, fail: bool, deadline: Deadline) -> Result<()> {
        self.check_alive()?;
        self.is_over.store(true, Ordering::Release);
        let discharge = Discharge {
            txn_id: self.id.clone(),
            fail,
        };
        let answer = deadline.limit(coordinate(&self.link, &discharge)).await;
        let answer = answer.unwrap_or_else(|| {
            let detail = "ending the transaction took longer than the call allows; it may still happen";
            Err(ClientError::broker(ErrorKind::Timeout, detail).with_effect(Effect::Unknown))
        });
        match answer {
            Ok(Some(DeliveryState::Accepted) | None) => Ok(()),
            Ok(other) => Err(unexpected(other.as_ref())),
            // The request has not left, and the server rolls back what is left of a connection.
            Err(error) if error.is_lost() && error.effect() != Some(Effect::Unknown) => Err(broken()),
            Err(error) => Err(error),
        }
    }
}

/// Sends a request to the coordinator. Returns its answer.
async fn coordinate(link: &LinkHandle, request: &impl Field) -> Result<Option<DeliveryState>> {
    let mut message = BytesMut::new();
    message.extend_from_slice(&[code::DESCRIBED, code::ULONG_SMALL, section::VALUE]);
    request.encode(&mut message);
    let message = message.freeze();
    let transfer = Transfer {
        format: MESSAGE_FORMAT_DEFAULT,
        message: &message,
        state: None,
    };
    match link.send(&[transfer]).await?.pop() {
        Some(SendResult::Outcome(Some(DeliveryState::Rejected(error)))) => {
            outcome::of_send(SendResult::Outcome(Some(DeliveryState::Rejected(error)))).map(|()| None)
        }
        Some(SendResult::Outcome(state)) => Ok(state),
        Some(SendResult::Lost(error)) => Err(error),
        None => Ok(None),
    }
}

fn broken() -> ClientError {
    let detail = "the connection of the transaction is lost, and the server has rolled it back; begin another one";
    ClientError::broker(ErrorKind::TransactionOver, detail).with_effect(Effect::None)
}

fn unexpected(state: Option<&DeliveryState>) -> ClientError {
    let detail =
        format!("the coordinator gives an unexpected answer; the server may not support transactions: {state:?}");
    ClientError::new(ClientErrorKind::Service, detail)
}
