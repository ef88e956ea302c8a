// SPDX-License-Identifier: Apache-2.0
//! The open AMQP connections as people see them.
//!
//! A connection describes itself only when the console asks: it then writes its card. So nobody pays for the console
//! while nobody looks.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oxbus_model::sync::ignore_poison;
use serde::Serialize;
use tokio::sync::watch;

/// How long the console waits for the cards of busy connections.
const WAIT_MS: u64 = 60;

/// A link of a connection.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LinkCard {
    pub(crate) name: String,
    /// What the client does: `send`, `receive`, `request`, `reply`, `transaction` or `attaching`.
    pub(crate) role: &'static str,
    pub(crate) entity: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) mode: Option<&'static str>,
    pub(crate) credit: u32,
    /// Numbers of the messages that the client holds, at most a hundred.
    pub(crate) held: Vec<String>,
    pub(crate) unsettled: usize,
    pub(crate) messages: u64,
    pub(crate) idle_ms: u64,
}

/// A connection.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Card {
    pub(crate) peer: Option<String>,
    pub(crate) is_encrypted: bool,
    pub(crate) key_name: Option<String>,
    pub(crate) container: String,
    pub(crate) sdk: String,
    pub(crate) opened_ms: u64,
    pub(crate) messages_in: u64,
    pub(crate) messages_out: u64,
    pub(crate) links: Vec<LinkCard>,
}

/// A card with the number of the question that it answers.
struct Held {
    answers: u64,
    card: Option<Card>,
}

/// The open connections of a server.
pub(crate) struct Connections {
    next: AtomicU64,
    asked: watch::Sender<u64>,
    /// A panic leaves it consistent: a card is replaced in one step.
    cards: Mutex<BTreeMap<u64, Held>>,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            next: AtomicU64::new(1),
            asked: watch::Sender::new(0),
            cards: Mutex::default(),
        }
    }
}

/// A connection's side: it learns of questions, and answers them.
pub(crate) struct Probe {
    number: u64,
    asked: watch::Receiver<u64>,
}

impl Probe {
    /// Waits for the next question.
    pub(crate) async fn asked(&mut self) {
        if self.asked.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Connections {
    /// Adds a connection.
    pub(crate) fn enter(&self) -> Probe {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let held = Held { answers: 0, card: None };
        ignore_poison(self.cards.lock()).insert(number, held);
        Probe {
            number,
            asked: self.asked.subscribe(),
        }
    }

    /// Stores the card of a connection.
    pub(crate) fn answer(&self, probe: &mut Probe, card: Card) {
        let answers = *probe.asked.borrow_and_update();
        let held = Held {
            answers,
            card: Some(card),
        };
        ignore_poison(self.cards.lock()).insert(probe.number, held);
    }

    /// Removes a connection.
    pub(crate) fn leave(&self, probe: &Probe) {
        ignore_poison(self.cards.lock()).remove(&probe.number);
    }

    /// Asks all connections, and returns the cards of those that answer soon, and the last cards of the others.
    pub(crate) async fn ask(&self) -> Vec<(u64, Card)> {
        let mut question = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            question = *asked;
        });
        for _ in 0..WAIT_MS / 3 {
            let is_answered = ignore_poison(self.cards.lock())
                .values()
                .all(|held| held.answers >= question);
            if is_answered {
                break;
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        let cards = ignore_poison(self.cards.lock());
        let known = cards
            .iter()
            .filter_map(|(number, held)| Some((*number, held.card.clone()?)));
        known.collect()
    }
}
