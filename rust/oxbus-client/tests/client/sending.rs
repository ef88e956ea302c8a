// SPDX-License-Identifier: Apache-2.0
//! Sends: one, many, batches, limits, refusals.

use std::time::Duration;

use oxbus_client::{BatchBuilder, Client, ClientErrorKind, ClientOptions, EncodedMessage, block_on};
use oxbus_model::message::{Body, Fields, MessageId};
use oxbus_model::{Effect, ErrorKind, SequenceNumber};

use super::proxy::{Failure, Proxy};
use super::server::{Server, bodies, error, message, of_session, receive, receiver, send, soon};

#[test]
fn many_messages_go_in_one_call() {
    let server = Server::start();
    let client = server.client();
    let sender = client.sender("orders");
    // More than the credit that a server gives.
    let messages: Vec<_> = (0..2_500).map(|number| message(&number.to_string())).collect();
    let results = block_on(sender.send_each(&messages, None, soon())).expect("sends");
    assert_eq!(results.len(), 2_500);
    assert!(results.iter().all(Result::is_ok));
    let mut received = bodies(&receive(&receiver(&client, "orders"), 2_500));
    received.sort_by_key(|body| body.parse::<u32>().expect("a number"));
    assert!(
        received
            .iter()
            .enumerate()
            .all(|(index, body)| *body == index.to_string())
    );
}

#[test]
fn one_try_may_have_a_time() {
    let server = Server::start();
    let proxy = Proxy::new(&server, Failure::Silence);
    let client = Client::new(ClientOptions {
        try_timeout: Some(Duration::from_secs(1)),
        ..proxy.options(&server)
    })
    .expect("valid settings");
    let sender = client.sender("orders");
    send(&sender, "arrives");
    proxy.after(0);
    let late = error(block_on(sender.send(&message("does not"), None, soon())));
    assert_eq!(late.broker_kind(), Some(ErrorKind::Timeout));
    assert_eq!(late.effect(), Some(Effect::Unknown));
    let asked = error(block_on(
        client
            .management("orders")
            .cancel_scheduled(&[SequenceNumber(1)], soon()),
    ));
    assert_eq!(asked.broker_kind(), Some(ErrorKind::Timeout));
    proxy.end();
}

#[test]
fn a_batch_is_one_delivery_and_many_messages() {
    let server = Server::start();
    let client = server.client();
    let sender = client.sender("orders");
    let limits = block_on(sender.limits(soon())).expect("limits");
    let mut batch = BatchBuilder::new(limits.batch);
    for number in 0..100 {
        assert!(batch.push(&message(&number.to_string())).expect("a message"));
    }
    assert_eq!(batch.len(), 100);
    block_on(sender.send(&batch.finish(), None, soon())).expect("sends");
    assert_eq!(server.active("orders"), 100);
}

#[test]
fn a_batch_is_limited() {
    let mut batch = BatchBuilder::new(200);
    assert!(batch.is_empty());
    assert!(batch.push(&message("one")).expect("a message"));
    let size = batch.size();
    assert!(!batch.push(&message(&"x".repeat(200))).expect("a message"));
    assert_eq!((batch.len(), batch.size()), (1, size), "it is unchanged");
    let finished = batch.finish();
    assert_eq!(finished.bytes().len(), size);
    let failed = error(BatchBuilder::new(1_000).push(&finished));
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::InvalidArgument));
}

#[test]
fn large_messages_are_split_into_frames() {
    let server = Server::start();
    let client = server.client();
    let large = "x".repeat(200_000);
    block_on(client.sender("orders").send(&message_without_id(&large), None, soon())).expect("sends");
    assert_eq!(bodies(&receive(&receiver(&client, "orders"), 1)), [large]);
}

fn message_without_id(body: &str) -> EncodedMessage {
    EncodedMessage::from_fields(&Fields {
        body: Body::Data(body.as_bytes()),
        ..Fields::default()
    })
}

#[test]
fn what_the_server_refuses_has_no_effect() {
    let server = Server::start();
    let client = server.client();
    let sender = client.sender("sessions");
    let results = block_on(sender.send_each(
        &[
            of_session("good", Some("a")),
            message("without a session"),
            of_session("good too", Some("b")),
        ],
        None,
        soon(),
    ));
    let results = results.expect("sends");
    assert!(results[0].is_ok() && results[2].is_ok());
    let failed = results[1].as_ref().expect_err("a session is missing");
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::InvalidOperation));
    assert_eq!(failed.effect(), Some(Effect::None));
    assert_eq!(failed.condition(), Some("amqp:not-allowed"));
    assert_eq!(server.active("sessions"), 2);
}

#[test]
fn a_message_larger_than_the_limit_is_refused_here() {
    let server = Server::start();
    let client = server.client();
    let sender = client.sender("orders");
    let limit = block_on(sender.limits(soon())).expect("limits").message;
    let size = usize::try_from(limit).expect("a size") + 1;
    let failed = error(block_on(sender.send(
        &EncodedMessage::from_sections(vec![0; size].into()),
        None,
        soon(),
    )));
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::MessageSizeExceeded));
    assert_eq!(failed.effect(), Some(Effect::None));
}

#[test]
fn fields_survive_the_way() {
    let server = Server::start();
    let client = server.client();
    let fields = Fields {
        body: Body::Data(b"body"),
        message_id: Some(MessageId::Given("id")),
        subject: Some("subject"),
        correlation_id: Some("correlation"),
        content_type: Some("text/plain"),
        to: Some("to"),
        reply_to: Some("reply-to"),
        reply_to_session_id: Some("reply-session"),
        time_to_live_ms: Some(90 * 86_400_000),
        ..Fields::default()
    };
    block_on(
        client
            .sender("orders")
            .send(&EncodedMessage::from_fields(&fields), None, soon()),
    )
    .expect("sends");
    let received = receive(&receiver(&client, "orders"), 1);
    let read = received[0].read(|found, metadata| {
        assert_eq!(found.body, fields.body);
        assert_eq!(found.message_id, fields.message_id);
        assert_eq!(
            (found.subject, found.correlation_id, found.content_type),
            (fields.subject, fields.correlation_id, fields.content_type)
        );
        assert_eq!(
            (found.to, found.reply_to, found.reply_to_session_id),
            (fields.to, fields.reply_to, fields.reply_to_session_id)
        );
        assert_eq!(found.time_to_live_ms, fields.time_to_live_ms);
        assert_eq!(metadata.delivery_count, 0);
        assert!(metadata.lock_token.is_some() && metadata.locked_until > Some(metadata.enqueued_at));
        assert!(metadata.number.0 > 0 || metadata.enqueued_at.0 > 0);
        Ok(())
    });
    read.expect("a well-formed message");
}

#[test]
fn threads_share_a_sender() {
    let server = Server::start();
    let client = server.client();
    let sender = client.sender("orders");
    std::thread::scope(|scope| {
        for thread in 0..5 {
            let sender = &sender;
            scope.spawn(move || {
                for number in 0..40 {
                    super::server::send(sender, &format!("{thread}-{number}"));
                }
            });
        }
    });
    assert_eq!(server.active("orders"), 200);
}
