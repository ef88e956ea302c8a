// SPDX-License-Identifier: Apache-2.0
//! Requests to a node of the server, and their replies, over a pair of links.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use oxbus_amqp::client::{LinkRequest, ReceivedDelivery};
use oxbus_amqp::codec::{AmqpValue, Field, Map, Reader};
use oxbus_amqp::message::{
    AmqpMessageId, MESSAGE_FORMAT_DEFAULT, Properties, Sections, put_application_properties, put_value_body, read_map,
    read_value_body,
};
use oxbus_amqp::performative::{DeliveryState, ReceiverSettleMode, SenderSettleMode, Source, Target};
use oxbus_model::Effect;

use super::results::SendResult;
use super::send::Transfer;
use super::{Connection, LinkHandle};
use crate::condition::{kind_of, kind_of_status};
use crate::error::{ClientError, Result};
use crate::kind::ClientErrorKind;

/// Replies that may be on their way.
const REPLY_CREDIT: u32 = 100;

/// A node that answers requests, and the spelling of its replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestNode {
    /// Tokens.
    Cbs,
    /// The management of an entity.
    Management,
}

/// A reply.
#[derive(Debug)]
pub(crate) struct Reply {
    /// As in HTTP.
    pub(crate) status: i64,
    /// The text for people.
    pub(crate) description: String,
    condition: Option<String>,
    /// The body, null without one.
    pub(crate) body: AmqpValue,
}

/// A pair of links to a node.
pub(crate) struct RequestLink {
    node: RequestNode,
    reply_to: String,
    requests: LinkHandle,
    replies: LinkHandle,
    next_id: AtomicU64,
}

impl RequestLink {
    /// Attaches the links.
    pub(crate) async fn open(connection: &Arc<Connection>, node: RequestNode, address: &str) -> Result<Self> {
        let reply_to = connection.link_name("reply");
        let name = connection.link_name("request");
        let requests = LinkRequest::sender(name.clone(), Source::of(name), Target::of(address.to_owned()));
        let replies = LinkRequest {
            snd_settle_mode: SenderSettleMode::Settled,
            rcv_settle_mode: ReceiverSettleMode::First,
            credit: REPLY_CREDIT,
            ..LinkRequest::receiver(
                reply_to.clone(),
                Source::of(address.to_owned()),
                Target::of(reply_to.clone()),
            )
        };
        let (requests, replies) = tokio::try_join!(connection.attach(requests), connection.attach(replies))?;
        Ok(Self {
            node,
            reply_to,
            requests: requests.0,
            replies: replies.0,
            next_id: AtomicU64::new(0),
        })
    }

    /// Why the links ended, if one has.
    pub(crate) fn ended(&self) -> Option<ClientError> {
        self.requests.ended().or_else(|| self.replies.ended())
    }

    /// Sends a request, and waits for its reply.
    pub(crate) async fn request(
        &self,
        properties: &Map,
        body: &AmqpValue,
        transaction: Option<&DeliveryState>,
    ) -> Result<Reply> {
        let id = format!("{}:{}", self.reply_to, self.next_id.fetch_add(1, Ordering::Relaxed));
        let message = self.message(&id, properties, body);
        let transfer = Transfer {
            format: MESSAGE_FORMAT_DEFAULT,
            message: &message,
            state: transaction,
        };
        let mut sent = self.requests.send(&[transfer]).await?;
        match sent.pop() {
            Some(SendResult::Outcome(Some(DeliveryState::Rejected(Some(error))))) => {
                return Err(ClientError::of_server(&error));
            }
            Some(SendResult::Lost(error)) => return Err(error),
            _ => {}
        }
        // From here on the server may have done it.
        let unknown = |error: ClientError| error.with_effect(Effect::Unknown);
        let received = self.replies.take_one(|received| is_reply_to(received, &id)).await;
        let received = received.map_err(unknown)?;
        let (credit, _) = self.replies.credit_and_queued();
        if credit <= REPLY_CREDIT / 2 {
            self.replies.set_credit(REPLY_CREDIT);
        }
        self.read(&received.message).map_err(unknown)
    }

    fn message(&self, id: &str, application: &Map, body: &AmqpValue) -> Bytes {
        let mut out = BytesMut::new();
        Properties {
            message_id: Some(id.into()),
            reply_to: Some(self.reply_to.as_str().into()),
            ..Properties::NONE
        }
        .encode(&mut out);
        put_application_properties(&mut out, application);
        put_value_body(&mut out, body);
        out.freeze()
    }

    fn read(&self, message: &Bytes) -> Result<Reply> {
        let malformed = |error: oxbus_amqp::codec::DecodeError| {
            ClientError::new(
                ClientErrorKind::Service,
                format!("the server's reply is malformed: {error}"),
            )
        };
        let sections = Sections::scan(message).map_err(malformed)?;
        let properties = read_map(message, &sections.application_properties).map_err(malformed)?;
        let (status, description, condition) = match self.node {
            RequestNode::Cbs => ("status-code", "status-description", "error-condition"),
            RequestNode::Management => ("statusCode", "statusDescription", "errorCondition"),
        };
        let text = |key: &str| properties.get(key).and_then(AmqpValue::as_text).map(str::to_owned);
        let status = properties
            .get(status)
            .and_then(AmqpValue::as_i64)
            .ok_or_else(|| ClientError::new(ClientErrorKind::Service, format!("the server's reply lacks {status}")))?;
        Ok(Reply {
            status,
            description: text(description).unwrap_or_default(),
            condition: text(condition),
            body: read_value_body(message, &sections).unwrap_or(AmqpValue::Null),
        })
    }
}

fn is_reply_to(received: &ReceivedDelivery, id: &str) -> bool {
    let correlation = || {
        let sections = Sections::scan(&received.message).ok()?;
        let range = sections.properties;
        let properties = Properties::decode(&mut Reader::within(&received.message, range.start, range.end)).ok()?;
        properties.correlation_id
    };
    matches!(correlation(), Some(AmqpMessageId::String(text)) if &*text == id)
}

impl Reply {
    /// The body of a success. `None` if the reply says that there is nothing.
    pub(crate) fn into_body(self) -> Result<Option<Map>> {
        match (self.status, &self.body) {
            (200 | 202, AmqpValue::Map(_)) => match self.body {
                AmqpValue::Map(body) => Ok(Some(body)),
                _ => Ok(None),
            },
            (200..=299, _) => Ok(None),
            _ => Err(self.into_error()),
        }
    }

    /// The error of a reply that is no success.
    pub(crate) fn into_error(self) -> ClientError {
        let kind = match &self.condition {
            Some(condition) => kind_of(condition),
            None => kind_of_status(self.status),
        };
        let detail = if self.description.is_empty() {
            format!("the server refused the request: status=`{}`", self.status)
        } else {
            self.description
        };
        let error = ClientError::new(kind, detail).with_effect(Effect::None);
        match &self.condition {
            Some(condition) => error.with_condition(condition),
            None => error,
        }
    }
}

/// The value under a key of a reply.
pub(crate) fn required<'a>(body: &'a Map, key: &str) -> Result<&'a AmqpValue> {
    body.get(key).ok_or_else(|| lacks(key))
}

/// The error of a reply that lacks a value.
pub(crate) fn lacks(key: &str) -> ClientError {
    let detail = format!("the server's reply lacks a value or has one of a wrong type: `{key}`");
    ClientError::new(ClientErrorKind::Service, detail).with_effect(Effect::Unknown)
}

/// The application properties of a request.
pub(crate) fn properties(pairs: &[(&'static str, AmqpValue)]) -> Map {
    // Servers look for strings, not for symbols.
    pairs
        .iter()
        .map(|(key, value)| (AmqpValue::from(*key), value.clone()))
        .collect()
}
