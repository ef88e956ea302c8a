// SPDX-License-Identifier: Apache-2.0
//! Settlements: each kind, lists, lost locks, lost links.

use bytes::Bytes;
use oxbus_amqp::codec::Map;
use oxbus_client::{ClientErrorKind, Received, Receiver, SettleHandle, Settlement, block_on};
use oxbus_model::{ErrorKind, SequenceNumber};

use super::server::{Server, bodies, none, receive, receiver, send, soon};

pub(super) fn settle(
    receiver: &Receiver,
    received: &[Received],
    settlement: &Settlement,
) -> Vec<oxbus_client::Result<()>> {
    let handles: Vec<_> = received.iter().map(Received::handle).collect();
    block_on(receiver.settle(&handles, settlement, None, soon())).expect("answers")
}

fn dead_letter() -> Settlement {
    Settlement::DeadLetter {
        reason: Some("broken".to_owned()),
        description: Some("no total".to_owned()),
        changes: Map::new(),
    }
}

#[test]
fn a_list_is_completed_at_once() {
    let server = Server::start();
    let client = server.client();
    let sender = client.sender("orders");
    for number in 0..100 {
        send(&sender, &number.to_string());
    }
    let receiver = receiver(&client, "orders");
    let received = receive(&receiver, 100);
    assert!(
        settle(&receiver, &received, &Settlement::Complete)
            .iter()
            .all(Result::is_ok)
    );
    assert_eq!(server.active("orders"), 0);
}

#[test]
fn an_abandoned_message_comes_back_with_its_changes() {
    let server = Server::start();
    let client = server.client();
    send(&client.sender("orders"), "one");
    let receiver = receiver(&client, "orders");
    let received = receive(&receiver, 1);
    let mut changes = Map::new();
    changes.push("tried", "once");
    assert!(settle(&receiver, &received, &Settlement::Abandon { changes, delay_ms: 0 })[0].is_ok());
    let again = receive(&receiver, 1);
    let read = again[0].read(|fields, metadata| {
        let tried = fields.application_properties.and_then(|properties| {
            properties
                .entries()
                .find(|(name, _)| *name == "tried")
                .map(|(_, value)| format!("{value:?}"))
        });
        Ok((metadata.delivery_count, tried))
    });
    let (count, tried) = read.expect("well-formed");
    assert_eq!(count, 1);
    assert!(tried.expect("the change").contains("once"));
}

#[test]
fn a_dead_letter_carries_its_reason() {
    let server = Server::start();
    let client = server.client();
    send(&client.sender("orders"), "bad");
    let orders = receiver(&client, "orders");
    let received = receive(&orders, 1);
    assert!(settle(&orders, &received, &dead_letter())[0].is_ok());
    none(&orders);
    let dead = receiver(&client, "orders/$DeadLetterQueue");
    let found = receive(&dead, 1);
    assert_eq!(bodies(&found), ["bad"]);
    let reason = found[0].read(|fields, _| {
        let properties = fields.application_properties.expect("properties");
        let entries: Vec<_> = properties
            .entries()
            .map(|(name, value)| format!("{name}={value:?}"))
            .collect();
        Ok(entries.concat())
    });
    let reason = reason.expect("well-formed");
    assert!(
        reason.contains("DeadLetterReason") && reason.contains("broken") && reason.contains("no total"),
        "{reason}"
    );
}

#[test]
fn a_deferred_message_is_received_by_its_number() {
    let server = Server::start();
    let client = server.client();
    send(&client.sender("orders"), "later");
    let receiver = receiver(&client, "orders");
    let received = receive(&receiver, 1);
    let number = received[0]
        .read(|_, metadata| Ok(metadata.number))
        .expect("well-formed");
    let defer = Settlement::Defer { changes: Map::new() };
    assert!(settle(&receiver, &received, &defer)[0].is_ok());
    none(&receiver);
    let deferred = block_on(async {
        let management = receiver.management().await?;
        management
            .receive_deferred(&[number], oxbus_model::options::ReceiveMode::PeekLock, soon())
            .await
    });
    let deferred = deferred.expect("receives");
    assert_eq!(deferred.len(), 1);
    deferred[0]
        .read(|fields, metadata| {
            assert_eq!((&*fields.body.data(), metadata.number), (&b"later"[..], number));
            Ok(())
        })
        .expect("well-formed");
    let completed = block_on(receiver.settle(&[deferred[0].handle], &Settlement::Complete, None, soon()));
    assert!(completed.expect("answers")[0].is_ok(), "by its token, over $management");
    assert_eq!(server.active("orders"), 0);
}

#[test]
fn a_message_is_settled_once() {
    let server = Server::start();
    let client = server.client();
    send(&client.sender("orders"), "one");
    let receiver = receiver(&client, "orders");
    let received = receive(&receiver, 1);
    assert!(settle(&receiver, &received, &Settlement::Complete)[0].is_ok());
    let again = settle(&receiver, &received, &dead_letter());
    let failed = again[0].as_ref().expect_err("it is gone");
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::MessageLockLost));
}

#[test]
fn a_closed_receiver_settles_nothing_but_another_one_does_by_token() {
    let server = Server::start();
    let client = server.client();
    send(&client.sender("orders"), "one");
    let first = receiver(&client, "orders");
    let received = receive(&first, 1);
    block_on(async {
        first.close(soon()).await;
        Ok(())
    })
    .expect("closes");
    let handles = [received[0].handle()];
    let failed = block_on(first.settle(&handles, &Settlement::Complete, None, soon())).expect_err("it is closed");
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::Closed));
    let token = received[0].handle().lock_token().expect("a lock");
    let second = receiver(&client, "orders");
    let done = block_on(second.settle(&[SettleHandle::of_token(token)], &Settlement::Complete, None, soon()));
    assert!(done.expect("answers")[0].is_ok());
    assert_eq!(server.active("orders"), 0);
}

#[test]
fn locks_are_renewed_by_token() {
    let server = Server::start();
    let client = server.client();
    send(&client.sender("orders"), "one");
    let receiver = receiver(&client, "orders");
    let received = receive(&receiver, 1);
    let (token, until) = received[0]
        .read(|_, metadata| {
            Ok((
                metadata.lock_token.expect("a lock"),
                metadata.locked_until.expect("an end"),
            ))
        })
        .expect("well-formed");
    let renewed = block_on(async { receiver.management().await?.renew_locks(&[token], soon()).await });
    assert!(renewed.expect("renews")[0] >= until);
}

#[test]
fn peeked_messages_stay() {
    let server = Server::start();
    let client = server.client();
    let sender = client.sender("orders");
    for text in ["1", "2", "3"] {
        send(&sender, text);
    }
    let management = client.management("orders");
    let peeked: Vec<Bytes> = block_on(management.peek(SequenceNumber(0), 2, soon())).expect("peeks");
    assert_eq!(peeked.len(), 2);
    assert_eq!(server.active("orders"), 3);
    let beyond = block_on(management.peek(SequenceNumber(1_000), 2, soon())).expect("peeks");
    assert!(beyond.is_empty());
}
