// SPDX-License-Identifier: Apache-2.0
//! Requests to `$cbs` and `$management`, and their replies.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use oxbus_amqp::codec::{AmqpValue, Field, Map, Reader, Symbol};
use oxbus_amqp::engine::SessionId;
use oxbus_amqp::message::{
    AmqpMessageId, Properties, Sections, put_application_properties, put_value_body, read_map, read_value_body,
};
use oxbus_model::{Error, ErrorKind, Result};

use super::fault;
use super::node::EntityAddress;
use super::state::ConnectionState;
use super::transactions::Coordinator;
use crate::front::Context;
use crate::sas::AccessDenied;

/// A request that arrived over a link.
pub(super) struct AmqpRequest {
    pub(super) context: Context,
    /// The entity whose management is addressed, and `None` for `$cbs`.
    pub(super) address: Option<EntityAddress>,
    /// The state of the connection.
    pub(super) state: Arc<ConnectionState>,
    pub(super) message: Bytes,
    pub(super) sections: Sections,
    /// The transaction id and the session of the request, if it is part of one (B-328).
    pub(super) transaction: Option<(Bytes, SessionId)>,
    pub(super) coordinator: Arc<Coordinator>,
}

/// A reply.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: i32,
    pub(super) description: String,
    pub(super) condition: Option<&'static str>,
    pub(super) body: AmqpValue,
}

/// The spelling of the keys of a reply (B-415).
#[derive(Debug, Clone, Copy)]
pub(super) enum ReplyKeys {
    /// `status-code`.
    Cbs,
    /// `statusCode`.
    Management,
}

impl AmqpRequest {
    /// The application properties.
    pub(super) fn properties(&self) -> Result<Map> {
        read_map(&self.message, &self.sections.application_properties).map_err(malformed_request)
    }

    /// The value of the body, and `None` if it is not an AMQP value.
    pub(super) fn body(&self) -> Option<AmqpValue> {
        read_value_body(&self.message, &self.sections).ok()
    }

    /// The standard properties of a request, such as its id and `reply-to`.
    pub(super) fn standard_properties(message: &Bytes, sections: &Sections) -> Properties {
        let range = &sections.properties;
        if range.is_empty() {
            return Properties::NONE;
        }
        Properties::decode(&mut Reader::within(message, range.start, range.end)).unwrap_or(Properties::NONE)
    }
}

pub(super) fn malformed_request(error: oxbus_amqp::codec::DecodeError) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("the request is not well-formed: {error}"),
    )
}

impl Reply {
    /// A successful reply with a body.
    pub(super) fn ok(body: impl Into<AmqpValue>) -> Self {
        Self {
            status: 200,
            description: "OK".to_owned(),
            condition: None,
            body: body.into(),
        }
    }

    /// The reply for a broker error.
    pub(super) fn of(error: &Error) -> Self {
        Self {
            status: fault::status(error.kind()),
            description: error.detail().to_owned(),
            condition: Some(fault::condition(error.kind())),
            body: AmqpValue::Null,
        }
    }

    /// The reply for a denied access. Logs the denied access.
    pub(super) fn access_denied(denied: &AccessDenied) -> Self {
        denied.log();
        Self {
            status: denied.status().into(),
            description: denied.detail(),
            condition: Some(denied.condition()),
            body: AmqpValue::Null,
        }
    }

    /// The reply as an encoded message.
    pub(super) fn message(self, keys: ReplyKeys, request_id: Option<AmqpMessageId>) -> Bytes {
        let mut out = BytesMut::new();
        Properties {
            correlation_id: request_id,
            ..Properties::NONE
        }
        .encode(&mut out);
        let (code, description, condition) = match keys {
            ReplyKeys::Cbs => ("status-code", "status-description", "error-condition"),
            ReplyKeys::Management => ("statusCode", "statusDescription", "errorCondition"),
        };
        let mut map = Map::new();
        map.push(code, self.status);
        map.push(description, self.description);
        if let Some(name) = self.condition {
            map.push(condition, Symbol::from(name));
        }
        put_application_properties(&mut out, &map);
        put_value_body(&mut out, &self.body);
        out.freeze()
    }
}
