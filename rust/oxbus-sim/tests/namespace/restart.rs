// SPDX-License-Identifier: Apache-2.0
//! The end of a process, and the next one that opens the namespace.

use std::sync::Arc;

use oxbus_broker::durable::StoreOptions;
use oxbus_broker::{ManualClock, Namespace, NamespaceOptions};
use oxbus_model::Result;
use oxbus_model::message::Fields;
use oxbus_store::Wait;

use crate::bus::{Bus, begin};
use crate::place::Place;
use crate::step::Kill;

/// A queue that the model does not know. A send to it is durable only after all earlier entries of its partition.
pub(crate) const FLUSH_QUEUE: &str = "written";

pub(crate) fn open(store: Option<StoreOptions>, clock: &Arc<ManualClock>, partitions: u16) -> Result<Namespace> {
    Namespace::open(NamespaceOptions {
        store,
        partitions: Some(partitions),
        clock: Some(Arc::clone(clock)),
        ..NamespaceOptions::default()
    })
}

impl Bus {
    /// Closes the namespace and opens it again.
    pub(crate) fn close_and_open(&mut self) {
        self.namespace.close();
        self.place.next_owner();
        self.open_next();
        self.world.reopened(true);
    }

    /// Kills the process, and opens the namespace in another one.
    pub(crate) fn kill_and_open(&mut self, kill: Kill) {
        self.flush_partitions();
        if let (Some(stored), Some(death)) = (self.place.stored(), kill.owner_dies) {
            // The owner has nothing to lose that the model knows.
            stored.die_during(death, || {
                let _ = self.namespace.checkpoint();
                self.namespace.close();
            });
        }
        if let (Some(stored), Some(death)) = (self.place.stored(), kill.taker_dies) {
            let taker = stored.next_owner();
            taker.die_during(death, || {
                if let Some(disk) = taker.open() {
                    let _ = open(Some(Place::on(disk)), &self.clock, self.partitions);
                }
            });
            self.world.reopened(false);
        }
        self.place = self.place.after_kill();
        self.open_next();
        self.world.reopened(false);
    }

    fn open_next(&mut self) {
        let next = open(self.place.options(), &self.clock, self.partitions).expect("the namespace is intact");
        self.transactions = [begin(&next, 0), begin(&next, 1)];
        self.slots = std::array::from_fn(|_| None);
        self.held.clear();
        self.namespace = next;
    }

    /// Waits until every partition has written the entries for which no call waited, such as expirations. Without it a
    /// kill could undo them.
    fn flush_partitions(&self) {
        let sender = self.namespace.sender(FLUSH_QUEUE).expect("it was made first");
        for _ in 0..self.partitions {
            sender
                .send(&Fields::default(), None, &Wait::FOREVER)
                .expect("it has room");
        }
    }
}
