// SPDX-License-Identifier: Apache-2.0
//! An application that answers everything at once, and sends as much as it may.

use bytes::{Bytes, BytesMut};
use oxbus_amqp::codec::Tag;
use oxbus_amqp::engine::{Accept, Outgoing, Settings};
use oxbus_amqp::performative::{DeliveryState, Fault, Role, SaslCode};
use oxbus_amqp::{Engine, Event};

/// Messages that one change of credit makes it send.
const BURST: u32 = 8;

/// Drives an engine with the bytes of a client, piece by piece: the events, what it wrote, and whether all was said.
#[allow(unreachable_pub, reason = "fuzz targets use it too")]
pub fn run(pieces: impl IntoIterator<Item = Bytes>, settings: Settings) -> (Vec<String>, Bytes, bool) {
    let mut engine = Engine::new(settings, 0);
    let mut events = Vec::new();
    let mut written = BytesMut::new();
    for piece in pieces {
        engine.input().extend_from_slice(&piece);
        loop {
            while let Some(event) = engine.next_event(0) {
                events.push(format!("{event:?}"));
                answer(&mut engine, event);
                // As often as can be, so that where frames end does not depend on where the input is cut.
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

fn answer(engine: &mut Engine, event: Event) {
    match event {
        Event::SaslInit(_) => engine.sasl_outcome(SaslCode::Ok),
        Event::Attach(request) => match Accept::as_asked(&request.attach) {
            Some(accept) => {
                let credit = if request.attach.role == Role::Sender { 100 } else { 0 };
                // A link that has gone meanwhile is told of by its own event.
                let _ = engine.accept(request.link, Accept { credit, ..accept });
            }
            None => engine.detach(
                request.link,
                Some(Fault::new("amqp:invalid-field", "an end is missing")),
            ),
        },
        Event::Credit { link, drain, .. } => {
            for number in 0..engine.sendable(link).min(BURST) {
                let tag = Tag::from([number as u8; 16]);
                let outgoing = Outgoing {
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
        Event::Incoming(incoming) => {
            if let Some(id) = incoming.id {
                engine.answer(id, DeliveryState::Accepted);
            }
        }
        Event::Settle(settle) => {
            if !settle.settled {
                engine.settle(settle.delivery, settle.state.unwrap_or(DeliveryState::Released));
            }
        }
        Event::Detach { link, .. } => engine.detach(link, None),
        Event::End { session, .. } => engine.end(session, None),
        Event::Close { .. } => engine.close(None, 0),
        Event::Open(_)
        | Event::Begin { .. }
        | Event::LinkLost { .. }
        | Event::SessionLost { .. }
        | Event::Failed(_) => {}
    }
}
