// SPDX-License-Identifier: Apache-2.0
//! A blob store: the owner dies, or is taken over while it is paused, at every request; requests are lost and repeated.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use oxbus_blob::{Fault, MemoryStore};
use oxbus_broker::ManualClock;
use oxbus_object::{LaneDisk, LaneDiskOptions, Takeover};
use oxbus_store::disk::Disk;

use crate::script::{START, Script, check_next, open};

/// What happens at a request of the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// The owner dies before it sends the request.
    DiesBefore,
    /// The store takes the request, and the owner dies before it gets the answer.
    DiesAfter,
    /// Another owner takes over before the request arrives.
    TakenOver,
    /// Nothing.
    Nothing,
}

fn take_over(store: &MemoryStore) -> LaneDisk {
    let options = LaneDiskOptions {
        takeover: Takeover::AtOnce,
        ..LaneDiskOptions::default()
    };
    let opened = LaneDisk::open(Arc::new(store.another_client()), options);
    opened.expect("the store answers").0
}

/// Runs the script on a store, and checks what the next owner finds. Returns the number of requests.
fn run_until(event: Event, at: u64) -> u64 {
    let (store, clock) = (MemoryStore::default(), Arc::new(ManualClock::new(START)));
    let context = format!("{event:?} at request {at}");
    let taker: Arc<Mutex<Option<LaneDisk>>> = Arc::default();
    let (dies, died) = sync_channel(1);
    let (mut requests, blobs, took) = (0, store.another_client(), Arc::clone(&taker));
    store.set_faults(move |_, _| {
        requests += 1;
        let is_dead = matches!(event, Event::DiesBefore | Event::DiesAfter) && requests > at;
        if requests == at {
            match event {
                Event::TakenOver => {
                    let disk = take_over(&blobs);
                    *took.lock().expect("one takeover") = Some(disk);
                }
                Event::DiesBefore => {
                    let _ = dies.send(());
                    return Fault::Lost;
                }
                Event::DiesAfter => {
                    let _ = dies.send(());
                    return Fault::AnswerLost;
                }
                Event::Nothing => {}
            }
        }
        if is_dead { Fault::Denied } else { Fault::None }
    });
    let mut script = Script::default();
    let opened = LaneDisk::open(Arc::new(store.clone()), LaneDiskOptions::default());
    if let Ok((disk, _)) = opened {
        let disk = Arc::new(disk);
        let dying = Arc::clone(&disk);
        let death = std::thread::spawn(move || {
            if died.recv().is_ok() {
                dying.abandon();
            }
        });
        if let Ok(namespace) = open(Arc::<LaneDisk>::clone(&disk), &clock) {
            let ran = script.run(&namespace, &clock);
            if event == Event::Nothing {
                assert_eq!(ran, Some(()), "the script ran to its end");
            }
        }
        disk.abandon();
        // Ends the thread if nothing happened.
        store.set_faults(|_, _| Fault::None);
        death.join().expect("it only abandons the disk");
    }
    let requests = store.requests().values().sum();
    let taken = taker.lock().expect("one takeover").take();
    let first = Mutex::new(taken);
    let next = || -> Arc<dyn Disk> {
        let taken = first.lock().expect("one check at a time").take();
        Arc::new(taken.unwrap_or_else(|| take_over(&store)))
    };
    check_next(&script, next, &clock, &context);
    requests
}

#[test]
fn an_owner_that_dies_or_is_taken_over_at_any_request_loses_and_repeats_nothing() {
    let requests = run_until(Event::Nothing, 0);
    assert!(requests > 20, "{requests} requests");
    for at in 1..=requests {
        for event in [Event::DiesBefore, Event::DiesAfter, Event::TakenOver] {
            run_until(event, at);
        }
    }
}
