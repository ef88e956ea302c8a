// SPDX-License-Identifier: Apache-2.0
//! A blob store: at every request, the owner dies or is taken over while it is paused, and the taker dies.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use oxbus_blob::{Fault, MemoryStore};
use oxbus_broker::ManualClock;
use oxbus_object::{LaneDisk, Takeover};
use oxbus_store::disk::Disk;

use crate::owner::{Death, MortalOwner};
use crate::script::{START, Script, check_next, open};

/// A request that is never sent.
const NEVER: u64 = 1 << 40;

/// What happens to an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// It dies.
    Dies(Death),
    /// Another process takes over before this request arrives. If it dies meanwhile, the owner goes on.
    TakenOver(u64, Option<Death>),
}

/// What a run counted.
#[derive(Default)]
struct Counts {
    owner_requests: u64,
    /// The taker died while it took over.
    taker_died: bool,
}

fn immortal(store: &MemoryStore) -> MortalOwner {
    MortalOwner::new(store.another_client(), |_, _| Fault::None)
}

/// Takes over, and dies then if it shall. Returns the disk unless it dies, and whether it died before the end.
fn take_over(store: &MemoryStore, clock: &Arc<ManualClock>, death: Option<Death>) -> (Option<Arc<LaneDisk>>, bool) {
    let taker = immortal(store);
    let Some(death) = death else {
        return (Some(taker.open(Takeover::AtOnce).expect("the store answers")), false);
    };
    let died = taker.die_during(death, || {
        if let Ok(disk) = taker.open(Takeover::AtOnce) {
            let _ = open(disk, clock);
        }
    });
    (None, died)
}

/// Runs the script on a store, and checks what the next owner finds. A taker may die before.
fn run(event: Event, taker_dies: Option<Death>) -> Counts {
    let (store, clock) = (MemoryStore::default(), Arc::new(ManualClock::new(START)));
    let context = format!("{event:?}, then {taker_dies:?}");
    let taken: Arc<Mutex<(Option<Arc<LaneDisk>>, bool)>> = Arc::default();
    let (blobs, took, time) = (store.another_client(), Arc::clone(&taken), Arc::clone(&clock));
    let owner = MortalOwner::new(store.clone(), move |request, _| {
        if let Event::TakenOver(at, death) = event
            && request == at
        {
            *took.lock().expect("one takeover") = take_over(&blobs, &time, death);
        }
        Fault::None
    });
    let death = match event {
        Event::Dies(death) => death,
        Event::TakenOver(..) => Death {
            request: NEVER,
            arrives: true,
        },
    };
    let mut script = Script::default();
    owner.die_during(death, || {
        if let Ok(disk) = owner.open(Takeover::IfGone)
            && let Ok(namespace) = open(disk, &clock)
        {
            let ran = script.run(&namespace, &clock);
            if matches!(event, Event::TakenOver(NEVER, _)) {
                assert_eq!(ran, Some(()), "the script ran to its end");
            }
        }
    });
    let (disk, mut taker_died) = std::mem::take(&mut *taken.lock().expect("one takeover"));
    if taker_dies.is_some() {
        taker_died |= take_over(&store, &clock, taker_dies).1;
    }
    let first = Mutex::new(disk);
    let next = || -> Arc<dyn Disk> {
        let taken = first.lock().expect("one check at a time").take();
        taken.unwrap_or_else(|| immortal(&store).open(Takeover::AtOnce).expect("the store answers"))
    };
    check_next(&script, next, &clock, &context);
    Counts {
        owner_requests: store.requests().values().sum(),
        taker_died,
    }
}

/// Simulations at once. They wait for the threads of their disks.
const THREADS: u64 = 8;

/// Runs `check` for one in `every` requests of an owner.
fn for_requests(every: u64, check: impl Fn(u64) + Sync) {
    let requests = run(Event::TakenOver(NEVER, None), None).owner_requests;
    assert!(requests > 20, "{requests} requests");
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let request = 1 + every * next.fetch_add(1, Ordering::Relaxed);
                    if request > requests {
                        return;
                    }
                    check(request);
                }
            });
        }
    });
}

#[test]
fn an_owner_that_dies_or_is_taken_over_at_any_request_loses_and_repeats_nothing() {
    for_requests(1, |request| {
        for arrives in [false, true] {
            run(Event::Dies(Death { request, arrives }), None);
        }
        run(Event::TakenOver(request, None), None);
    });
}

#[test]
fn a_taker_that_dies_at_any_request_loses_and_repeats_nothing() {
    // Every one takes minutes.
    let every = if std::env::var_os("OXBUS_SIM_STEPS").is_some() {
        1
    } else {
        29
    };
    let deaths = AtomicUsize::new(0);
    for_requests(every, |owner_request| {
        let dies = |request| Death {
            request,
            arrives: (request + owner_request) % 2 == 0,
        };
        let owner_dies = Event::Dies(dies(owner_request));
        let after_a_death = (1..).take_while(|request| run(owner_dies, Some(dies(*request))).taker_died);
        let of_a_live_owner =
            (1..).take_while(|request| run(Event::TakenOver(owner_request, Some(dies(*request))), None).taker_died);
        // The number of requests depends on the threads, so the last ones may not be sent.
        deaths.fetch_add(after_a_death.count() + of_a_live_owner.count(), Ordering::Relaxed);
    });
    let deaths = deaths.into_inner();
    assert!(deaths > 30, "{deaths} takers died");
}
