// SPDX-License-Identifier: Apache-2.0
//! Lost connections: what the next call does, and what becomes of messages, sessions and transactions.

use oxbus_client::{ClientErrorKind, Received, ReceiverOptions, SessionChoice, Settlement, block_on};
use oxbus_model::{Effect, ErrorKind};

use super::proxy::{Failure, Proxy};
use super::server::{Server, bodies, brief, error, message, of_session, receive, receiver, send, soon};

fn cutter(server: &Server) -> Proxy {
    Proxy::new(server, Failure::Cut)
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
