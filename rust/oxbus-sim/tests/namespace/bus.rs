// SPDX-License-Identifier: Apache-2.0
//! The broker beside its model, and their comparison.

use oxbus_store::Wait;
use std::collections::BTreeMap;
use std::sync::Arc;

use oxbus_broker::client::{BrowseItem, Delivery, PendingNumbers, SettleKey, Transaction};
use oxbus_broker::entity::Entity;
use oxbus_broker::{ManualClock, Namespace, Receiver, ReceiverOptions};
use oxbus_model::message::{Fields, Value};
use oxbus_model::name::SubQueue;
use oxbus_model::options::QueueSettings;
use oxbus_model::{Result, SequenceNumber, Timestamp};
use oxbus_sim::World;
use oxbus_sim::model::Refusals;
use oxbus_sim::model::arrival::BrowsedMessage;
use oxbus_sim::model::delivery::{DeliveredMessage, StreamAt};
use oxbus_sim::model::message::{FirstNumber, Message, MessagePhase, NEVER};
use oxbus_sim::model::transaction::TransactionState;
use oxbus_store::MessagePhase as StoredPhase;

use crate::place::{Place, PlaceKind};
use crate::restart::{FLUSH_QUEUE, open};

/// The paths of all entities: queues, a topic, its subscriptions.
pub(crate) const PATHS: [&str; 7] = [
    "a",
    "b",
    "c",
    "t",
    "t/Subscriptions/s1",
    "t/Subscriptions/s2",
    "t/Subscriptions/s3",
];
/// Position of the topic.
pub(crate) const TOPIC: usize = 3;
const START: Timestamp = Timestamp(1_000_000);

/// A receiver and its state in the model.
pub(crate) struct Slot {
    pub(crate) receiver: Receiver,
    pub(crate) at: StreamAt,
    pub(crate) locks: bool,
    /// Its session and the acceptance.
    pub(crate) session: Option<(String, u64)>,
}

/// A message that was delivered under a lock, which may have ended.
#[derive(Clone)]
pub(crate) struct LockedDelivery {
    pub(crate) at: StreamAt,
    pub(crate) number: u64,
    pub(crate) key: SettleKey,
    pub(crate) lock: u64,
    pub(crate) session: Option<(String, u64)>,
}

/// A transaction and its state in the model.
pub(crate) struct OpenTransaction {
    pub(crate) transaction: Transaction,
    pub(crate) work: TransactionState,
    /// Filled with the numbers of its scheduled messages at commit.
    pub(crate) numbers: Vec<PendingNumbers>,
}

pub(crate) struct Bus {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) namespace: Namespace,
    pub(crate) world: World,
    pub(crate) slots: [Option<Slot>; 6],
    pub(crate) held: Vec<LockedDelivery>,
    pub(crate) transactions: [OpenTransaction; 2],
    pub(crate) last_body: u64,
    pub(crate) place: Place,
    pub(crate) partitions: u16,
}

pub(crate) fn begin(namespace: &Namespace, which: usize) -> OpenTransaction {
    let cross_entity = which == 1;
    OpenTransaction {
        transaction: namespace.transaction(cross_entity).expect("open"),
        work: TransactionState {
            cross_entity,
            ..TransactionState::default()
        },
        numbers: Vec::new(),
    }
}

impl Bus {
    pub(crate) fn new(partitions: u16, kind: PlaceKind) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let place = Place::new(kind);
        let namespace = open(place.options(), &clock, partitions).expect("the place is empty");
        let settings = QueueSettings {
            enable_partitioning: true,
            ..QueueSettings::default()
        };
        namespace
            .create_queue(FLUSH_QUEUE, settings, &Wait::FOREVER)
            .expect("valid");
        Self {
            transactions: [begin(&namespace, 0), begin(&namespace, 1)],
            world: World::new(START.0, partitions),
            slots: std::array::from_fn(|_| None),
            held: Vec::new(),
            last_body: 0,
            clock,
            namespace,
            place,
            partitions,
        }
    }

    /// The entity at a position, if it exists.
    pub(crate) fn entity(&self, position: usize) -> Option<usize> {
        self.world.find(PATHS[position])
    }

    /// A receiver of an existing entity.
    pub(crate) fn receiver(&self, (entity, sub_queue): StreamAt) -> Receiver {
        let options = ReceiverOptions {
            sub_queue,
            ..ReceiverOptions::default()
        };
        let path = &self.world.entities[entity].name;
        self.namespace.receiver(path, options).expect("it exists")
    }

    /// Browses entities until the model knows the content of all of them.
    pub(crate) fn browse_unknown(&mut self) {
        // Forwarding moves a newly learned message into another entity.
        let mut unexplained = None;
        for _ in 0..16 {
            let to_browse: Vec<usize> = self
                .world
                .alive_entities()
                .into_iter()
                .filter(|it| self.world.needs_browse(*it))
                .collect();
            unexplained = None;
            for entity in to_browse {
                let (main, dead) = (
                    self.see((entity, SubQueue::Main)),
                    self.see((entity, SubQueue::DeadLetter)),
                );
                unexplained = self.world.learn_from_browse(entity, &main, &dead).or(unexplained);
            }
            if unexplained.is_none() && self.world.entities.iter().all(|entity| entity.arrivals.is_empty()) {
                return;
            }
        }
        panic!(
            "{}",
            unexplained.unwrap_or_else(|| "messages are in transit forever".to_owned())
        );
    }

    /// All messages of a sub-queue, page by page.
    fn browse(&self, at: StreamAt) -> Vec<BrowseItem> {
        let browser = self.receiver(at);
        let mut shown: Vec<BrowseItem> = Vec::new();
        loop {
            let page = browser.browse(250, None, &Wait::FOREVER).expect("it is open");
            if page.is_empty() {
                return shown;
            }
            shown.extend(page);
        }
    }

    fn see(&self, at: StreamAt) -> BTreeMap<u64, BrowsedMessage> {
        let shown = self.browse(at);
        shown
            .iter()
            .map(|browsed| (number_of(browsed), browsed_message(browsed)))
            .collect()
    }

    /// The numbers in a sub-queue.
    pub(crate) fn numbers(&self, at: StreamAt) -> Vec<u64> {
        self.browse(at).iter().map(number_of).collect()
    }

    /// Compares the broker with the model.
    pub(crate) fn compare(&mut self) {
        self.browse_unknown();
        for entity in self.world.alive_entities() {
            let it = &self.world.entities[entity];
            for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
                let mut shown: BTreeMap<u64, String> = BTreeMap::new();
                for browsed in self.browse((entity, sub_queue)) {
                    if let Some(known) = it.stream(sub_queue).messages.get(&number_of(&browsed)) {
                        compare_first_number(&browsed, known.content.first_number);
                    }
                    let before = shown.insert(number_of(&browsed), describe_browsed(&browsed));
                    assert_eq!(before, None, "{}: a browse shows each message once (B-300)", it.name);
                }
                let expected = it.stream(sub_queue).messages.iter();
                let expected: BTreeMap<u64, String> =
                    expected.map(|(number, message)| (*number, describe(message))).collect();
                assert_eq!(shown, expected, "{} {sub_queue:?}: broker left, model right", it.name);
            }
            self.compare_counts(entity);
        }
    }

    fn compare_counts(&self, entity: usize) {
        let it = &self.world.entities[entity];
        let queue = self.namespace.entity(&it.name).expect("it exists");
        let total = queue.counts(&Wait::FOREVER).expect("it owns the namespace").total;
        let waiting = [SubQueue::Main, SubQueue::DeadLetter].map(|it| {
            queue
                .backlog(it, &Wait::FOREVER)
                .expect("it owns the namespace")
                .iter()
                .map(|it| it.messages)
                .sum::<u64>()
        });
        assert_eq!(
            waiting,
            [total.active, total.dead_letter],
            "{}: `backlog` matches the counts",
            it.name
        );
        let count = |is: fn(&Message) -> bool| it.main.messages.values().filter(|it| is(it)).count() as u64;
        let scheduled = count(|it| matches!(it.phase, MessagePhase::Scheduled { .. }) || it.is_delayed());
        let got = (
            total.active,
            total.locked,
            total.deferred,
            total.scheduled,
            total.dead_letter,
        );
        let is_moving = it.settings.forward_to.is_some();
        let expected = (
            // A forwarding entity counts only locked and deferred messages; the others are in transit.
            if is_moving {
                count(|it| it.lock.is_some() || it.phase == MessagePhase::Deferred)
            } else {
                it.main.messages.len() as u64 - scheduled
            },
            count(|it| it.lock.is_some()),
            count(|it| it.phase == MessagePhase::Deferred),
            scheduled,
            it.dead.messages.len() as u64,
        );
        assert_eq!(
            got, expected,
            "{}: active, locked, deferred, scheduled, dead (B-389)",
            it.name
        );
        if it.settings.requires_session {
            let listed = queue.list_sessions(&Wait::FOREVER).expect("it has sessions");
            let listed: std::collections::BTreeSet<String> =
                listed.into_iter().map(|(_, info)| info.id.to_string()).collect();
            let (must, may) = self.world.listed(entity);
            assert!(
                must.is_subset(&listed) && listed.is_subset(&may),
                "{}: {must:?} {listed:?} {may:?}",
                it.name
            );
        }
    }
}

pub(crate) fn number_of(browsed: &BrowseItem) -> u64 {
    Entity::sequence_number(browsed.index, browsed.message.counter).0
}

fn browsed_message(browsed: &BrowseItem) -> BrowsedMessage {
    let record = browsed.message.record.in_memory().expect("shown");
    let fields = Fields::decode(record).expect("stored by the sender");
    let property = |name: &str| match fields.application_properties.and_then(|all| all.get(name)) {
        Some(Value::Text(text)) => Some(text.to_owned()),
        _ => None,
    };
    BrowsedMessage {
        body: body_of(&fields),
        rule: property("RuleName"),
        reason: property("DeadLetterReason"),
        hops: fields.hops.unwrap_or(0),
        since: browsed.message.enqueued_at.0,
    }
}

fn body_of(fields: &Fields<'_>) -> u64 {
    u64::from_be_bytes(fields.body.bytes().try_into().expect("eight bytes"))
}

fn describe_browsed(browsed: &BrowseItem) -> String {
    let BrowsedMessage {
        body,
        rule,
        reason,
        hops,
        since,
    } = browsed_message(browsed);
    let message = &browsed.message;
    let place = match message.phase {
        StoredPhase::Ready | StoredPhase::Cached => "free",
        StoredPhase::Locked => "locked",
        StoredPhase::Deferred => "deferred",
        StoredPhase::DeferredLocked => "deferred and locked",
        StoredPhase::Scheduled => "scheduled",
    };
    let record = message.record.in_memory().expect("shown");
    let fields = Fields::decode(record).expect("stored by the sender");
    let life = if message.expires_at == Timestamp::NEVER {
        NEVER
    } else {
        message.expires_at.0
    };
    let expires = if message.phase == StoredPhase::Scheduled {
        None
    } else {
        Some(life)
    };
    format!(
        "body {body} {place} count {} since {since} until {expires:?} rule {rule:?} reason {reason:?} hops {hops} session {:?}",
        message.delivery_count, fields.session_id
    )
}

fn describe(message: &Message) -> String {
    let content = &message.content;
    let is_held = message.lock.is_some() || message.delayed_until.is_some();
    let place = match (message.phase, is_held) {
        (MessagePhase::Ready, _) if message.is_delayed() => "scheduled",
        (MessagePhase::Ready, false) => "free",
        (MessagePhase::Ready, true) => "locked",
        (MessagePhase::Deferred, false) => "deferred",
        (MessagePhase::Deferred, true) => "deferred and locked",
        (MessagePhase::Scheduled { .. }, _) => "scheduled",
    };
    // The time to live of a scheduled message begins when it is due (B-243).
    let expires = if place == "scheduled" {
        None
    } else {
        Some(message.expires_at)
    };
    format!(
        "body {} {place} count {} since {} until {expires:?} rule {:?} reason {:?} hops {} session {:?}",
        content.body,
        message.count,
        message.enqueued_at,
        content.rule,
        content.reason,
        content.hops,
        content.session.as_deref()
    )
}

/// Compares the number at the first entity (B-113, B-338).
fn compare_first_number(browsed: &BrowseItem, expected: FirstNumber) {
    let record = browsed.message.record.in_memory().expect("shown");
    let shown = Fields::decode(record).expect("stored by the sender").enqueued_number;
    match expected {
        FirstNumber::None => assert_eq!(shown, None, "it was submitted here"),
        FirstNumber::Known(number) => assert_eq!(shown, Some(SequenceNumber(number)), "its first number (B-113)"),
        FirstNumber::Unseen => assert!(shown.is_some(), "it has a first number (B-113)"),
    }
}

/// Checks the result of a call against the errors that the model allows. Returns `None` for an allowed error.
pub(crate) fn check_result<T>(what: &str, refusals: &Refusals, result: Result<T>) -> Option<T> {
    match result {
        Ok(done) => {
            assert!(refusals.is_empty(), "{what}: done, although {refusals:?}");
            Some(done)
        }
        Err(error) => {
            let kind = error.kind();
            assert!(
                refusals.contains(&kind),
                "{what}: {kind:?} {error}; expected one of {refusals:?}"
            );
            None
        }
    }
}

/// Converts a delivery for the model.
pub(crate) fn delivered(delivery: &Delivery) -> DeliveredMessage {
    let record = delivery.claimed.record.in_memory().expect("delivered");
    let fields = Fields::decode(record).expect("stored by the sender");
    DeliveredMessage {
        number: Entity::sequence_number(delivery.index, delivery.claimed.key.counter).0,
        body: body_of(&fields),
        count: delivery.claimed.delivery_count,
        enqueued_at: delivery.claimed.enqueued_at.0,
        locked_until: delivery.locked_until.map(|until| until.0),
    }
}

pub(crate) fn sequence_numbers(numbers: &[u64]) -> Vec<SequenceNumber> {
    numbers.iter().copied().map(SequenceNumber).collect()
}
