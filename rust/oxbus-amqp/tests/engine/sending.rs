// SPDX-License-Identifier: Apache-2.0
//! Messages to the client: credit, drain, windows, frames.

use bytes::{Bytes, BytesMut};
use oxbus_amqp::EngineEvent;
use oxbus_amqp::codec::Tag;
use oxbus_amqp::engine::{LinkId, OutgoingDelivery, SendError};
use oxbus_amqp::performative::{Begin, Flow, Open, Performative, Transfer};

use super::client::{CHANNEL, Client, begin, detach, link_flow, open, session_flow};

const TAG: [u8; 16] = *b"sixteen bytes ok";

fn send(client: &mut Client, link: LinkId, message: &[u8]) -> Result<(), SendError> {
    let tag = Tag::from(TAG);
    let (head, rest) = message.split_at(message.len() / 2);
    let outgoing = OutgoingDelivery {
        tag: Some(&tag),
        message_format: 0,
        settled: false,
        parts: &[head, b"", rest],
    };
    client.engine.send(link, &outgoing).map(|_| ())
}

fn transfers(client: &mut Client) -> Vec<(Transfer, Bytes)> {
    let transfer = |(_, performative, payload)| match performative {
        Performative::Transfer(transfer) => (transfer, payload),
        other => panic!("{other:?}"),
    };
    client.frames().into_iter().map(transfer).collect()
}

/// A common client matches outcomes by id alone, and counts its own deliveries from zero.
#[test]
fn delivery_ids_start_above_those_of_clients() {
    let (mut client, _) = Client::open();
    let link = client.receiver(3);
    client.credit(3, 10);
    send(&mut client, link, b"one").expect("credit");
    send(&mut client, link, b"two").expect("credit");
    let output = client.take_output();
    let one = b"\0\0\0\x32\x02\0\0\x01\0\x53\x14\xc0\x22\x0b\x52\x03\x70\0\x10\0\0\xa0\x10sixteen bytes ok\x43\x42\x42\x40\x40\x42\x42\x42one";
    assert_eq!(&output[..one.len()], &one[..]);
    assert_eq!(&output[one.len() + 18..one.len() + 21], b"\x10\0\x01");
    assert_eq!(client.engine.credit(link), 8);
}

#[test]
fn credit_is_absolute() {
    let (mut client, _) = Client::open();
    let link = client.receiver(0);
    assert_eq!(send(&mut client, link, b""), Err(SendError::NoCredit));
    client.credit(0, 3);
    send(&mut client, link, b"").expect("credit");
    assert_eq!(client.engine.sendable(link), 2);
    // Sent before the message arrived: a credit of 3 from 0, of which one is used.
    client.say(CHANNEL, &link_flow(0, 0, 3));
    assert_eq!(client.events(), [], "nothing is new");
    client.say(CHANNEL, &link_flow(0, 1, 5));
    assert_eq!(
        client.event(),
        EngineEvent::Credit {
            link,
            credit: 5,
            drain: false
        }
    );
    // Lowered below the number of sent messages.
    client.say(CHANNEL, &link_flow(0, 0, 0));
    assert_eq!(
        client.event(),
        EngineEvent::Credit {
            link,
            credit: 0,
            drain: false
        }
    );
    assert_eq!(send(&mut client, link, b""), Err(SendError::NoCredit));
}

#[test]
fn the_application_answers_a_drain() {
    let (mut client, _) = Client::open();
    let link = client.receiver(0);
    let drain = Flow {
        drain: true,
        echo: true,
        ..link_flow(0, 0, 10)
    };
    client.say(CHANNEL, &drain);
    assert_eq!(
        client.event(),
        EngineEvent::Credit {
            link,
            credit: 10,
            drain: true
        }
    );
    assert!(client.take_output().is_empty());
    send(&mut client, link, b"last").expect("credit");
    assert_eq!(transfers(&mut client).len(), 1);
    client.engine.drained(link);
    let Performative::Flow(flow) = client.frame() else {
        panic!("a flow");
    };
    assert_eq!(
        (flow.handle, flow.delivery_count, flow.link_credit, flow.drain),
        (Some(0), Some(10), Some(0), true)
    );
    client.engine.drained(link);
    assert!(client.take_output().is_empty(), "answered once");
    assert_eq!(client.engine.credit(link), 0);
    let nothing = Flow {
        drain: true,
        ..link_flow(0, 10, 0)
    };
    client.say(CHANNEL, &nothing);
    assert_eq!(
        client.event(),
        EngineEvent::Credit {
            link,
            credit: 0,
            drain: true
        }
    );
    client.engine.drained(link);
    assert!(matches!(client.frame(), Performative::Flow(flow) if flow.delivery_count == Some(10)));
}

#[test]
fn large_message_is_split_at_the_frame_size_of_the_client() {
    let small = Open {
        max_frame_size: Some(512),
        ..open()
    };
    let (mut client, _) = Client::open_with(&small, &begin());
    let link = client.receiver(0);
    client.credit(0, 10);
    let message: Vec<u8> = (0..10_000_u32).map(|byte| byte as u8).collect();
    send(&mut client, link, &message).expect("credit");
    let output = client.take_output();
    let mut sizes = Vec::new();
    let mut at = 0;
    while at < output.len() {
        sizes.push(u32::from_be_bytes(output[at..at + 4].try_into().expect("four bytes")) as usize);
        at += sizes.last().expect("a size");
    }
    assert!(sizes[..sizes.len() - 1].iter().all(|size| *size == 512), "{sizes:?}");
    let frames = super::client::frames(output);
    let mut whole = BytesMut::new();
    for (place, (_, performative, payload)) in frames.iter().enumerate() {
        let Performative::Transfer(transfer) = performative else {
            panic!("a transfer");
        };
        assert_eq!(transfer.more, place + 1 < frames.len());
        assert_eq!(transfer.delivery_id, (place == 0).then_some(1 << 20));
        assert_eq!(transfer.delivery_tag.is_some(), place == 0);
        whole.extend_from_slice(payload);
    }
    assert_eq!(whole, message);
}

/// Messages around the frame size: no frame is too long, none is unnecessary.
#[test]
fn message_that_just_fits_a_frame_is_one_frame() {
    let small = Open {
        max_frame_size: Some(512),
        ..open()
    };
    let (mut client, _) = Client::open_with(&small, &begin());
    let link = client.receiver(0);
    client.credit(0, 1_000);
    for length in 440..520 {
        send(&mut client, link, &vec![7; length]).expect("credit");
        let sent = transfers(&mut client);
        assert_eq!(sent.iter().map(|(_, payload)| payload.len()).sum::<usize>(), length);
        let head = 46;
        assert_eq!(sent.len(), if length <= 512 - head { 1 } else { 2 }, "{length}");
    }
}

#[test]
fn a_message_respects_the_session_window() {
    let small = Open {
        max_frame_size: Some(512),
        ..open()
    };
    let shut = Begin {
        incoming_window: 2,
        ..begin()
    };
    let (mut client, _) = Client::open_with(&small, &shut);
    let link = client.receiver(0);
    let other = client.receiver(1);
    for handle in [0, 1] {
        let credit = Flow {
            incoming_window: 2,
            ..link_flow(handle, 0, 10)
        };
        client.say(CHANNEL, &credit);
        client.events();
    }
    send(&mut client, link, &[7; 2_000]).expect("credit");
    assert_eq!(transfers(&mut client).len(), 2);
    assert_eq!(client.engine.sendable(other), 0);
    assert_eq!(send(&mut client, other, b""), Err(SendError::NoWindow));
    // Transfers 1 and 2 are sent; the window allows two more.
    client.say(CHANNEL, &session_flow(3, 2));
    assert_eq!(client.events(), []);
    assert_eq!(transfers(&mut client).len(), 2);
    client.say(CHANNEL, &session_flow(5, 10));
    let links: Vec<_> = client
        .events()
        .into_iter()
        .map(|event| {
            if let EngineEvent::Credit { link, .. } = event {
                link
            } else {
                panic!("{event:?}")
            }
        })
        .collect();
    assert_eq!(links, [link, other], "links that can send again are emitted");
    let sent = transfers(&mut client);
    assert_eq!(sent.last().map(|(transfer, _)| transfer.more), Some(false));
    send(&mut client, other, b"").expect("room");
    let sent = transfers(&mut client);
    assert_eq!(sent[0].0.delivery_id, Some((1 << 20) + 1), "numbers have no gaps");
}

#[test]
fn a_detach_drops_the_rest_of_a_message() {
    let small = Open {
        max_frame_size: Some(512),
        ..open()
    };
    let shut = Begin {
        incoming_window: 1,
        ..begin()
    };
    let (mut client, _) = Client::open_with(&small, &shut);
    let link = client.receiver(0);
    let credit = Flow {
        incoming_window: 1,
        ..link_flow(0, 0, 10)
    };
    client.say(CHANNEL, &credit);
    client.events();
    send(&mut client, link, &[7; 2_000]).expect("credit");
    client.say(CHANNEL, &detach(0));
    client.events();
    client.engine.detach(link, None);
    client.take_output();
    client.say(CHANNEL, &session_flow(2, 100));
    client.events();
    assert!(client.take_output().is_empty());
}
