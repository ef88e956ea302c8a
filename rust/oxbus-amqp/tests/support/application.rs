// SPDX-License-Identifier: Apache-2.0
//! An application that answers every event at once, and sends as much as it may.

use bytes::{Bytes, BytesMut};
use oxbus_amqp::codec::Tag;
use oxbus_amqp::engine::{AttachResponse, EngineSettings, OutgoingDelivery};
use oxbus_amqp::performative::{AmqpError, DeliveryState, Role, SaslCode};
use oxbus_amqp::{Engine, EngineEvent};

/// Maximum messages that it sends per credit event.
const BURST: u32 = 8;

/// Drives an engine with chunks of input; returns the events, the output, and whether the connection has ended.
pub fn run(pieces: impl IntoIterator<Item = Bytes>, settings: EngineSettings) -> (Vec<String>, Bytes, bool) {
    let mut engine = Engine::new(settings, 0);
    let mut events = Vec::new();
    let mut written = BytesMut::new();
    for piece in pieces {
        engine.input().extend_from_slice(&piece);
        loop {
            while let Some(event) = engine.next_event(0) {
                events.push(format!("{event:?}"));
                answer(&mut engine, event);
                // Flushes after each event, so that the frames do not depend on how the input is split.
                engine.flush(0);
            }
            if engine.output().is_empty() {
                break;
            }
            written.unsplit(engine.output().split());
        }
    }
    let is_finished = engine.is_finished();
    (events, written.freeze(), is_finished)
}

fn answer(engine: &mut Engine, event: EngineEvent) {
    match event {
        EngineEvent::SaslInit(_) => engine.sasl_outcome(SaslCode::Ok),
        EngineEvent::Attach(request) => match AttachResponse::as_requested(&request.attach) {
            Some(accept) => {
                let credit = if request.attach.role == Role::Sender { 100 } else { 0 };
                // A link that was detached has its own event.
                let _ = engine.accept(request.link, AttachResponse { credit, ..accept });
            }
            None => engine.detach(
                request.link,
                Some(AmqpError::new("amqp:invalid-field", "an end is missing")),
            ),
        },
        EngineEvent::Credit { link, drain, .. } => {
            for number in 0..engine.sendable(link).min(BURST) {
                let tag = Tag::from([number as u8; 16]);
                let outgoing = OutgoingDelivery {
                    tag: Some(&tag),
                    message_format: 0,
                    settled: false,
                    parts: &[b"head", &[7; 700]],
                };
                if engine.send(link, &outgoing).is_err() {
                    break;
                }
            }
            if drain {
                engine.drained(link);
            }
        }
        EngineEvent::Incoming(incoming) => {
            if let Some(id) = incoming.id {
                engine.answer(id, DeliveryState::Accepted);
            }
        }
        EngineEvent::Disposition(settle) => {
            if !settle.settled {
                engine.settle(settle.delivery, settle.state.unwrap_or(DeliveryState::Released));
            }
        }
        EngineEvent::Detach { link, .. } => engine.detach(link, None),
        EngineEvent::End { session, .. } => engine.end(session, None),
        EngineEvent::Close { .. } => engine.close(None, 0),
        EngineEvent::Open(_)
        | EngineEvent::Begin { .. }
        | EngineEvent::LinkFailed { .. }
        | EngineEvent::SessionFailed { .. }
        | EngineEvent::Failed(_) => {}
    }
}
