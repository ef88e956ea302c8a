// SPDX-License-Identifier: Apache-2.0
//! Receives: waits, credit, prefetch, receive-and-delete.

use std::time::Duration;

use oxbus_client::{Client, ClientOptions, Deadline, ReceiverOptions, RetryOptions, block_on};
use oxbus_model::options::ReceiveMode;

use super::proxy::{Failure, Proxy};
use super::server::{Server, bodies, brief, none, receive, receiver, send, soon};

#[test]
fn a_receive_returns_what_is_there() {
    let server = Server::start();
    let client = server.client();
    let sender = client.sender("orders");
    for text in ["1", "2", "3"] {
        send(&sender, text);
    }
    let receiver = receiver(&client, "orders");
    assert_eq!(
        bodies(&block_on(receiver.receive(2, soon())).expect("receives")),
        ["1", "2"]
    );
    assert_eq!(
        bodies(&block_on(receiver.receive(10, soon())).expect("receives")),
        ["3"]
    );
}

#[test]
fn a_receive_waits_for_the_first_message() {
    let server = Server::start();
    let client = server.client();
    let receiver = receiver(&client, "orders");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| receive(&receiver, 1));
        // The link is attached, and its credit given, before the message.
        block_on(receiver.open(soon())).expect("opens");
        send(&client.sender("orders"), "late");
        assert_eq!(bodies(&waiting.join().expect("receives")), ["late"]);
    });
}

#[test]
fn nothing_is_locked_between_two_receives() {
    let server = Server::start();
    let client = server.client();
    let patient = receiver(&client, "orders");
    none(&patient);
    // The credit of the call that found nothing is taken back.
    send(&client.sender("orders"), "one");
    let other = receiver(&client, "orders");
    assert_eq!(bodies(&receive(&other, 1)), ["one"]);
    none(&patient);
}

#[test]
fn no_time_means_no_wait() {
    let server = Server::start();
    let client = server.client();
    let receiver = receiver(&client, "orders");
    block_on(receiver.open(soon())).expect("opens");
    let nothing = block_on(receiver.receive(1, Deadline::after(Some(Duration::ZERO)))).expect("receives");
    assert!(nothing.is_empty());
}

#[test]
fn prefetched_messages_wait_at_the_client() {
    let server = Server::start();
    let client = server.client();
    let sender = client.sender("orders");
    for number in 0..300 {
        send(&sender, &number.to_string());
    }
    let options = ReceiverOptions {
        prefetch: 50,
        ..ReceiverOptions::default()
    };
    let ahead = client.receiver("orders", options);
    let mut all = bodies(&receive(&ahead, 300));
    all.sort_by_key(|body| body.parse::<u32>().expect("a number"));
    assert_eq!(all.len(), 300);
    assert!(all.iter().enumerate().all(|(index, body)| *body == index.to_string()));
}

#[test]
fn no_time_means_what_is_ready_for_a_prefetching_receiver_too() {
    let server = Server::start();
    let proxy = Proxy::new(&server, Failure::Delay);
    let sender = server.client().sender("orders");
    for number in 0..20 {
        send(&sender, &number.to_string());
    }
    let options = ReceiverOptions {
        prefetch: 10,
        ..ReceiverOptions::default()
    };
    let ahead = proxy.client(&server).receiver("orders", options);
    block_on(ahead.open(soon())).expect("opens");
    // The next bytes arrive later than a call without time would wait.
    proxy.after(1);
    let ready = block_on(ahead.receive(1, Deadline::after(Some(Duration::ZERO)))).expect("receives");
    assert_eq!(bodies(&ready), ["0"]);
    // It goes on to prefetch.
    assert_eq!(receive(&ahead, 19).len(), 19);
    proxy.end();
}

#[test]
fn a_closed_receiver_gives_back_what_it_prefetched() {
    let server = Server::start();
    let client = server.client();
    let sender = client.sender("orders");
    for number in 0..20 {
        send(&sender, &number.to_string());
    }
    let options = ReceiverOptions {
        prefetch: 20,
        ..ReceiverOptions::default()
    };
    let ahead = client.receiver("orders", options);
    assert_eq!(receive(&ahead, 1).len(), 1);
    block_on(async {
        ahead.close(soon()).await;
        Ok(())
    })
    .expect("closes");
    let other = receiver(&client, "orders");
    let rest = receive(&other, 19);
    let counts = rest
        .iter()
        .map(|received| received.read(|_, metadata| Ok(metadata.delivery_count)));
    assert!(
        counts.map(|count| count.expect("well-formed")).all(|count| count == 0),
        "released without a count"
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test varies the real moment of the close")]
fn closing_ends_a_wait_at_any_moment() {
    let server = Server::start();
    // Without retries: a retry would find the closed receiver, and hide why the wait ended.
    let retry = RetryOptions {
        total: 0,
        ..RetryOptions::default()
    };
    let client = Client::new(ClientOptions {
        retry,
        ..server.options()
    })
    .expect("valid settings");
    for delay in 0..60 {
        let receiver = receiver(&client, "orders");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| block_on(receiver.receive(1, Deadline::NEVER)));
            std::thread::sleep(Duration::from_micros(delay * 50));
            block_on(async {
                receiver.close(soon()).await;
                Ok(())
            })
            .expect("closes");
            // A race decides: the wait ends empty, or the call begins on a closed receiver.
            match waiting.join().expect("no panic") {
                Ok(received) => assert!(received.is_empty(), "{received:?}"),
                Err(error) => assert!(error.to_string().contains("it was closed"), "{error}"),
            }
        });
    }
}

#[test]
fn receive_and_delete_needs_no_settlement() {
    let server = Server::start();
    let client = server.client();
    send(&client.sender("orders"), "gone");
    let options = ReceiverOptions {
        mode: ReceiveMode::ReceiveAndDelete,
        ..ReceiverOptions::default()
    };
    let deleting = client.receiver("orders", options);
    let received = receive(&deleting, 1);
    assert_eq!(received[0].handle().lock_token(), None);
    assert_eq!(server.active("orders"), 0);
}

#[test]
fn receivers_compete() {
    let server = Server::start();
    let client = server.client();
    let sender = client.sender("orders");
    for number in 0..200 {
        send(&sender, &number.to_string());
    }
    let mut all: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let receiver = receiver(&client, "orders");
                    let mut found = Vec::new();
                    loop {
                        let more = block_on(receiver.receive(7, brief())).expect("receives");
                        if more.is_empty() {
                            return found;
                        }
                        found.extend(bodies(&more));
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("receives"))
            .collect()
    });
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 200, "each message once");
}
