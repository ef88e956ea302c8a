// SPDX-License-Identifier: Apache-2.0
//! A proxy that cuts: nothing acknowledged is lost, nothing settled comes back, and the next call works.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use oxbus_client::{
    Client, ClientErrorKind, ClientOptions, Received, ReceiverOptions, RetryOptions, SessionChoice, Settlement,
    block_on,
};
use oxbus_model::{Effect, ErrorKind};

use super::server::{Server, bodies, brief, error, message, of_session, receive, receiver, send, soon};

/// A proxy between client and server. It cuts a connection after a number of bytes to the client or to the server.
#[derive(Clone)]
struct Cutter(Arc<CutterState>);

struct CutterState {
    port: u16,
    /// Bytes that still pass, in both directions together.
    left: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
}

impl Cutter {
    fn new(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let cutter = Self(Arc::new(CutterState {
            port: listener.local_addr().expect("an address").port(),
            left: AtomicUsize::new(usize::MAX / 2),
            open: Mutex::default(),
        }));
        let accepting = cutter.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", server)) else {
                    return;
                };
                let mut open = accepting.0.open.lock().expect("no panic");
                open.extend([near.try_clone().expect("a socket"), far.try_clone().expect("a socket")]);
                for (from, to) in [
                    (near.try_clone().expect("a socket"), far.try_clone().expect("a socket")),
                    (far, near),
                ] {
                    let cutter = accepting.clone();
                    std::thread::spawn(move || cutter.copy(from, to));
                }
            }
        });
        cutter
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 4_096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let left = self.0.left.load(Ordering::Relaxed);
            let passed = count.min(left);
            self.0.left.fetch_sub(passed, Ordering::Relaxed);
            if to.write_all(&buffer[..passed]).is_err() || passed < count {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }

    /// Cuts every connection after this many bytes. New connections pass until they have had as many.
    fn after(&self, bytes: usize) {
        self.0.left.store(bytes, Ordering::Relaxed);
    }

    /// Cuts all open connections now, and lets new ones pass.
    fn cut(&self) {
        self.heal();
        for socket in self.0.open.lock().expect("no panic").drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn heal(&self) {
        self.0.left.store(usize::MAX / 2, Ordering::Relaxed);
    }

    fn client(&self, server: &Server) -> Client {
        Client::new(ClientOptions {
            custom_endpoint: Some(("127.0.0.1".to_owned(), Some(self.0.port))),
            ..server.options()
        })
        .expect("valid settings")
    }
}

fn cutter(server: &Server) -> Cutter {
    Cutter::new(server.server.ports().first())
}

#[test]
fn a_lost_connection_is_opened_again() {
    let server = Server::start();
    let cutter = cutter(&server);
    let client = cutter.client(&server);
    let sender = client.sender("orders");
    let receiver = receiver(&client, "orders");
    for round in 0..5 {
        // A send that meets the cut does not know; its bytes went nowhere.
        let text = message(&round.to_string());
        while let Err(error) = block_on(sender.send(&text, None, soon())) {
            assert_eq!(error.effect(), Some(Effect::Unknown), "{error:?}");
        }
        assert_eq!(bodies(&receive(&receiver, 1)), [round.to_string()]);
        cutter.cut();
    }
}

#[test]
fn a_waiting_receive_survives_the_loss_of_its_link() {
    let server = Server::start();
    let cutter = cutter(&server);
    let client = cutter.client(&server);
    let options = ReceiverOptions {
        prefetch: 10,
        ..ReceiverOptions::default()
    };
    for options in [ReceiverOptions::default(), options] {
        let receiver = client.receiver("orders", options);
        block_on(receiver.open(soon())).expect("opens");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| receive(&receiver, 1));
            cutter.cut();
            send(&server.client().sender("orders"), "later");
            let received = waiting.join().expect("receives");
            assert_eq!(bodies(&received), ["later"]);
            let handles: Vec<_> = received.iter().map(Received::handle).collect();
            let done = block_on(receiver.settle(&handles, &Settlement::Complete, None, soon()));
            assert!(done.expect("answers")[0].is_ok());
        });
    }
}

#[test]
fn a_settlement_whose_link_is_lost_goes_over_management() {
    let server = Server::start();
    let cutter = cutter(&server);
    let client = cutter.client(&server);
    send(&client.sender("orders"), "one");
    let receiver = receiver(&client, "orders");
    let received = receive(&receiver, 1);
    cutter.cut();
    let handles: Vec<_> = received.iter().map(Received::handle).collect();
    let done = block_on(receiver.settle(&handles, &Settlement::Complete, None, soon()));
    assert!(done.expect("answers")[0].is_ok());
    assert_eq!(server.active("orders"), 0);
}

#[test]
fn a_message_of_a_lost_connection_is_not_confused_with_one_of_the_next() {
    let server = Server::start();
    let cutter = cutter(&server);
    let client = cutter.client(&server);
    let sender = server.client().sender("orders");
    let receiver = receiver(&client, "orders");
    send(&sender, "first");
    send(&sender, "second");
    let first = receive(&receiver, 1);
    cutter.cut();
    // The link of the next connection has the same handle, and its first message the same number.
    let second = receive(&receiver, 1);
    assert_eq!(
        (bodies(&first), bodies(&second)),
        (vec!["first".to_owned()], vec!["second".to_owned()])
    );
    assert!(
        block_on(receiver.settle(&[first[0].handle()], &Settlement::Complete, None, soon())).expect("answers")[0]
            .is_ok()
    );
    assert_eq!(server.ids("orders"), ["second"]);
    assert!(
        block_on(receiver.settle(&[second[0].handle()], &Settlement::Complete, None, soon())).expect("answers")[0]
            .is_ok()
    );
    assert_eq!(server.active("orders"), 0);
}

#[test]
fn a_session_is_lost_with_its_link() {
    let server = Server::start();
    let cutter = cutter(&server);
    let client = cutter.client(&server);
    block_on(
        client
            .sender("sessions")
            .send(&of_session("one", Some("a")), None, soon()),
    )
    .expect("sends");
    let accept = || {
        let choice = SessionChoice::Id("a".to_owned());
        client.accept_session("sessions", choice, ReceiverOptions::default(), soon())
    };
    let receiver = block_on(accept()).expect("the session is free");
    let received = receive(&receiver, 1);
    cutter.cut();
    let failed = error(block_on(receiver.receive(1, soon())));
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::SessionLockLost));
    let handles: Vec<_> = received.iter().map(Received::handle).collect();
    let settled = block_on(receiver.settle(&handles, &Settlement::Complete, None, soon())).expect("answers");
    let failed = settled[0].as_ref().expect_err("the session is lost");
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::SessionLockLost));
    assert_eq!(server.active("sessions"), 1);
}

#[test]
fn a_transaction_is_lost_with_its_connection() {
    let server = Server::start();
    let cutter = cutter(&server);
    let client = cutter.client(&server);
    let sender = client.sender("orders");
    let transaction = block_on(client.transaction(soon())).expect("a transaction");
    block_on(sender.send(&message("never"), Some(&transaction), soon())).expect("sends");
    cutter.cut();
    // The cut is noticed at the latest by the next call.
    let failed = error(block_on(transaction.commit(soon())));
    let is_over = failed.kind() == ClientErrorKind::Broker(ErrorKind::TransactionOver);
    assert!(is_over || failed.effect() == Some(Effect::Unknown), "{failed:?}");
    assert_eq!(server.active("orders"), 0);
    let failed = error(block_on(sender.send(&message("late"), Some(&transaction), soon())));
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::TransactionOver));
}

#[test]
fn a_server_that_closes_with_an_error_is_left_and_found_again() {
    let server = Server::start();
    let client = server.client();
    let sender = client.sender("orders");
    send(&sender, "one");
    let (port, namespace) = (server.server.ports().first(), server.namespace.clone());
    server.server.close();
    let failed = error(block_on(sender.send(&message("two"), None, brief())));
    assert!(
        matches!(
            failed.kind(),
            ClientErrorKind::Connection | ClientErrorKind::Broker(ErrorKind::Timeout)
        ),
        "{failed:?}"
    );
    let again = Server::again(namespace, port);
    send(&sender, "three");
    let count = again.active("orders");
    let is_known = failed.effect() == Some(Effect::Unknown);
    assert!(count == 2 || (is_known && count == 3), "{count}");
}

/// What the client was told about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Stored,
    Not,
    Unknown,
    Completed,
}

/// A session of sends, a receive and a settlement, cut after each number of bytes.
#[test]
fn a_cut_at_any_byte_loses_nothing_and_doubles_nothing() {
    let server = Server::start();
    let mut seen = Vec::new();
    // Steps that differ from the sizes of frames, from the handshake to the end of the session.
    for bytes in (0..10_000).step_by(97) {
        let queue = format!("cut-{bytes}");
        server.create(&queue);
        let told = cut_session(&server, &queue, bytes);
        let left = server.ids(&queue);
        for (text, told) in &told {
            let count = left.iter().filter(|left| *left == text).count();
            let is_right = match told {
                Told::Stored => count == 1,
                Told::Not | Told::Completed => count == 0,
                Told::Unknown => count <= 1,
            };
            assert!(is_right, "{bytes}: {text}: {told:?}: {left:?}");
        }
        seen.extend(told.iter().map(|(_, told)| *told));
    }
    for told in [Told::Stored, Told::Not, Told::Unknown, Told::Completed] {
        assert!(seen.contains(&told), "{told:?} never happened");
    }
}

/// Returns what the client was told about each message.
fn cut_session(server: &Server, queue: &str, bytes: usize) -> Vec<(String, Told)> {
    let cutter = cutter(server);
    let client = Client::new(ClientOptions {
        custom_endpoint: Some(("127.0.0.1".to_owned(), Some(cutter.0.port))),
        retry: RetryOptions {
            total: 0,
            ..RetryOptions::default()
        },
        ..server.options()
    })
    .expect("valid settings");
    cutter.after(bytes);
    let sender = client.sender(queue);
    let mut told: Vec<_> = (0..3)
        .map(|number| {
            let text = format!("{bytes}-{number}");
            let told = match block_on(sender.send(&message(&text), None, soon())) {
                Ok(()) => Told::Stored,
                Err(error) if error.effect() == Some(Effect::Unknown) => Told::Unknown,
                Err(_) => Told::Not,
            };
            (text, told)
        })
        .collect();
    let orders = receiver(&client, queue);
    if let Ok(received) = block_on(orders.receive(1, brief()))
        && let Some(first) = received.first()
    {
        let done = block_on(orders.settle(&[first.handle()], &Settlement::Complete, None, soon()));
        let is_completed = done.is_ok_and(|results| results[0].is_ok());
        let text = super::server::body(first);
        let entry = told.iter_mut().find(|(sent, _)| *sent == text).expect("it was sent");
        entry.1 = if is_completed { Told::Completed } else { Told::Unknown };
    }
    cutter.cut();
    told
}
