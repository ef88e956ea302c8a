// SPDX-License-Identifier: Apache-2.0
//! An owner that another process has deposed answers nothing from memory.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use oxbus_blob::{Fault, MemoryStore};
use oxbus_broker::client::SettleKey;
use oxbus_broker::{ManualClock, ReceiverOptions};
use oxbus_model::name::SubQueue;
use oxbus_model::options::QueueSettings;
use oxbus_model::{Error, Result};
use oxbus_object::Takeover;
use oxbus_store::Wait;

use crate::owner::MortalOwner;
use crate::script::{START, Script, open};

/// How often to look whether the owner has noticed, in milliseconds, and how often at most. Its lease has 6 seconds.
const LOOKS: u32 = 20_000;

/// The error of a call that is made until it fails.
fn error_of(mut call: impl FnMut() -> Result<()>) -> Error {
    let (_open, never) = sync_channel::<()>(0);
    for _ in 0..LOOKS {
        if let Err(error) = call() {
            return error;
        }
        let _ = never.recv_timeout(Duration::from_millis(1));
    }
    panic!("the deposed owner goes on to answer");
}

#[test]
fn a_deposed_owner_answers_no_peek_no_count_and_no_renewal() {
    let (store, clock) = (MemoryStore::default(), Arc::new(ManualClock::new(START)));
    let owner = MortalOwner::new(store.clone(), |_, _| Fault::None);
    let namespace = open(owner.open(Takeover::IfGone).expect("opened"), &clock).expect("opened");
    let queue = namespace
        .create_queue("q", QueueSettings::default(), &Wait::FOREVER)
        .expect("created");
    for _ in 0..2 {
        Script::default().send(&namespace, "a", None).expect("sent");
    }
    let receiver = namespace.receiver("q", ReceiverOptions::default()).expect("it exists");
    let received = receiver.receive_now(1, &Wait::FOREVER).expect("received");
    let delivery = received.as_ref().and_then(|all| all.first()).expect("one message");
    let key = SettleKey {
        index: delivery.index,
        key: delivery.claimed.key,
    };
    let peek = || receiver.browse(1, None, &Wait::FOREVER).map(drop);
    let count = || queue.counts(&Wait::FOREVER).map(drop);
    let backlog = || queue.backlog(SubQueue::Main, &Wait::FOREVER).map(drop);
    let renew = || receiver.renew(key, &Wait::FOREVER).map(drop);
    for call in [&peek as &dyn Fn() -> Result<()>, &count, &backlog, &renew] {
        call().expect("the owner answers");
    }
    let taker = MortalOwner::new(store.another_client(), |_, _| Fault::None);
    let _taken = taker.open(Takeover::AtOnce).expect("taken over");
    let first = error_of(peek);
    for error in [first, error_of(count), error_of(backlog), error_of(renew)] {
        let text = error.to_string();
        assert!(text.contains("another process took the namespace over"), "{text}");
    }
}
