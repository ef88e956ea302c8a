// SPDX-License-Identifier: Apache-2.0
//! Who reads and writes: calls that block, an event loop that polls, and the background thread in pauses.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use oxbus_client::{Deadline, Received, ReceiverOptions, Settlement, block_on, block_on_until, enter, polled};
use oxbus_model::{Error, ErrorKind};

use super::server::{Server, bodies, pause, receive, receiver, send, soon};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn now() -> Deadline {
    Deadline::after(Some(Duration::ZERO))
}

/// Waits like an event loop: it polls, and never blocks on the runtime.
fn in_loop<T>(call: impl Future<Output = T>) -> T {
    let _polled = polled().expect("the process was not forked");
    let _inside = enter().expect("the process was not forked");
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut call = pin!(call);
    loop {
        if let Poll::Ready(result) = call.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        std::thread::park();
    }
}

#[test]
fn threads_and_event_loops_make_calls_at_the_same_time() {
    let server = Server::start();
    let client = server.client();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let queue = format!("queue-{thread}");
            server.create(&queue);
            let client = &client;
            scope.spawn(move || {
                let (sender, receiver) = (client.sender(&*queue), receiver(client, &queue));
                for number in 0..200 {
                    let text = number.to_string();
                    send(&sender, &text);
                    let received = if number % 3 == thread % 3 {
                        in_loop(receiver.receive(1, soon())).expect("receives")
                    } else {
                        receive(&receiver, 1)
                    };
                    assert_eq!(bodies(&received), [text]);
                    let handles: Vec<_> = received.iter().map(Received::handle).collect();
                    let settle = receiver.settle(&handles, &Settlement::Complete, None, soon());
                    let settled = if number % 2 == 0 {
                        block_on(settle)
                    } else {
                        in_loop(settle)
                    };
                    assert!(settled.expect("answers")[0].is_ok());
                    if number % 50 == 0 {
                        // Longer than the pause after which the background thread drives.
                        pause(Duration::from_millis(30));
                    }
                }
            });
        }
    });
}

#[test]
fn messages_arrive_while_no_call_waits() {
    let server = Server::start();
    let client = server.client();
    let options = ReceiverOptions {
        prefetch: 10,
        ..ReceiverOptions::default()
    };
    let receiver = client.receiver("orders", options);
    assert!(block_on(receiver.receive(1, now())).expect("receives").is_empty());
    send(&server.client().sender("orders"), "early");
    // Nobody calls meanwhile. The next call only looks at what has arrived.
    pause(Duration::from_millis(300));
    let received = block_on(receiver.receive(1, now())).expect("receives");
    assert_eq!(bodies(&received), ["early"]);
}

#[test]
fn an_interrupted_receive_takes_back_its_credit() {
    let server = Server::start();
    let client = server.client();
    let interrupted = receiver(&client, "orders");
    let stop = AtomicBool::new(false);
    let failed = block_on_until(interrupted.receive(10, soon()), Some(Duration::from_millis(20)), || {
        if stop.swap(true, Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Timeout, "interrupted").into());
        }
        Ok(())
    });
    assert_eq!(failed.expect_err("it was interrupted").detail(), "interrupted");
    // Wait for the receiver to have taken back its credit: then others get the message, whose first delivery this is.
    pause(Duration::from_millis(100));
    send(&client.sender("orders"), "for another");
    let other = receiver(&client, "orders");
    let received = receive(&other, 1);
    assert_eq!(bodies(&received), ["for another"]);
    let count = received[0]
        .read(|_, metadata| Ok(metadata.delivery_count))
        .expect("well-formed");
    assert_eq!(count, 0);
    send(&client.sender("orders"), "again");
    assert_eq!(bodies(&receive(&interrupted, 1)), ["again"], "it receives on");
}
