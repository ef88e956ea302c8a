// SPDX-License-Identifier: Apache-2.0
//! Clients that misbehave: they send nothing, have no token, read slowly, or ask for too much. Time is paused and
//! advances only to the next timer that a task awaits.

mod attacks;
mod client;

use oxbus_store::Wait;
use std::time::Duration;

use oxbus_amqp::performative::{DeliveryState, Disposition, Performative, Role, SaslCode};
use oxbus_broker::ReceiverOptions;
use oxbus_broker::client::SettleKey;
use oxbus_model::caps::{AMQP_OUTPUT_BYTES_MAX, AMQP_REPLIES_MAX, AMQP_TAKE_MESSAGES};
use oxbus_model::message::{Body, Fields};

use client::{Client, namespace};

const BODY: &[u8] = b"\x00\x53\x75\xa0\x04body";

#[tokio::test(start_paused = true)]
async fn connection_without_a_token_is_closed_after_20_seconds() {
    // B-409: AMQP_TOKEN_MS_MAX.
    let mut client = Client::open(namespace(), false).await;
    let fault = client.closed().await;
    assert_eq!(fault.condition.as_str(), "amqp:connection:forced");
    assert!(fault.description.expect("a text").contains("20000 ms"));
}

#[tokio::test(start_paused = true)]
async fn only_cbs_is_usable_without_a_token() {
    // B-409, B-422.
    let mut client = Client::open(namespace(), false).await;
    for (handle, address) in [(0, "q"), (1, "q/$management")] {
        let fault = client
            .attach(handle, Role::Sender, address)
            .await
            .expect_err("no token");
        assert_eq!(fault.condition.as_str(), "amqp:unauthorized-access");
    }
    client.attach(2, Role::Sender, "$cbs").await.expect("always there");
}

#[tokio::test(start_paused = true)]
async fn connection_without_a_link_is_closed_after_one_or_five_minutes() {
    // B-410: AMQP_FIRST_LINK_MS_MAX, AMQP_WITHOUT_LINK_MS_MAX.
    let mut client = Client::open(namespace(), true).await;
    let text = client.closed().await.description.expect("a text");
    assert!(text.contains("more than the allowed 60000 milliseconds"), "{text}");

    let mut client = Client::open(namespace(), true).await;
    client.attach(0, Role::Sender, "missing").await.expect_err("not there");
    let text = client.closed().await.description.expect("a text");
    assert!(text.contains("more than the allowed 300000 milliseconds"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn idle_link_is_detached_after_ten_minutes() {
    // B-411: AMQP_LINK_IDLE_MS_MAX.
    let mut client = Client::open(namespace(), true).await;
    client.attach(0, Role::Sender, "q").await.expect("there");
    for _ in 0..11 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        client.heartbeat().await;
    }
    let fault = loop {
        match client.next_performative().await {
            Some(Performative::Detach(detach)) => break detach.error.expect("an error"),
            Some(_) => {}
            None => panic!("the server closed the connection"),
        }
    };
    assert_eq!(fault.condition.as_str(), "amqp:link:detach-forced");
    assert!(fault.description.expect("a text").contains("Idle timeout: 00:10:00"));
}

#[tokio::test(start_paused = true)]
async fn silent_client_is_disconnected() {
    let client = Client::new(namespace());
    client.server.await.expect("the connection ended");
}

#[tokio::test]
async fn plain_accepts_only_the_key_of_a_rule() {
    // B-408.
    let mut client = Client::new(namespace());
    let outcome = client
        .authenticate("PLAIN", b"\0RootManageSharedAccessKey\0another key")
        .await;
    assert_eq!(outcome, SaslCode::Auth);
    assert_eq!(client.next_performative().await, None);
    Client::open(namespace(), true).await;
}

#[tokio::test]
async fn accepted_message_is_stored() {
    let namespace = namespace();
    let mut client = Client::open(namespace.clone(), true).await;
    client.attach(0, Role::Sender, "amqps://any:1/Q").await.expect("there");
    client.transfer(0, 0, false, BODY).await;
    let disposition = client.disposition().await;
    assert_eq!(
        (disposition.state, disposition.settled),
        (Some(DeliveryState::Accepted), true)
    );
    assert_eq!(
        namespace.queue_counts("q", &Wait::FOREVER).expect("there").total.active,
        1
    );
}

#[tokio::test]
async fn messages_sent_before_a_disconnect_are_stored() {
    let namespace = namespace();
    let mut client = Client::open(namespace.clone(), true).await;
    client.attach(0, Role::Sender, "q").await.expect("there");
    client.transfer(0, 0, true, BODY).await;
    client.disconnect().await;
    assert_eq!(
        namespace.queue_counts("q", &Wait::FOREVER).expect("there").total.active,
        1
    );
}

#[tokio::test]
async fn broken_connection_settles_and_unlocks_nothing() {
    // B-412.
    let namespace = namespace();
    let sender = namespace.sender("q").expect("there");
    sender.send(&Fields::default(), None, &Wait::FOREVER).expect("room");
    let mut client = Client::open(namespace.clone(), true).await;
    client.attach(0, Role::Receiver, "q").await.expect("there");
    client.credit(0, 1).await;
    while !matches!(client.next_performative().await, Some(Performative::Transfer(_))) {}
    client.disconnect().await;
    let other = namespace.receiver("q", ReceiverOptions::default()).expect("there");
    assert!(other.receive_now(1, &Wait::FOREVER).expect("it receives").is_none());
    assert_eq!(
        namespace.queue_counts("q", &Wait::FOREVER).expect("there").total.active,
        1
    );
}

#[tokio::test]
async fn presettled_disposition_gets_no_answer() {
    // B-171.
    let namespace = namespace();
    let sender = namespace.sender("q").expect("there");
    sender.send(&Fields::default(), None, &Wait::FOREVER).expect("room");
    let mut client = Client::open(namespace.clone(), true).await;
    client.attach(0, Role::Receiver, "q").await.expect("there");
    client.credit(0, 1).await;
    let id = loop {
        if let Some(Performative::Transfer(transfer)) = client.next_performative().await {
            break transfer.delivery_id.expect("a first frame has one");
        }
    };
    // The second one settles a message that is already settled.
    for _ in 0..2 {
        let settled = Disposition {
            role: Role::Receiver,
            first: id,
            last: None,
            settled: true,
            state: Some(DeliveryState::Accepted),
            batchable: false,
        };
        client.send(&settled).await;
    }
    client.send_attach(1, Role::Receiver, "$cbs").await;
    loop {
        match client.next_performative().await {
            // The attach was sent after the settlements.
            Some(Performative::Attach(_)) => break,
            Some(Performative::Flow(_)) => {}
            other => panic!("an unexpected answer: {other:?}"),
        }
    }
    client.disconnect().await;
    assert_eq!(
        namespace.queue_counts("q", &Wait::FOREVER).expect("there").total.active,
        0
    );
}

#[tokio::test]
async fn connection_can_have_many_sessions() {
    // B-413.
    let mut client = Client::open(namespace(), true).await;
    for channel in 1..1_000 {
        client.begin(channel).await;
    }
}

#[tokio::test]
async fn malformed_message_is_rejected() {
    let mut client = Client::open(namespace(), true).await;
    client.attach(0, Role::Sender, "q").await.expect("there");
    client.transfer(0, 0, false, b"\x00\x53\x99\x40").await;
    let Some(DeliveryState::Rejected(Some(fault))) = client.disposition().await.state else {
        panic!("not rejected");
    };
    assert_eq!(fault.condition.as_str(), "com.microsoft:argument-error");
}

#[tokio::test]
async fn unread_replies_are_limited() {
    // AMQP_REPLIES_MAX.
    let mut client = Client::open(namespace(), true).await;
    client.attach(0, Role::Sender, "$cbs").await.expect("there");
    client.attach(1, Role::Receiver, "$cbs").await.expect("there");
    let requests = u32::try_from(AMQP_REPLIES_MAX).expect("small") + 50;
    for id in 0..requests {
        client.transfer(0, id, false, BODY).await;
        assert_eq!(client.disposition().await.state, Some(DeliveryState::Accepted));
    }
    client.credit(1, requests).await;
    client.send_attach(2, Role::Sender, "$cbs").await;
    let mut answers = 0;
    loop {
        match client.next_performative().await {
            Some(Performative::Transfer(_)) => answers += 1,
            // The attach was sent after the credit.
            Some(Performative::Attach(_)) => break,
            Some(_) => {}
            None => panic!("the server closed the connection"),
        }
    }
    assert_eq!(answers, AMQP_REPLIES_MAX);
}

#[tokio::test]
async fn client_that_does_not_read_gets_only_what_the_buffers_hold() {
    // AMQP_OUTPUT_BYTES_MAX, AMQP_TAKE_MESSAGES.
    let namespace = namespace();
    let sender = namespace.sender("q").expect("there");
    let body = vec![7; 16 << 10];
    let count = 2_000;
    for _ in 0..count {
        let fields = Fields {
            body: Body::Data(&body),
            ..Fields::default()
        };
        sender.send(&fields, None, &Wait::FOREVER).expect("room");
    }
    let mut client = Client::open(namespace.clone(), true).await;
    client.attach(0, Role::Receiver, "q").await.expect("there");
    client.credit(0, count).await;
    // All tasks share one thread: the server runs until it can write no more.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let other = namespace.receiver("q", ReceiverOptions::default()).expect("there");
    let mut left = Vec::new();
    while let Some(found) = other.receive_now(256, &Wait::FOREVER).expect("it receives") {
        left.extend(found.into_iter().map(|it| SettleKey {
            index: it.index,
            key: it.claimed.key,
        }));
    }
    let taken = count as usize - left.len();
    let buffers = 2 * AMQP_OUTPUT_BYTES_MAX / body.len() + 2 * AMQP_TAKE_MESSAGES;
    assert!((1..=buffers).contains(&taken), "{taken} of at most {buffers}");
    other.release(&left, &Wait::FOREVER);
    // All messages arrive once the client reads.
    let mut got = 0;
    while got < count {
        if let Some(Performative::Transfer(_)) = client.next_performative().await {
            got += 1;
        }
    }
}

#[tokio::test]
async fn stopping_server_closes_connections_with_an_error() {
    let mut client = Client::open(namespace(), true).await;
    client.attach(0, Role::Sender, "q").await.expect("there");
    client.stop.send(true).expect("it listens");
    assert_eq!(client.closed().await.condition.as_str(), "amqp:connection:forced");
}
