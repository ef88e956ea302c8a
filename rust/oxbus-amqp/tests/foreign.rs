// SPDX-License-Identifier: Apache-2.0
//! The client half with servers of others, over sockets: `make test-foreign` starts them.
//!
//! `OXBUS_FOREIGN` has host, port, user, password and the address of an empty queue, separated by spaces.

#![expect(clippy::disallowed_methods, reason = "a server of others answers by the clock")]

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use oxbus_amqp::client::{ClientSettings, LinkId, LinkRequest, OutgoingMessage, ReceivedDelivery, SaslChoice};
use oxbus_amqp::message::{MESSAGE_FORMAT_DEFAULT, Sections, data, put_data};
use oxbus_amqp::performative::{DeliveryState, Modified, PlainCredentials, ReceiverSettleMode, Source, Target};
use oxbus_amqp::{ClientEngine, ClientEvent};

const MESSAGES: usize = 300;
/// More than a frame of any of the servers.
const LARGE: usize = 700_000;
const LONG: Duration = Duration::from_secs(30);
const BRIEF: Duration = Duration::from_millis(300);

struct Connection {
    stream: TcpStream,
    engine: ClientEngine,
    events: VecDeque<ClientEvent>,
    began: Instant,
}

impl Connection {
    fn open(host: &str, port: u16, user: &str, password: &str) -> Self {
        let stream = TcpStream::connect((host, port)).expect("the server listens");
        stream
            .set_read_timeout(Some(Duration::from_millis(20)))
            .expect("a valid time");
        let settings = ClientSettings {
            hostname: Some(host.into()),
            sasl: SaslChoice::Plain(PlainCredentials {
                user: user.into(),
                password: password.into(),
            }),
            ..ClientSettings::default()
        };
        let mut connection = Self {
            stream,
            engine: ClientEngine::new(settings, 0),
            events: VecDeque::new(),
            began: Instant::now(),
        };
        connection.wait(|event| matches!(event, ClientEvent::Open(_)).then_some(()));
        connection
    }

    /// Writes what there is, and reads what arrives soon.
    fn pump(&mut self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).expect("a short test");
        self.engine.tick(now);
        self.engine.flush(now);
        let output = self.engine.output().split();
        self.stream.write_all(&output).expect("the server reads");
        let mut buffer = vec![0; 65_536];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.engine.disconnected(),
            Ok(count) => self.engine.input().extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => panic!("the connection broke: {error}"),
        }
        while let Some(event) = self.engine.next_event(now) {
            self.events.push_back(event);
        }
    }

    /// Waits for an event. Others are dropped.
    fn wait<T>(&mut self, wanted: impl FnMut(&ClientEvent) -> Option<T>) -> T {
        self.wait_for(LONG, wanted).expect("the server answers in time")
    }

    fn wait_for<T>(&mut self, time: Duration, mut wanted: impl FnMut(&ClientEvent) -> Option<T>) -> Option<T> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            while let Some(event) = self.events.pop_front() {
                let found = wanted(&event);
                if found.is_some() {
                    return found;
                }
                let is_refused = matches!(
                    event,
                    ClientEvent::Failed(_)
                        | ClientEvent::LinkFailed { .. }
                        | ClientEvent::SessionFailed { .. }
                        | ClientEvent::Disconnected
                );
                assert!(!is_refused, "{event:?}");
            }
            self.pump();
        }
        None
    }

    fn attach(&mut self, request: LinkRequest) -> LinkId {
        let session = self.engine.begin().expect("a session");
        let id = self.engine.attach(session, request).expect("a link");
        self.wait(|event| match event {
            ClientEvent::Attached { link, .. } => (*link == id).then_some(()),
            ClientEvent::Detached { error, .. } => panic!("the server refused the link: {error:?}"),
            _ => None,
        });
        id
    }

    /// Sends a message as the server allows it.
    fn send(&mut self, link: LinkId, body: &Bytes) {
        let mut message = BytesMut::new();
        put_data(&mut message, body);
        let end = Instant::now() + LONG;
        while self.engine.sendable(link) == 0 || self.engine.is_backed_up() {
            assert!(Instant::now() < end, "the server gives no credit");
            self.pump();
        }
        let outgoing = OutgoingMessage {
            message_format: MESSAGE_FORMAT_DEFAULT,
            settled: false,
            state: None,
            parts: &[&message],
        };
        self.engine.send(link, &outgoing).expect("credit");
    }

    fn outcomes(&mut self, mut count: usize) {
        while count > 0 {
            let state = self.wait(|event| match event {
                ClientEvent::Outcome(outcome) => Some(outcome.state.clone()),
                _ => None,
            });
            assert_eq!(state, Some(DeliveryState::Accepted));
            count -= 1;
        }
    }

    fn receive(&mut self, time: Duration) -> Option<Box<ReceivedDelivery>> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            while let Some(event) = self.events.pop_front() {
                if let ClientEvent::Received(received) = event {
                    return Some(received);
                }
            }
            self.pump();
        }
        None
    }

    fn settle(&mut self, received: &ReceivedDelivery, state: DeliveryState) {
        let id = received.id.expect("the server waits for an outcome");
        self.engine.settle(id, state, true).expect("a live link");
    }
}

fn body(received: &ReceivedDelivery) -> Vec<u8> {
    let sections = Sections::scan(&received.message).expect("a message");
    data(&received.message, &sections)
        .flat_map(|part| part.expect("data").to_vec())
        .collect()
}

#[test]
#[ignore = "needs a server of others: make test-foreign"]
fn messages_go_to_a_foreign_server_and_back() {
    let text = std::env::var("OXBUS_FOREIGN").expect("OXBUS_FOREIGN names the server");
    let [host, port, user, password, address] = text.split(' ').collect::<Vec<_>>()[..] else {
        panic!("OXBUS_FOREIGN has five parts: {text}");
    };
    let mut connection = Connection::open(host, port.parse().expect("a port"), user, password);

    let sender = LinkRequest::sender("sender", Source::of("sender"), Target::of(address.to_owned()));
    let sender = connection.attach(sender);
    let mut bodies: Vec<Bytes> = (0..MESSAGES).map(|number| Bytes::from(number.to_string())).collect();
    bodies.push(Bytes::from(vec![7; LARGE]));
    for body in &bodies {
        connection.send(sender, body);
    }
    connection.outcomes(bodies.len());

    let receiver = LinkRequest {
        rcv_settle_mode: ReceiverSettleMode::First,
        ..LinkRequest::receiver("receiver", Source::of(address.to_owned()), Target::of("receiver"))
    };
    let receiver = connection.attach(receiver);
    assert!(connection.receive(BRIEF).is_none(), "there is no credit");
    for sent in &bodies {
        connection.engine.set_credit(receiver, 1);
        let received = connection.receive(LONG).expect("the next message");
        assert_eq!(body(&received), *sent, "in order, and whole");
        connection.settle(&received, DeliveryState::Accepted);
    }

    // What is given back comes again.
    connection.send(sender, &Bytes::from("again"));
    connection.outcomes(1);
    let failed = Modified {
        delivery_failed: true,
        undeliverable_here: false,
        message_annotations: None,
    };
    for state in [DeliveryState::Released, failed.into(), DeliveryState::Accepted] {
        connection.engine.set_credit(receiver, 1);
        let received = connection.receive(LONG).expect("the message");
        assert_eq!(body(&received), b"again");
        connection.settle(&received, state);
    }

    // Credit that is drained is used up, and no message is left.
    connection.engine.set_credit(receiver, 10);
    connection.engine.drain(receiver);
    connection.wait(|event| match event {
        ClientEvent::Received(received) => panic!("a message that nobody sent: {received:?}"),
        ClientEvent::Drained { link } => (*link == receiver).then_some(()),
        _ => None,
    });
    assert_eq!(connection.engine.credit(receiver), 0);

    for link in [sender, receiver] {
        connection.engine.detach(link, true, None);
        connection.wait(|event| match event {
            ClientEvent::Detached { link: ended, error, .. } if *ended == link => {
                assert_eq!(*error, None);
                Some(())
            }
            _ => None,
        });
    }
    let now = u64::try_from(connection.began.elapsed().as_millis()).expect("a short test");
    connection.engine.close(None, now);
    connection.wait(|event| match event {
        ClientEvent::Closed { error } => {
            assert_eq!(*error, None);
            Some(())
        }
        _ => None,
    });
    assert!(connection.engine.is_finished());
}
