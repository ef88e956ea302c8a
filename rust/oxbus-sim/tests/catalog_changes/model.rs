// SPDX-License-Identifier: Apache-2.0
//! Changes of entities, made in a namespace and in a naive model of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oxbus_broker::durable::StoreOptions;
use oxbus_broker::namespace::{SubscriptionOptions, TopicOptions};
use oxbus_broker::{Namespace, NamespaceOptions};
use oxbus_model::message::{Body, Fields};
use oxbus_model::options::{Durability, QueueSettings};
use oxbus_model::rules::{FilterSettings, RuleSettings};
use oxbus_model::{EntityKind, Result};
use oxbus_store::Wait;
use oxbus_store::fault::FaultDisk;

const DIRECTORY: &str = "/bus";

/// A change of entities. The numbers name queues, topics and subscriptions; each subscription has at most one rule
/// besides the default one.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    CreateQueue(u8),
    CreateTopic(u8),
    CreateSubscription(u8, u8),
    UpdateQueue(u8, u64),
    CreateRule(u8, u8),
    UpdateRule(u8, u8),
    DeleteRule(u8, u8),
    DeleteQueue(u8),
    DeleteTopic(u8),
}

impl Change {
    pub(crate) fn is_deletion(&self) -> bool {
        matches!(self, Self::DeleteQueue(_) | Self::DeleteTopic(_))
    }
}

fn queue(number: u8) -> String {
    format!("q{number}")
}

fn topic(number: u8) -> String {
    format!("t{number}")
}

fn subscription(number: u8) -> String {
    format!("s{number}")
}

fn path(topic_number: u8, number: u8) -> String {
    format!("{}/Subscriptions/{}", topic(topic_number), subscription(number))
}

fn rule(filter: FilterSettings) -> RuleSettings {
    RuleSettings {
        name: "extra".to_owned(),
        filter,
        action: None,
        created_at_ms: 1,
    }
}

/// An entity as a client sees it: its lock duration, and the filters of its rules by name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    lock_ms: u64,
    rules: BTreeMap<String, String>,
}

/// The entities by path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Entities(BTreeMap<String, Shown>);

impl Entities {
    pub(crate) fn has_queue(&self, number: u8) -> bool {
        self.0.contains_key(&queue(number))
    }

    /// The entities after a change; the same ones if it is refused.
    pub(crate) fn after(&self, change: &Change) -> Self {
        let mut next = self.clone();
        let new = |rules: &[(&str, FilterSettings)]| Shown {
            lock_ms: QueueSettings::default().lock_duration_ms,
            rules: rules
                .iter()
                .map(|(name, filter)| ((*name).to_owned(), format!("{filter:?}")))
                .collect(),
        };
        match *change {
            Change::CreateQueue(number) => {
                next.0.entry(queue(number)).or_insert_with(|| new(&[]));
            }
            Change::CreateTopic(number) => {
                next.0.entry(topic(number)).or_insert_with(|| new(&[]));
            }
            Change::CreateSubscription(of, number) if next.0.contains_key(&topic(of)) => {
                let default = || new(&[("$Default", FilterSettings::True)]);
                next.0.entry(path(of, number)).or_insert_with(default);
            }
            Change::CreateSubscription(..) => {}
            Change::UpdateQueue(number, lock_ms) => {
                if let Some(shown) = next.0.get_mut(&queue(number)) {
                    shown.lock_ms = lock_ms;
                }
            }
            Change::CreateRule(of, number) => {
                if let Some(shown) = next.0.get_mut(&path(of, number)) {
                    let filter = || format!("{:?}", FilterSettings::True);
                    shown.rules.entry("extra".to_owned()).or_insert_with(filter);
                }
            }
            Change::UpdateRule(of, number) => {
                let rules = next.0.get_mut(&path(of, number)).map(|shown| &mut shown.rules);
                if let Some(filter) = rules.and_then(|rules| rules.get_mut("extra")) {
                    *filter = format!("{:?}", FilterSettings::False);
                }
            }
            Change::DeleteRule(of, number) => {
                if let Some(shown) = next.0.get_mut(&path(of, number)) {
                    shown.rules.remove("extra");
                }
            }
            Change::DeleteQueue(number) => {
                next.0.remove(&queue(number));
            }
            Change::DeleteTopic(number) => {
                let own = topic(number);
                next.0.retain(|path, _| path.split('/').next() != Some(&own));
            }
        }
        next
    }
}

/// A namespace in a directory on an in-memory disk.
pub(crate) struct Bus(Namespace);

impl Bus {
    pub(crate) fn try_open(disk: &FaultDisk) -> Result<Self> {
        let options = NamespaceOptions {
            store: Some(StoreOptions {
                path: PathBuf::from(DIRECTORY),
                durability: Durability::Fsync,
                owned: None,
                disk: Some(Arc::new(disk.clone())),
                segment_bytes: Some((16 << 10, 32 << 10)),
            }),
            partitions: Some(1),
            ..NamespaceOptions::default()
        };
        Namespace::open(options).map(Self)
    }

    pub(crate) fn open(disk: &FaultDisk) -> Self {
        Self::try_open(disk).expect("the disk is well")
    }

    pub(crate) fn namespace(&self) -> &Namespace {
        &self.0
    }

    pub(crate) fn make(&self, change: &Change) -> Result<()> {
        let (bus, wait, settings) = (&self.0, &Wait::FOREVER, QueueSettings::default());
        match *change {
            Change::CreateQueue(number) => bus.create_queue(&queue(number), settings, wait).map(drop),
            Change::CreateTopic(number) => {
                let options = TopicOptions {
                    support_ordering: false,
                };
                bus.create_topic(&topic(number), settings, options, wait).map(drop)
            }
            Change::CreateSubscription(of, number) => {
                let options = SubscriptionOptions {
                    dead_letter_failed: true,
                };
                let made = bus.create_subscription(&topic(of), &subscription(number), settings, options, None, wait);
                made.map(drop)
            }
            Change::UpdateQueue(number, lock_ms) => {
                let entity = bus.queue(&queue(number))?;
                bus.update(&entity, |settings| settings.lock_duration_ms = lock_ms, wait)
            }
            Change::CreateRule(of, number) => {
                bus.create_rule(&topic(of), &subscription(number), &rule(FilterSettings::True), wait)
            }
            Change::UpdateRule(of, number) => {
                bus.update_rule(&topic(of), &subscription(number), &rule(FilterSettings::False), wait)
            }
            Change::DeleteRule(of, number) => bus.delete_rule(&topic(of), &subscription(number), "extra", wait),
            Change::DeleteQueue(number) => bus.delete(&bus.queue(&queue(number))?),
            Change::DeleteTopic(number) => bus.delete(&bus.topic(&topic(number))?),
        }
    }

    /// The entities as a client sees them.
    pub(crate) fn entities(&self) -> Entities {
        let shown = self.0.list_entities().expect("it is open").into_iter().map(|entity| {
            let name = entity.name().as_str().to_owned();
            if entity.kind() == EntityKind::Subscription {
                let topic = entity.topic().expect("it has one");
                let listed = self.0.list_subscriptions(topic.name().as_str()).expect("it exists");
                assert!(listed.iter().any(|it| it.id() == entity.id()), "{name}");
            }
            let rules = entity.rule_settings().into_iter();
            let shown = Shown {
                lock_ms: entity.settings().lock_duration_ms,
                rules: rules.map(|rule| (rule.name, format!("{:?}", rule.filter))).collect(),
            };
            (name, shown)
        });
        Entities(shown.collect())
    }

    /// Sends a message to a queue. It is synced if there is no error.
    pub(crate) fn send(&self, number: u8) -> Result<()> {
        let fields = Fields {
            body: Body::Data(b"body"),
            ..Fields::default()
        };
        let sender = self.0.sender(&queue(number))?;
        sender.send(&fields, Some(Durability::Fsync), &Wait::FOREVER).map(drop)
    }

    /// The number of messages in a queue.
    pub(crate) fn messages(&self, number: u8) -> usize {
        let counts = self.0.queue_counts(&queue(number), &Wait::FOREVER).expect("it exists");
        counts.total.active as usize
    }
}

/// The bytes of the catalog.
pub(crate) fn catalog_bytes(disk: &FaultDisk) -> Vec<u8> {
    disk.bytes(&Path::new(DIRECTORY).join("catalog")).expect("it exists")
}

/// Cuts the catalog to `len` bytes.
pub(crate) fn cut_catalog(disk: &FaultDisk, len: usize) {
    let bytes = catalog_bytes(disk);
    disk.set_bytes(&Path::new(DIRECTORY).join("catalog"), bytes[..len].to_vec());
}
