// SPDX-License-Identifier: Apache-2.0
//! `PUT`, `DELETE` and `POST /{entity}/messages/{id or number}/{lock token}`: unlock, complete, renew (B-445 … B-448).

use hyper::StatusCode;
use oxbus_broker::Receiver;
use oxbus_broker::client::{SettleKey, Settlement};
use oxbus_broker::entity::Entity;
use oxbus_model::message::Fields;
use oxbus_model::{Error, ErrorKind, Result as ModelResult};
use oxbus_store::Wait;

use super::broker_properties::{shown_id, token};
use super::client::Client;
use super::empty;
use crate::http::Answer;
use crate::http::refusal::{Area, Refusal};
use crate::http::route::Held;
use crate::work::on_thread;

/// What becomes of the lock.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wish {
    Unlock,
    Complete,
    Renew,
}

pub(super) async fn settle(client: &Client, entity: String, held: Held, wish: Wish) -> Result<Answer, Refusal> {
    let (context, kept) = (client.context.clone(), client.kept.clone());
    let settled = on_thread(move |wait| {
        // A token opens with any receiver of its entity, so another connection may have received the message.
        let receiver = kept.receiver(context.namespace(), &entity)?;
        let at = found(&receiver, &held, wait)?;
        match wish {
            Wish::Unlock => receiver.settle(at, Settlement::Abandon(&[]), wait),
            Wish::Complete => receiver.settle(at, Settlement::Complete, wait),
            Wish::Renew => receiver.renew(at, wait).map(drop),
        }
    });
    settled.await.map_err(|error| Refusal::of(Area::Messages, &error))?;
    Ok(empty(StatusCode::OK))
}

/// The hold of the token, if its message has that id or that number.
fn found(receiver: &Receiver, held: &Held, wait: &Wait<'_>) -> ModelResult<SettleKey> {
    let nothing = || {
        let detail = format!(
            "no message is locked like that; use the Location of the answer that locked it, unchanged: message=`{}` \
             lock token=`{}`",
            held.reference, held.token
        );
        Error::new(ErrorKind::MessageNotFound, detail)
    };
    let at = token(&held.token)
        .and_then(|token| receiver.open_token(token))
        .ok_or_else(nothing)?;
    let number = Entity::sequence_number(at.index, at.key.counter);
    if held.reference == number.to_string() {
        return Ok(at);
    }
    // Older clients build the path from the message id.
    let browsed = receiver.browse(1, Some(number), wait)?;
    let has_id = browsed.iter().any(|browsed| {
        let message = &browsed.message;
        let fields = message
            .record
            .in_memory()
            .and_then(|record| Fields::decode(record).ok());
        let id = fields.and_then(|fields| fields.message_id).map(shown_id);
        Entity::sequence_number(browsed.index, message.counter) == number && id.as_ref() == Some(&held.reference)
    });
    if has_id { Ok(at) } else { Err(nothing()) }
}
