// SPDX-License-Identifier: Apache-2.0
//! A server in this process, and clients of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oxbus_broker::{Namespace, NamespaceOptions};
use oxbus_client::{
    Client, ClientError, ClientOptions, Deadline, EncodedMessage, Received, Receiver, ReceiverOptions, Result,
    RetryOptions, Sender, block_on,
};
use oxbus_model::message::{AssignedId, Body, Fields, MessageId};
use oxbus_model::options::QueueSettings;
use oxbus_model::{SequenceNumber, Timestamp};
use oxbus_server::{BulkLimits, BusOptions, BusServer, BusTls, Ports};
use oxbus_store::Wait;

/// Time that no call of these tests needs.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// Time after which a call gives up that has to.
pub(crate) const SHORT: Duration = Duration::from_millis(150);

/// A server of a namespace in memory, with the queues `orders` and `sessions`.
pub(crate) struct Server {
    pub(crate) namespace: Namespace,
    pub(crate) server: BusServer,
}

/// The wall clock of the tests: that of the server's machine.
pub(crate) fn clock() -> Timestamp {
    use oxbus_model::Clock;
    oxbus_broker::SystemClock::new().now()
}

/// A deadline that is never reached.
pub(crate) fn soon() -> Deadline {
    Deadline::after(Some(LONG))
}

/// A deadline that is reached.
pub(crate) fn brief() -> Deadline {
    Deadline::after(Some(SHORT))
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with_ports(Ports {
            amqp: Some(0),
            ..Ports::default()
        })
    }

    pub(crate) fn with_ports(ports: Ports) -> Self {
        let namespace = Namespace::open(NamespaceOptions::default()).expect("a namespace in memory");
        for (name, requires_session) in [("orders", false), ("invoices", false), ("sessions", true)] {
            let settings = QueueSettings {
                requires_session,
                ..QueueSettings::default()
            };
            namespace
                .create_queue(name, settings, &Wait::FOREVER)
                .expect("a new queue");
        }
        Self::serve(namespace, ports)
    }

    /// The server of a namespace that another one served, on its port.
    pub(crate) fn again(namespace: Namespace, port: u16) -> Self {
        let ports = Ports {
            amqp: Some(port),
            ..Ports::default()
        };
        Self::serve(namespace, ports)
    }

    fn serve(namespace: Namespace, ports: Ports) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let options = BusOptions {
            host: "localhost".to_owned(),
            ports,
            rules: Vec::new(),
            tls: BusTls::Development { issuer_out: None },
            bulk: BulkLimits::default(),
            new_id: |count| AssignedId::new(7, IDS.fetch_add(count, Ordering::Relaxed)),
            console: None,
        };
        let server = BusServer::start(namespace.clone(), options).expect("free ports");
        Self { namespace, server }
    }

    /// Settings of a client, without pauses between tries.
    pub(crate) fn options(&self) -> ClientOptions {
        let text = self.server.connection_string();
        ClientOptions {
            retry: RetryOptions {
                backoff: Duration::from_millis(1),
                ..RetryOptions::default()
            },
            ..ClientOptions::from_connection_string(&text, clock).expect("the server's own string")
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.options()).expect("valid settings")
    }

    /// Creates a queue.
    pub(crate) fn create(&self, queue: &str) {
        self.namespace
            .create_queue(queue, QueueSettings::default(), &Wait::FOREVER)
            .expect("a new queue");
    }

    /// Ids of the messages of a queue, locked or not.
    pub(crate) fn ids(&self, queue: &str) -> Vec<String> {
        let receiver = self
            .namespace
            .receiver(queue, oxbus_broker::ReceiverOptions::default())
            .expect("the queue exists");
        let found = receiver
            .browse(1_000, Some(SequenceNumber(0)), &Wait::FOREVER)
            .expect("browses");
        let id = |record: &[u8]| {
            Fields::decode(record)
                .expect("a record")
                .given_id()
                .expect("an id")
                .to_owned()
        };
        found
            .iter()
            .map(|item| id(item.message.record.in_memory().expect("in memory")))
            .collect()
    }

    /// How many messages a queue has, locked or not.
    pub(crate) fn active(&self, queue: &str) -> usize {
        let receiver = self
            .namespace
            .receiver(queue, oxbus_broker::ReceiverOptions::default())
            .expect("the queue exists");
        receiver
            .browse(1_000, Some(SequenceNumber(0)), &Wait::FOREVER)
            .expect("browses")
            .len()
    }
}

/// A message with this body and id.
pub(crate) fn message(body: &str) -> EncodedMessage {
    of_session(body, None)
}

/// A message of a session.
pub(crate) fn of_session(body: &str, session_id: Option<&str>) -> EncodedMessage {
    EncodedMessage::from_fields(&Fields {
        body: Body::Data(body.as_bytes()),
        message_id: Some(MessageId::Given(body)),
        session_id,
        ..Fields::default()
    })
}

/// The body of a received message.
pub(crate) fn body(received: &Received) -> String {
    let text = received.read(|fields, _| Ok(String::from_utf8_lossy(&fields.body.data()).into_owned()));
    text.expect("a well-formed message")
}

pub(crate) fn bodies(received: &[Received]) -> Vec<String> {
    received.iter().map(body).collect()
}

pub(crate) fn send(sender: &Sender, text: &str) {
    block_on(sender.send(&message(text), None, soon())).expect("sends");
}

/// Receives exactly `count` messages.
pub(crate) fn receive(receiver: &Receiver, count: usize) -> Vec<Received> {
    let mut received = Vec::new();
    while received.len() < count {
        let more = block_on(receiver.receive(count - received.len(), soon())).expect("receives");
        assert!(!more.is_empty(), "{} of {count} arrived", received.len());
        received.extend(more);
    }
    received
}

pub(crate) fn none(receiver: &Receiver) {
    let received = block_on(receiver.receive(10, brief())).expect("receives");
    assert!(received.is_empty(), "{:?}", bodies(&received));
}

pub(crate) fn receiver(client: &Client, path: &str) -> Receiver {
    client.receiver(path, ReceiverOptions::default())
}

/// The error of a call that fails.
pub(crate) fn error<T>(result: Result<T>) -> ClientError {
    match result {
        Ok(_) => panic!("the call succeeded"),
        Err(error) => error,
    }
}

/// Makes no call for a while.
pub(crate) fn pause(time: Duration) {
    let never = std::sync::Mutex::new(());
    let held = never.lock().expect("no panic");
    let _ = std::sync::Condvar::new().wait_timeout(held, time).expect("no panic");
}
