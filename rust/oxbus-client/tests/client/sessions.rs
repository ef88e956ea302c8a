// SPDX-License-Identifier: Apache-2.0
//! Sessions: accept by id and next, state, renewal, loss.

use bytes::Bytes;
use oxbus_client::{
    Client, ClientErrorKind, Deadline, Receiver, ReceiverOptions, Result, SessionChoice, Settlement, block_on,
};
use oxbus_model::ErrorKind;

use super::server::{Server, bodies, brief, error, of_session, receive, soon};
use super::settling::settle;

fn accept(client: &Client, choice: SessionChoice, deadline: Deadline) -> Result<Receiver> {
    block_on(client.accept_session("sessions", choice, ReceiverOptions::default(), deadline))
}

fn by_id(client: &Client, id: &str) -> Receiver {
    accept(client, SessionChoice::Id(id.to_owned()), soon()).expect("the session is free")
}

fn send(client: &Client, text: &str, session: &str) {
    block_on(
        client
            .sender("sessions")
            .send(&of_session(text, Some(session)), None, soon()),
    )
    .expect("sends");
}

fn close(receiver: &Receiver) {
    block_on(async {
        receiver.close(soon()).await;
        Ok(())
    })
    .expect("closes");
}

#[test]
fn a_session_gives_its_own_messages() {
    let server = Server::start();
    let client = server.client();
    send(&client, "a1", "a");
    send(&client, "b1", "b");
    send(&client, "a2", "a");
    let receiver = by_id(&client, "a");
    let session = receiver.session().expect("a session");
    assert_eq!(session.id(), "a");
    assert!(session.locked_until().is_some());
    let received = receive(&receiver, 2);
    assert_eq!(bodies(&received), ["a1", "a2"]);
    assert!(
        settle(&receiver, &received, &Settlement::Complete)
            .iter()
            .all(Result::is_ok)
    );
    close(&receiver);
    let next = accept(&client, SessionChoice::Next, soon()).expect("one is left");
    assert_eq!(next.session().expect("a session").id(), "b");
}

#[test]
fn a_session_has_one_receiver() {
    let server = Server::start();
    let client = server.client();
    let holder = by_id(&client, "a");
    let failed = error(accept(&client, SessionChoice::Id("a".to_owned()), soon()));
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::SessionCannotBeLocked));
    close(&holder);
    by_id(&client, "a");
}

#[test]
fn no_session_is_a_timeout() {
    let server = Server::start();
    let client = server.client();
    let failed = error(accept(&client, SessionChoice::Next, brief()));
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::Timeout));
    // The attempt is over at the server, too: it takes no session later.
    send(&client, "a1", "a");
    assert_eq!(bodies(&receive(&by_id(&client, "a"), 1)), ["a1"]);
}

#[test]
fn an_accept_waits_for_a_message() {
    let server = Server::start();
    let client = server.client();
    block_on(client.connect("sessions", soon())).expect("connects");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| accept(&client, SessionChoice::Next, soon()));
        send(&client, "a1", "a");
        let receiver = waiting.join().expect("no panic").expect("a session");
        assert_eq!(receiver.session().expect("a session").id(), "a");
    });
}

#[test]
fn the_state_of_a_session_stays() {
    let server = Server::start();
    let client = server.client();
    let receiver = by_id(&client, "a");
    let state = |receiver: &Receiver| {
        block_on(async { receiver.management().await?.session_state(soon()).await }).expect("a state")
    };
    let set = |value: Option<Bytes>| {
        block_on(async {
            receiver
                .management()
                .await?
                .set_session_state(value, None, soon())
                .await
        })
        .expect("is set");
    };
    assert_eq!(state(&receiver), None);
    set(Some(Bytes::from_static(b"step 3")));
    assert_eq!(state(&receiver), Some(Bytes::from_static(b"step 3")));
    set(None);
    assert_eq!(state(&receiver), None);
}

#[test]
fn the_lock_of_a_session_is_renewed() {
    let server = Server::start();
    let client = server.client();
    let receiver = by_id(&client, "a");
    let session = receiver.session().expect("a session");
    let before = session.locked_until().expect("an end");
    let until = block_on(receiver.renew_session_lock(soon())).expect("renews");
    assert!(until >= before);
    assert_eq!(session.locked_until(), Some(until));
}

#[test]
fn sessions_are_listed() {
    let server = Server::start();
    let client = server.client();
    let management = client.management("sessions");
    assert_eq!(
        block_on(management.list_sessions(None, soon())).expect("lists"),
        Vec::<String>::new()
    );
    for number in 0..150 {
        send(&client, "one", &format!("s{number}"));
    }
    let mut ids = block_on(management.list_sessions(None, soon())).expect("lists");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 150, "over several pages");
}

#[test]
fn a_session_needs_a_session_receiver() {
    let server = Server::start();
    let client = server.client();
    let plain = client.receiver("sessions", ReceiverOptions::default());
    let failed = error(block_on(plain.receive(1, soon())));
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::InvalidOperation));
    let failed = error(block_on(async {
        client.management("sessions").session_state(soon()).await
    }));
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::InvalidOperation));
}
