// SPDX-License-Identifier: Apache-2.0
//! A caller of the client half that attaches a link in each direction, sends as much as it may, and settles every
//! message.

use bytes::{Bytes, BytesMut};
use oxbus_amqp::client::{ClientSettings, LinkRequest, OutgoingMessage};
use oxbus_amqp::performative::{DeliveryState, Role, Source, Target};
use oxbus_amqp::{ClientEngine, ClientEvent};

/// Maximum messages that it sends per credit event.
const BURST: u32 = 4;
/// Credit that it gives.
const CREDIT: u32 = 10;

/// The link that it sends on.
pub fn sender() -> LinkRequest {
    LinkRequest::sender("sender", Source::of("here"), Target::of("queue"))
}

/// The link that it receives from.
pub fn receiver() -> LinkRequest {
    LinkRequest {
        credit: CREDIT,
        ..LinkRequest::receiver("receiver", Source::of("queue"), Target::of("here"))
    }
}

/// Drives a client with chunks of input, whose end is the end of the connection; returns the events, the output, and
/// whether the connection has ended.
pub fn run(pieces: impl IntoIterator<Item = Bytes>, settings: ClientSettings) -> (Vec<String>, Bytes, bool) {
    let mut client = ClientEngine::new(settings, 0);
    let session = client.begin().expect("a new connection");
    for request in [sender(), receiver()] {
        client.attach(session, request).expect("a new session");
    }
    let mut events = Vec::new();
    let mut written = BytesMut::new();
    for piece in pieces {
        client.input().extend_from_slice(&piece);
        take(&mut client, &mut events, &mut written);
    }
    client.disconnected();
    take(&mut client, &mut events, &mut written);
    let is_finished = client.is_finished();
    (events, written.freeze(), is_finished)
}

fn take(client: &mut ClientEngine, events: &mut Vec<String>, written: &mut BytesMut) {
    while let Some(event) = client.next_event(0) {
        events.push(format!("{event:?}"));
        answer(client, event);
        // Flushes after each event, so that the frames do not depend on how the input is split.
        client.flush(0);
        written.unsplit(client.output().split());
    }
    client.flush(0);
    written.unsplit(client.output().split());
}

fn answer(client: &mut ClientEngine, event: ClientEvent) {
    match event {
        ClientEvent::Credit { link, drain, .. } => {
            for _ in 0..client.sendable(link).min(BURST) {
                let message = OutgoingMessage {
                    message_format: 0,
                    settled: false,
                    state: None,
                    parts: &[b"head", &[7; 700]],
                };
                if client.send(link, &message).is_err() {
                    break;
                }
            }
            if drain {
                client.drained(link);
            }
        }
        ClientEvent::Received(received) => {
            if let Some(id) = received.id {
                // A message of a link that the server has detached cannot be settled.
                let _ = client.settle(id, DeliveryState::Accepted, false);
            }
            if client.credit(received.link) == 0 {
                client.set_credit(received.link, CREDIT);
            }
        }
        ClientEvent::Attached { link, attach } if attach.role == Role::Receiver => {
            let session = link.session();
            // The server may allow no further link.
            let _ = client.attach(
                session,
                LinkRequest {
                    credit: 0,
                    ..receiver()
                },
            );
        }
        ClientEvent::Settled(_)
        | ClientEvent::Outcome(_)
        | ClientEvent::Attached { .. }
        | ClientEvent::Open(_)
        | ClientEvent::Begun { .. }
        | ClientEvent::Drained { .. }
        | ClientEvent::Detached { .. }
        | ClientEvent::LinkFailed { .. }
        | ClientEvent::Ended { .. }
        | ClientEvent::SessionFailed { .. }
        | ClientEvent::Closed { .. }
        | ClientEvent::Failed(_)
        | ClientEvent::Disconnected => {}
    }
}
