// SPDX-License-Identifier: Apache-2.0
//! A network that fails after each number of bytes: nothing acknowledged is lost, nothing settled comes back, a
//! transaction happens as a whole or not at all, and no call hangs.
//!
//! `OXBUS_EVERY_BYTE=1` tries each byte of each failure; otherwise a stride that differs from the sizes of frames.

use std::time::Duration;

use oxbus_amqp::codec::Map;
use oxbus_client::{Client, ClientOptions, Deadline, Received, RetryOptions, Settlement, block_on};
use oxbus_model::Effect;

use super::proxy::{Failure, Proxy};
use super::server::{Server, body, message, receiver};

/// What the client was told about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Stored,
    Not,
    Unknown,
    Completed,
    DeadLettered,
}

/// More bytes than a session has in both directions.
const BYTES: usize = 16_000;
/// A silence is mostly waiting.
const SILENT_THREADS: usize = 48;
const THREADS: usize = 8;
/// Time of a call on a network that is silent.
const BRIEF: Duration = Duration::from_millis(60);
/// Time of a call on any other.
const LONG: Duration = Duration::from_secs(30);

fn stride(usual: usize) -> usize {
    if std::env::var_os("OXBUS_EVERY_BYTE").is_some() {
        1
    } else {
        usual
    }
}

#[test]
fn a_cut_at_any_byte() {
    let seen = try_all(Failure::Cut, stride(41));
    for told in [
        Told::Stored,
        Told::Not,
        Told::Unknown,
        Told::Completed,
        Told::DeadLettered,
    ] {
        assert!(seen.contains(&told), "{told:?} never happened");
    }
}

#[test]
fn a_delay_at_any_byte() {
    let seen = try_all(Failure::Delay, stride(199));
    assert!(!seen.contains(&Told::Not) && !seen.contains(&Told::Unknown), "{seen:?}");
}

#[test]
fn silence_from_any_byte_on() {
    let seen = try_all(Failure::Silence, stride(997));
    assert!(seen.contains(&Told::Unknown) || seen.contains(&Told::Not), "{seen:?}");
}

/// Fails at bytes in steps, and checks each time. Returns what the client was told.
fn try_all(failure: Failure, step: usize) -> Vec<Told> {
    let places: Vec<usize> = (0..BYTES).step_by(step).collect();
    let threads = if failure == Failure::Silence {
        SILENT_THREADS
    } else {
        THREADS
    };
    let share = places.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let shares: Vec<_> = places
            .chunks(share)
            .map(|places| scope.spawn(move || try_at(failure, places)))
            .collect();
        let seen = shares
            .into_iter()
            .flat_map(|share| share.join().expect("no failed check"));
        seen.collect()
    })
}

fn try_at(failure: Failure, places: &[usize]) -> Vec<Told> {
    let server = Server::start();
    let mut seen = Vec::new();
    for &bytes in places {
        let queue = format!("{failure:?}-{bytes}");
        server.create(&queue);
        let work = Work::run(&server, failure, &queue, bytes);
        work.check(&server, &queue);
        seen.extend(work.told.iter().map(|(_, told)| *told));
    }
    seen
}

/// A session: sends, a transaction, a receive, settlements.
struct Work {
    told: Vec<(String, Told)>,
    /// The messages of the transaction, and whether it was committed.
    transaction: (Vec<String>, Told),
}

impl Work {
    fn run(server: &Server, failure: Failure, queue: &str, bytes: usize) -> Self {
        let time = if failure == Failure::Silence { BRIEF } else { LONG };
        let deadline = || Deadline::after(Some(time));
        let proxy = Proxy::new(server, failure);
        let client = Client::new(ClientOptions {
            retry: RetryOptions {
                total: 0,
                ..RetryOptions::default()
            },
            connect_timeout: time,
            ..proxy.options(server)
        })
        .expect("valid settings");
        proxy.after(bytes);
        let sender = client.sender(queue);
        let told_of = |sent: oxbus_client::Result<()>| match sent {
            Ok(()) => Told::Stored,
            Err(error) if error.effect() == Some(Effect::Unknown) => Told::Unknown,
            Err(_) => Told::Not,
        };
        let mut told: Vec<_> = (0..3)
            .map(|number| {
                let text = format!("{bytes}-{number}");
                let sent = block_on(sender.send(&message(&text), None, deadline()));
                (text, told_of(sent))
            })
            .collect();
        let transaction = transact(&client, queue, bytes, deadline());
        let orders = receiver(&client, queue);
        let received = block_on(orders.receive(2, deadline())).unwrap_or_default();
        let dead_letter = Settlement::DeadLetter {
            reason: None,
            description: None,
            changes: Map::new(),
        };
        let settlements = [
            (Settlement::Complete, Told::Completed),
            (dead_letter, Told::DeadLettered),
        ];
        let is_sent = |message: &&Received| told.iter().any(|(sent, _)| *sent == body(message));
        let settled: Vec<_> = received.iter().filter(is_sent).zip(settlements).collect();
        for (message, (settlement, as_told)) in settled {
            let done = block_on(orders.settle(&[message.handle()], &settlement, None, deadline()));
            let is_done = done.is_ok_and(|results| results[0].is_ok());
            let text = body(message);
            let entry = told.iter_mut().find(|(sent, _)| *sent == text).expect("it was sent");
            entry.1 = if is_done { as_told } else { Told::Unknown };
        }
        proxy.end();
        Self { told, transaction }
    }

    fn check(&self, server: &Server, queue: &str) {
        let left = server.ids(queue);
        let count = |text: &String| left.iter().filter(|left| *left == text).count();
        for (text, told) in &self.told {
            let is_right = match told {
                Told::Stored => count(text) == 1,
                Told::Not | Told::Completed | Told::DeadLettered => count(text) == 0,
                Told::Unknown => count(text) <= 1,
            };
            assert!(is_right, "{queue}: {text}: {told:?}: {left:?}");
        }
        let (texts, told) = &self.transaction;
        let stored: Vec<usize> = texts.iter().map(count).collect();
        let is_whole = stored.iter().all(|count| *count == 1) || stored.iter().all(|count| *count == 0);
        assert!(is_whole, "{queue}: {texts:?}: {told:?}: {left:?}");
        match told {
            Told::Stored => assert!(stored.iter().all(|count| *count == 1), "{queue}: {left:?}"),
            Told::Not => assert!(stored.iter().all(|count| *count == 0), "{queue}: {left:?}"),
            _ => {}
        }
    }
}

/// Sends two messages in a transaction. Returns them, and what the client was told of the commit.
fn transact(client: &Client, queue: &str, bytes: usize, deadline: Deadline) -> (Vec<String>, Told) {
    let texts = vec![format!("{bytes}-a"), format!("{bytes}-b")];
    let Ok(transaction) = block_on(client.transaction(deadline)) else {
        return (texts, Told::Not);
    };
    let sender = client.sender(queue);
    for text in &texts {
        if block_on(sender.send(&message(text), Some(&transaction), deadline)).is_err() {
            // Dropped: the server rolls it back.
            return (texts, Told::Not);
        }
    }
    let told = match block_on(transaction.commit(deadline)) {
        Ok(()) => Told::Stored,
        Err(error) if error.effect() == Some(Effect::Unknown) => Told::Unknown,
        Err(_) => Told::Not,
    };
    (texts, told)
}
