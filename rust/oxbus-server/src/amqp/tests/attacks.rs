// SPDX-License-Identifier: Apache-2.0
//! Attempts of a client to make the server hold too much in memory. Each test names its limit in `caps.rs`.

use oxbus_store::Wait;
use std::pin::pin;

use bytes::{BufMut, Bytes, BytesMut};
use oxbus_amqp::codec::{AmqpTimestamp, AmqpValue, Field, Map};
use oxbus_amqp::message::{
    Sections, put_application_properties, put_data, put_message_annotations, put_value_body, read_map, section,
};
use oxbus_amqp::performative::{Coordinator, Declare, DeliveryState, Role, Target};
use oxbus_broker::Namespace;
use oxbus_broker::namespace::TopicOptions;
use oxbus_broker::shard::InjectedFault;
use oxbus_model::caps::{
    AMQP_CLAIMS_MAX, AMQP_JOBS_MAX, AMQP_JOBS_WAITING_MAX, AMQP_QUEUED_BYTES_MAX, AMQP_READ_BYTES,
    AMQP_TRANSACTIONS_MAX,
};
use oxbus_model::options::QueueSettings;
use oxbus_model::sequence::PartitionId;

use super::client::{Client, PIPE_BYTES, namespace};
use crate::sas::signed_token;

/// A time in the year 2096, in seconds.
const FAR: u64 = 4_000_000_000;

/// Makes every storing call wait, or lets all continue.
fn set_stalled(namespace: &Namespace, stalls: bool) {
    for partition in (0..namespace.partitions()).map(PartitionId) {
        let done = if stalls {
            namespace.inject_fault(partition, InjectedFault::parse("stall").expect("a fault"), 0)
        } else {
            namespace.heal(partition, &Wait::FOREVER)
        };
        done.expect("a partition");
    }
}

/// Lets the server, which shares this thread, run until it is idle.
async fn let_server_work() {
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
}

/// Sends while the store hangs until the server stops reading, then lets the store continue. Returns the number of
/// messages.
async fn send_until_nobody_reads(namespace: &Namespace, client: &mut Client, settled: bool, message: &[u8]) -> u32 {
    let mut sent = 0;
    loop {
        let mut writing = pin!(client.transfer(0, sent, settled, message));
        sent += 1;
        let is_taken = tokio::select! {
            biased;
            () = &mut writing => true,
            () = let_server_work() => false,
        };
        if !is_taken {
            set_stalled(namespace, false);
            writing.await;
            return sent;
        }
    }
}

#[tokio::test]
async fn messages_waiting_for_a_store_are_limited() {
    // AMQP_QUEUED_BYTES_MAX: clients may exceed their credit, so one keeps sending while the store hangs.
    let namespace = namespace();
    set_stalled(&namespace, true);
    let mut client = Client::open(namespace.clone(), true).await;
    client.attach(0, Role::Sender, "q").await.expect("there");
    let mut message = BytesMut::new();
    message.put_slice(&[0, 0x53, section::DATA, 0xb0]);
    message.put_u32(60 << 10);
    message.resize(message.len() + (60 << 10), 7);
    let sent = send_until_nobody_reads(&namespace, &mut client, false, &message).await;
    let held = sent as usize * message.len();
    let most = AMQP_QUEUED_BYTES_MAX + 2 * AMQP_READ_BYTES + PIPE_BYTES + 2 * message.len();
    assert!((AMQP_QUEUED_BYTES_MAX..most).contains(&held), "{held} of {most}");
    // Nothing is lost: all messages are accepted once the store continues.
    let mut answered = 0;
    while answered < sent {
        let disposition = client.disposition().await;
        assert_eq!(disposition.state, Some(DeliveryState::Accepted));
        answered += disposition.last.unwrap_or(disposition.first) - disposition.first + 1;
    }
    assert_eq!(
        namespace.queue_counts("q", &Wait::FOREVER).expect("there").total.active,
        u64::from(sent)
    );
}

#[tokio::test]
async fn requests_waiting_for_a_store_are_limited() {
    // AMQP_JOBS_WAITING_MAX: requests are accepted at once, so nothing else limits their number. The server used to
    // read any number of them while the store hung.
    let namespace = namespace();
    set_stalled(&namespace, true);
    let mut client = Client::open(namespace.clone(), true).await;
    client.attach(0, Role::Sender, "q/$management").await.expect("there");
    let mut message = BytesMut::new();
    put_application_properties(
        &mut message,
        &Map::new().with("operation", "com.microsoft:schedule-message"),
    );
    put_value_body(&mut message, &later());
    let sent = send_until_nobody_reads(&namespace, &mut client, true, &message).await;
    let most = AMQP_JOBS_WAITING_MAX + AMQP_JOBS_MAX + (2 * AMQP_READ_BYTES + PIPE_BYTES) / message.len() + 2;
    assert!(
        (AMQP_JOBS_WAITING_MAX..=most).contains(&(sent as usize)),
        "{sent} of {most}"
    );
    // Nothing is lost.
    while namespace
        .queue_counts("q", &Wait::FOREVER)
        .expect("there")
        .total
        .scheduled
        < u64::from(sent)
    {
        tokio::task::yield_now().await;
    }
}

/// A request body with one scheduled message.
fn later() -> AmqpValue {
    let mut message = BytesMut::new();
    let due = AmqpTimestamp(i64::try_from(FAR).expect("small") * 1_000);
    put_message_annotations(&mut message, &Map::new().with("x-opt-scheduled-enqueue-time", due));
    put_data(&mut message, &Bytes::from_static(b"later"));
    let entry = Map::new().with("message-id", "m").with("message", message.freeze());
    Map::new().with("messages", AmqpValue::List(vec![entry.into()])).into()
}

#[tokio::test]
async fn tokens_of_a_connection_are_limited() {
    // AMQP_CLAIMS_MAX: a client with a valid key can sign tokens for any number of names.
    let namespace = namespace();
    let options = TopicOptions {
        support_ordering: false,
    };
    namespace
        .create_topic("t", QueueSettings::default(), options, &Wait::FOREVER)
        .expect("t");
    let mut client = Client::open(namespace, true).await;
    client.attach(0, Role::Sender, "$cbs").await.expect("there");
    client.attach(1, Role::Receiver, "$cbs").await.expect("there");
    client.credit(1, u32::MAX >> 1).await;
    let mut statuses = Vec::new();
    // The SASL handshake has added the first claims.
    for number in 0..AMQP_CLAIMS_MAX {
        statuses.push(put_token(&mut client, number, "sub").await);
    }
    let last = statuses.pop();
    assert!(statuses.iter().all(|status| *status == 202), "{statuses:?}");
    assert_eq!(last, Some(403));
    // A newer token for the same scope replaces the older one (B-417).
    assert_eq!(put_token(&mut client, 0, "sub").await, 202);
}

async fn put_token(client: &mut Client, number: usize, word: &str) -> i64 {
    let audience = format!("sb://localhost/t/subscriptions/{word}{number}");
    let mut message = BytesMut::new();
    let request = Map::new()
        .with("operation", "put-token")
        .with("type", "servicebus.windows.net:sastoken")
        .with("name", audience.as_str());
    put_application_properties(&mut message, &request);
    let token = signed_token(&audience, FAR, "RootManageSharedAccessKey", "SAS_KEY_VALUE");
    put_value_body(&mut message, &AmqpValue::from(token.as_str()));
    client
        .transfer(0, u32::try_from(number).expect("small"), true, &message)
        .await;
    let answer = client.message().await;
    let sections = Sections::scan(&answer).expect("a message");
    let properties = read_map(&answer, &sections.application_properties).expect("properties");
    properties
        .get("status-code")
        .and_then(AmqpValue::as_i64)
        .expect("a status")
}

#[tokio::test]
async fn open_transactions_are_limited() {
    // AMQP_TRANSACTIONS_MAX.
    let mut client = Client::open(namespace(), true).await;
    let target = Target::Coordinator(Coordinator { capabilities: vec![] });
    client.attach_to(0, Role::Sender, "", target).await.expect("there");
    let mut message = BytesMut::from(&[0, 0x53, section::VALUE][..]);
    Declare {
        global_id: AmqpValue::Null,
    }
    .encode(&mut message);
    let most = u32::try_from(AMQP_TRANSACTIONS_MAX).expect("small");
    for id in 0..most {
        client.transfer(0, id, false, &message).await;
        let state = client.disposition().await.state;
        assert!(matches!(state, Some(DeliveryState::Declared { .. })), "{state:?}");
    }
    client.transfer(0, most, false, &message).await;
    let Some(DeliveryState::Rejected(Some(fault))) = client.disposition().await.state else {
        panic!("one too many");
    };
    assert_eq!(fault.condition.as_str(), "amqp:resource-limit-exceeded");
}
