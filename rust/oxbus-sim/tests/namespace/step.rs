// SPDX-License-Identifier: Apache-2.0
//! The steps of a run. Steps refer to things by position, so that a run stays valid while it shrinks.

use oxbus_model::options::{EntityStatus, QueueSettings};
use oxbus_sim::model::delivery::SettleAction;
use oxbus_sim::model::topic::{Filter, Rule, SQL};
use proptest::prelude::*;

use crate::owner::Death;

/// A message to send. Small numbers choose among few texts; `None` leaves the field out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draft {
    pub(crate) session: Option<u8>,
    pub(crate) key: Option<u8>,
    pub(crate) id: Id,
    pub(crate) subject: Option<u8>,
    pub(crate) n: Option<i64>,
    pub(crate) color: Option<u8>,
    pub(crate) ttl_ms: Option<u64>,
}

/// The id of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Id {
    None,
    Own,
    Shared(u8),
}

/// Messages to send together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) draft: Draft,
    pub(crate) count: usize,
    /// The last message has another key.
    pub(crate) is_mixed: bool,
    pub(crate) delay_ms: Option<u64>,
}

/// A change of one setting.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    Lock(u64),
    MaxDeliveries(u32),
    Life(Option<u64>),
    DeadLetterExpired(bool),
    Window(u64),
    Status(EntityStatus),
    Forward(Option<usize>),
    ForwardDead(Option<usize>),
    Partitioning,
    Sessions,
}

/// How a process ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Close,
    CheckpointAndClose,
    Kill(Kill),
}

/// How a process is killed. In a store, its owner otherwise lives on, and is taken over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kill {
    /// The owner dies at a request that it sends while it stores a snapshot and closes.
    pub(crate) owner_dies: Option<Death>,
    /// The first process that takes over dies at a request.
    pub(crate) taker_dies: Option<Death>,
}

/// A step. `entity` is a position in [`super::bus::PATHS`]; `pick` chooses among the candidates.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Send {
        entity: usize,
        load: Load,
    },
    Cancel {
        entity: usize,
        pick: usize,
        count: usize,
    },
    Open {
        slot: usize,
        entity: usize,
        dead: bool,
        deletes: bool,
        prefetch: usize,
    },
    Accept {
        slot: usize,
        entity: usize,
        session: Option<u8>,
        deletes: bool,
    },
    Close {
        slot: usize,
    },
    Receive {
        slot: usize,
        max: usize,
    },
    Drain {
        slot: usize,
    },
    Settle {
        pick: usize,
        action: SettleAction,
    },
    SettleMany {
        slot: usize,
        action: SettleAction,
    },
    Renew {
        pick: usize,
    },
    Fetch {
        slot: usize,
        pick: usize,
        count: usize,
        any_message: bool,
    },
    RenewSession {
        slot: usize,
    },
    ReadState {
        slot: usize,
    },
    SetState {
        slot: usize,
        state: Option<u8>,
    },
    Begin {
        work: usize,
    },
    SendIn {
        work: usize,
        entity: usize,
        load: Load,
    },
    SettleIn {
        work: usize,
        pick: usize,
        count: usize,
        action: SettleAction,
    },
    StateIn {
        work: usize,
        slot: usize,
        state: Option<u8>,
    },
    Commit {
        work: usize,
    },
    RollBack {
        work: usize,
    },
    Purge {
        entity: usize,
        dead: bool,
        limit: usize,
    },
    Resubmit {
        entity: usize,
        limit: usize,
    },
    Create {
        entity: usize,
        settings: QueueSettings,
        rule: Option<Rule>,
    },
    Update {
        entity: usize,
        change: Change,
    },
    Delete {
        entity: usize,
    },
    AddRule {
        entity: usize,
        rule: Rule,
    },
    RemoveRule {
        entity: usize,
        pick: usize,
    },
    Advance {
        ms: u64,
    },
    Reopen {
        end: End,
        ms: u64,
    },
}

fn draft() -> impl Strategy<Value = Draft> {
    let id = prop_oneof![1 => Just(Id::None), 4 => Just(Id::Own), 2 => (0u8..3).prop_map(Id::Shared)];
    (
        prop::option::weighted(0.6, 0u8..5),
        prop::option::weighted(0.3, 0u8..5),
        id,
        prop::option::of(0u8..3),
        prop::option::of(0i64..4),
        prop::option::of(0u8..3),
        prop::option::weighted(0.3, prop_oneof![Just(1_000u64), Just(4_000), Just(30_000)]),
    )
        .prop_map(|(session, key, id, subject, n, color, ttl_ms)| Draft {
            session,
            key,
            id,
            subject,
            n,
            color,
            ttl_ms,
        })
}

fn load() -> impl Strategy<Value = Load> {
    let delay_ms = prop::option::weighted(0.2, prop_oneof![Just(0u64), Just(500), Just(3_000), Just(20_000)]);
    (
        draft(),
        prop_oneof![4 => Just(1usize), 2 => 2usize..5],
        prop::bool::weighted(0.1),
        delay_ms,
    )
        .prop_map(|(draft, count, is_mixed, delay_ms)| Load {
            draft,
            count,
            is_mixed,
            delay_ms,
        })
}

fn action() -> impl Strategy<Value = SettleAction> {
    prop_oneof![
        2 => Just(SettleAction::Complete),
        3 => Just(SettleAction::Abandon),
        2 => prop_oneof![Just(0u64), Just(500), Just(3_000), Just(20_000)].prop_map(SettleAction::AbandonFor),
        2 => Just(SettleAction::Defer),
        2 => Just(SettleAction::DeadLetter),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let filter = prop_oneof![
        2 => Just(Filter::True),
        1 => Just(Filter::False),
        1 => (0u8..3).prop_map(|it| Filter::Subject(text("subject", it))),
        1 => (0u8..3).prop_map(|it| Filter::Color(text("color", it))),
        4 => (0..SQL.len()).prop_map(Filter::Sql),
    ];
    (0u8..4, filter, prop::bool::weighted(0.3)).prop_map(|(name, filter, acts)| Rule {
        name: format!("r{name}"),
        filter,
        acts,
    })
}

pub(crate) fn settings() -> impl Strategy<Value = QueueSettings> {
    (
        any::<bool>(),
        prop_oneof![Just(1_000u64), Just(6_000)],
        1u32..4,
        prop::option::weighted(0.3, prop_oneof![Just(3_000u64), Just(20_000)]),
        any::<bool>(),
        prop::bool::weighted(0.3),
        prop_oneof![Just(1_000u64), Just(10_000)],
        prop::bool::weighted(0.3),
        (
            prop::option::weighted(0.1, 0usize..4),
            prop::option::weighted(0.1, 0usize..4),
        ),
    )
        .prop_map(
            |(partitioned, lock, max, life, dead_letter_expired, detects, window, sessions, (to, dead_to))| {
                QueueSettings {
                    enable_partitioning: partitioned,
                    lock_duration_ms: lock,
                    max_delivery_count: max,
                    default_time_to_live_ms: life,
                    dead_lettering_on_message_expiration: dead_letter_expired,
                    requires_duplicate_detection: detects,
                    duplicate_window_ms: window,
                    requires_session: sessions,
                    forward_to: to.map(|to| super::bus::PATHS[to].to_owned()),
                    forward_dead_letters_to: dead_to.map(|to| super::bus::PATHS[to].to_owned()),
                    ..QueueSettings::default()
                }
            },
        )
}

/// Creation of an entity, with the first rule of a subscription.
pub(crate) fn creation(entity: impl Strategy<Value = usize>) -> impl Strategy<Value = Step> {
    (entity, settings(), prop::option::of(rule())).prop_map(|(entity, settings, rule)| Step::Create {
        entity,
        settings,
        rule,
    })
}

fn change() -> impl Strategy<Value = Change> {
    let status = prop_oneof![
        3 => Just(EntityStatus::Active),
        1 => Just(EntityStatus::Disabled),
        1 => Just(EntityStatus::SendDisabled),
        1 => Just(EntityStatus::ReceiveDisabled),
    ];
    prop_oneof![
        1 => prop_oneof![Just(1_000u64), Just(6_000)].prop_map(Change::Lock),
        1 => (1u32..4).prop_map(Change::MaxDeliveries),
        1 => prop::option::of(Just(3_000u64)).prop_map(Change::Life),
        1 => any::<bool>().prop_map(Change::DeadLetterExpired),
        1 => prop_oneof![Just(1_000u64), Just(10_000)].prop_map(Change::Window),
        3 => status.prop_map(Change::Status),
        2 => prop::option::weighted(0.3, 0usize..4).prop_map(Change::Forward),
        2 => prop::option::weighted(0.3, 0usize..4).prop_map(Change::ForwardDead),
        1 => Just(Change::Partitioning),
        1 => Just(Change::Sessions),
    ]
}

/// One of a few texts.
pub(crate) fn text(kind: &str, which: u8) -> String {
    let texts: &[&str] = match kind {
        "session" => &["", "a", "b", "c", "d"],
        "key" => &["a", "b", "k", "l", "m"],
        "subject" => &["x", "y", "z"],
        "color" => &["red", "blue", "green"],
        _ => &["i", "j", "k"],
    };
    texts[usize::from(which)].to_owned()
}

pub(crate) fn step(is_durable: bool) -> impl Strategy<Value = Step> {
    let entity = || 0usize..7;
    let slot = || 0usize..6;
    let work = || 0usize..2;
    let pick = || 0usize..1_000;
    let death =
        || prop::option::of((1u64..40, any::<bool>()).prop_map(|(request, arrives)| Death { request, arrives }));
    let kill = (death(), death()).prop_map(|(owner_dies, taker_dies)| Kill { owner_dies, taker_dies });
    let end = prop_oneof![
        1 => Just(End::Close),
        1 => Just(End::CheckpointAndClose),
        2 => kill.prop_map(End::Kill),
    ];
    let flow = prop_oneof![
        14 => (0usize..4, load()).prop_map(|(entity, load)| Step::Send { entity, load }),
        2 => (entity(), pick(), 1usize..3).prop_map(|(entity, pick, count)| Step::Cancel { entity, pick, count }),
        5 => (slot(), entity(), prop::bool::weighted(0.3), prop::bool::weighted(0.2), prop_oneof![2 => Just(0usize), 1 => 1usize..12])
            .prop_map(|(slot, entity, dead, deletes, prefetch)| Step::Open { slot, entity, dead, deletes, prefetch }),
        5 => (slot(), entity(), prop::option::of(0u8..5), prop::bool::weighted(0.2))
            .prop_map(|(slot, entity, session, deletes)| Step::Accept { slot, entity, session, deletes }),
        2 => slot().prop_map(|slot| Step::Close { slot }),
        14 => (slot(), prop_oneof![Just(1usize), 1usize..10]).prop_map(|(slot, max)| Step::Receive { slot, max }),
        1 => slot().prop_map(|slot| Step::Drain { slot }),
        14 => (pick(), action()).prop_map(|(pick, action)| Step::Settle { pick, action }),
        2 => (slot(), action()).prop_map(|(slot, action)| Step::SettleMany { slot, action }),
        2 => pick().prop_map(|pick| Step::Renew { pick }),
        4 => (slot(), pick(), 1usize..4, prop::bool::weighted(0.2))
            .prop_map(|(slot, pick, count, any_message)| Step::Fetch { slot, pick, count, any_message }),
        2 => slot().prop_map(|slot| Step::RenewSession { slot }),
        1 => slot().prop_map(|slot| Step::ReadState { slot }),
        1 => (slot(), prop::option::of(0u8..3)).prop_map(|(slot, state)| Step::SetState { slot, state }),
    ];
    let transaction = prop_oneof![
        2 => work().prop_map(|work| Step::Begin { work }),
        4 => (work(), 0usize..4, load()).prop_map(|(work, entity, load)| Step::SendIn { work, entity, load }),
        4 => (work(), pick(), prop_oneof![2 => Just(1usize), 1 => 2usize..5], action())
            .prop_map(|(work, pick, count, action)| Step::SettleIn { work, pick, count, action }),
        1 => (work(), slot(), prop::option::of(0u8..3)).prop_map(|(work, slot, state)| Step::StateIn { work, slot, state }),
        4 => work().prop_map(|work| Step::Commit { work }),
        1 => work().prop_map(|work| Step::RollBack { work }),
    ];
    let management = prop_oneof![
        2 => (entity(), any::<bool>(), prop_oneof![Just(1_000usize), 1usize..4])
            .prop_map(|(entity, dead, limit)| Step::Purge { entity, dead, limit }),
        3 => (entity(), prop_oneof![Just(1_000usize), 1usize..4])
            .prop_map(|(entity, limit)| Step::Resubmit { entity, limit }),
        3 => creation(entity()),
        6 => (entity(), change()).prop_map(|(entity, change)| Step::Update { entity, change }),
        1 => entity().prop_map(|entity| Step::Delete { entity }),
        2 => (4usize..7, rule()).prop_map(|(entity, rule)| Step::AddRule { entity, rule }),
        1 => (4usize..7, pick()).prop_map(|(entity, pick)| Step::RemoveRule { entity, pick }),
    ];
    let ms =
        || prop_oneof![4 => Just(400u64), 4 => Just(1_000), 2 => Just(5_000), 1 => Just(20_000), 1 => Just(119_000)];
    let time = ms().prop_map(|ms| Step::Advance { ms });
    let reopen = (end, prop_oneof![Just(0u64), ms()]).prop_map(|(end, ms)| Step::Reopen { end, ms });
    prop_oneof![
        70 => flow,
        12 => transaction,
        10 => management,
        8 => time,
        if is_durable { 2 } else { 0 } => reopen,
    ]
}
