// SPDX-License-Identifier: Apache-2.0
//! Calls that are dropped at any of their waits leave the client usable.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use oxbus_client::block_on;

use super::server::{Server, bodies, message, receive, receiver, send, soon};

/// Polls a call up to so many times, then drops it. Returns true if it ended before.
fn poll_times(times: usize, call: impl Future) -> bool {
    let mut left = times;
    let mut call = pin!(call);
    block_on(std::future::poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(Ok(false));
        }
        left -= 1;
        call.as_mut().poll(context).map(|_| Ok(true))
    }))
    .expect("no error")
}

#[test]
fn a_dropped_send_leaves_the_sender_usable() {
    let server = Server::start();
    for times in 1..20 {
        let client = server.client();
        let sender = client.sender("orders");
        for _ in 0..20 {
            poll_times(times, sender.send(&message("dropped"), None, soon()));
        }
        send(&sender, "last");
        let receiver = receiver(&client, "orders");
        while !bodies(&receive(&receiver, 1)).contains(&"last".to_owned()) {}
    }
}
