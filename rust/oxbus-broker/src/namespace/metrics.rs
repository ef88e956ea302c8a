// SPDX-License-Identifier: Apache-2.0
//! The metrics of a namespace.
//!
//! Depths and ages are read from the stores at each scrape. Counters and durations are counted once metrics are on,
//! from zero. Beyond [`METRIC_ENTITIES_MAX`] entities the least used ones are summed as one entity `other`.

use std::borrow::Cow;

use oxbus_model::caps::METRIC_ENTITIES_MAX;
use oxbus_model::name::SubQueue;
use oxbus_model::{Result, Timestamp};
use oxbus_store::Wait;

use super::Namespace;
use crate::entity::{Entity, PartitionCounts};
use crate::metrics::{Family, Labels};
use crate::shard::{METERS, Meter, MeterCounts, Shard};

/// A gauge of an entity: name, help, value.
type Depth = (&'static str, &'static str, fn(&PartitionCounts) -> u64);

const DEPTHS: [Depth; 7] = [
    (
        "oxbus_active_messages",
        "Messages that can be received or are locked",
        |it| it.active,
    ),
    ("oxbus_locked_messages", "Locked messages", |it| it.locked),
    ("oxbus_scheduled_messages", "Messages that are not due yet", |it| {
        it.scheduled
    }),
    (
        "oxbus_deferred_messages",
        "Messages that are fetched by number only",
        |it| it.deferred,
    ),
    (
        "oxbus_dead_letter_messages",
        "Messages in the dead-letter queue",
        |it| it.dead_letter,
    ),
    (
        "oxbus_transfer_messages",
        "Messages on their way to another entity",
        |it| it.transfer,
    ),
    ("oxbus_size_bytes", "Bytes of all messages", |it| it.size_bytes),
];

/// A counter of an entity: its name and help, and for each of its meters the value of the further label.
struct Counted {
    name: &'static str,
    help: &'static str,
    label: Option<&'static str>,
    meters: &'static [(Meter, &'static str)],
}

const COUNTED: [Counted; 6] = [
    Counted {
        name: "oxbus_sent_messages",
        help: "Messages that arrived or were scheduled",
        label: None,
        meters: &[(Meter::Sent, "")],
    },
    Counted {
        name: "oxbus_received_messages",
        help: "Deliveries to receivers and reservations",
        label: None,
        meters: &[(Meter::Received, "")],
    },
    Counted {
        name: "oxbus_settled_messages",
        help: "Messages that their receivers settled, by outcome",
        label: Some("outcome"),
        meters: &[
            (Meter::Completed, "complete"),
            (Meter::Abandoned, "abandon"),
            (Meter::Deferred, "defer"),
            (Meter::Rejected, "dead_letter"),
        ],
    },
    Counted {
        name: "oxbus_dead_lettered_messages",
        help: "Messages that moved to the dead-letter queue, by reason",
        label: Some("reason"),
        meters: &[
            (Meter::Rejected, "rejected"),
            (Meter::DeliveriesExhausted, "max_delivery_count"),
            (Meter::ExpiredToDeadLetters, "expired"),
            (Meter::WithoutSession, "no_session_id"),
            (Meter::RuleFailed, "rule_failed"),
        ],
    },
    Counted {
        name: "oxbus_expired_messages",
        help: "Messages that expired, removed or dead-lettered",
        label: Some("effect"),
        meters: &[
            (Meter::ExpiredRemoved, "removed"),
            (Meter::ExpiredToDeadLetters, "dead_lettered"),
        ],
    },
    Counted {
        name: "oxbus_duplicate_messages",
        help: "Messages that were dropped as duplicates",
        label: None,
        meters: &[(Meter::Duplicate, "")],
    },
];

/// The figures of one entity, or of all that are not shown alone.
struct EntityFigures {
    labels: Labels,
    counts: PartitionCounts,
    /// Enqueued time of the oldest message that waits.
    oldest: Option<Timestamp>,
    meters: MeterCounts,
}

impl EntityFigures {
    fn of(entity: &Entity, wait: &Wait<'_>) -> Result<Self> {
        let backlog = entity.backlog(SubQueue::Main, wait)?;
        Ok(Self {
            labels: vec![
                ("entity", Cow::Owned(entity.name().as_str().to_owned())),
                ("kind", Cow::Borrowed(entity.kind().name())),
            ],
            counts: entity.counts(wait)?.total,
            oldest: backlog.iter().filter_map(|it| it.oldest).min(),
            meters: entity.meter_counts(),
        })
    }

    fn of_others() -> Self {
        Self {
            labels: vec![("entity", "other".into()), ("kind", "other".into())],
            counts: PartitionCounts::default(),
            oldest: None,
            meters: [0; METERS],
        }
    }

    /// How much an entity is used: its messages and what happened to them.
    fn use_count(&self) -> u64 {
        self.counts.active + self.counts.scheduled + self.counts.dead_letter + self.meters.iter().sum::<u64>()
    }

    fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.oldest = self.oldest.into_iter().chain(other.oldest).min();
        for (sum, count) in self.meters.iter_mut().zip(other.meters) {
            *sum += count;
        }
    }

    fn with_label(&self, label: Option<&'static str>, value: &'static str) -> Labels {
        let mut labels = self.labels.clone();
        labels.extend(label.map(|label| (label, Cow::Borrowed(value))));
        labels
    }
}

/// The entities to show: the most used ones by name, the others as one.
fn bounded(mut entities: Vec<EntityFigures>) -> Vec<EntityFigures> {
    if entities.len() <= METRIC_ENTITIES_MAX {
        return entities;
    }
    entities.sort_by_key(|entity| std::cmp::Reverse(entity.use_count()));
    let mut others = EntityFigures::of_others();
    for entity in entities.drain(METRIC_ENTITIES_MAX..) {
        others.add(&entity);
    }
    entities.push(others);
    entities
}

impl Namespace {
    /// Begins to count messages and waits. Before that, no metric costs a call anything.
    pub fn switch_metrics_on(&self) {
        for shard in self.inner.shards.iter() {
            shard.switch_metrics_on();
        }
        self.sync_times();
    }

    fn sync_times(&self) -> Vec<(Labels, oxbus_model::latency::Latencies)> {
        let Some(stores) = self.stores() else {
            return Vec::new();
        };
        let shards = self.inner.shards.iter().map(|shard| shard.id());
        let with_store = shards.filter_map(|id| Some((id, stores.shard(id.0)?)));
        with_store
            .map(|(id, store)| (vec![("partition", id.to_string().into())], store.log().sync_times()))
            .collect()
    }

    /// All metrics at this time, and switches them on if they are off.
    pub fn metrics(&self, wait: &Wait<'_>) -> Result<Vec<Family>> {
        self.switch_metrics_on();
        let now = self.clock().now();
        let entities = self.list_entities()?;
        let figures = entities.iter().map(|entity| EntityFigures::of(entity, wait));
        let entities = bounded(figures.collect::<Result<_>>()?);
        let mut families = Vec::with_capacity(DEPTHS.len() + COUNTED.len() + 7);
        for (name, help, value) in DEPTHS {
            let sample = |it: &EntityFigures| (it.labels.clone(), value(&it.counts) as f64);
            families.push(Family::gauge(name, help, entities.iter().map(sample).collect()));
        }
        let age = |it: &EntityFigures| {
            let ms = it.oldest.map_or(0, |oldest| now.0.saturating_sub(oldest.0));
            (it.labels.clone(), ms as f64 / 1000.0)
        };
        families.push(Family::gauge(
            "oxbus_oldest_message_age_seconds",
            "Age of the oldest message that waits for a receiver or is locked, 0 without one",
            entities.iter().map(age).collect(),
        ));
        for counted in &COUNTED {
            let samples = entities.iter().flat_map(|it| {
                let sample = |(meter, value): &(Meter, &'static str)| {
                    (it.with_label(counted.label, value), it.meters[*meter as usize])
                };
                counted.meters.iter().map(sample)
            });
            families.push(Family::counter(counted.name, counted.help, samples.collect()));
        }
        families.extend(self.partition_metrics());
        families.push(self.held_times());
        Ok(families)
    }

    /// How long receivers hold messages.
    fn held_times(&self) -> Family {
        let label = |shard: &Shard| vec![("partition", Cow::Owned(shard.id().to_string()))];
        let shards = self.inner.shards.iter();
        let times = shards.filter_map(|shard| Some((label(shard), shard.wait_times()?.held())));
        Family::histogram(
            "oxbus_delivery_seconds",
            "Time from a delivery to its settlement, of one message in eight",
            times.collect(),
        )
    }

    fn partition_metrics(&self) -> Vec<Family> {
        let label = |shard: &Shard| vec![("partition", Cow::Owned(shard.id().to_string()))];
        let shards = || self.inner.shards.iter();
        let healthy = shards().map(|it| (label(it), f64::from(u8::from(it.health().serves()))));
        let mut families = vec![Family::gauge(
            "oxbus_partition_healthy",
            "1 while a partition serves, 0 while it is out of service",
            healthy.collect(),
        )];
        if self.stores().is_none() {
            return families;
        }
        let with_journal = || shards().filter_map(|shard| Some((shard, shard.journal()?)));
        families.push(Family::gauge(
            "oxbus_journal_bytes",
            "Bytes of journal since the last snapshot, which the next open reads",
            with_journal()
                .map(|(shard, journal)| (label(shard), journal.unsaved_bytes() as f64))
                .collect(),
        ));
        families.push(Family::gauge(
            "oxbus_snapshot_bytes",
            "Bytes of the last snapshot",
            with_journal()
                .map(|(shard, journal)| (label(shard), journal.snapshot_bytes() as f64))
                .collect(),
        ));
        families.push(Family::gauge(
            "oxbus_snapshot_age_seconds",
            "Time since the last snapshot, or since the open without one",
            with_journal()
                .map(|(shard, journal)| (label(shard), journal.snapshot_age().as_secs_f64()))
                .collect(),
        ));
        families.push(Family::counter(
            "oxbus_snapshot_failures",
            "Snapshots that failed since the open",
            with_journal()
                .map(|(shard, journal)| (label(shard), journal.snapshot_failures()))
                .collect(),
        ));
        families.push(Family::gauge(
            "oxbus_disk_full",
            "1 while a partition accepts no messages because its disk is full",
            with_journal()
                .map(|(shard, journal)| (label(shard), f64::from(u8::from(journal.is_full()))))
                .collect(),
        ));
        families.push(Family::histogram(
            "oxbus_sync_seconds",
            "Duration of the syncs of a journal",
            self.sync_times(),
        ));
        let waits = shards().filter_map(|shard| Some((shard, shard.wait_times()?)));
        let waits = waits.flat_map(|(shard, times)| {
            [("send", &times.sends), ("receive_or_settle", &times.others)].map(|(call, times)| {
                let mut labels = label(shard);
                labels.push(("call", call.into()));
                (labels, times.read())
            })
        });
        families.push(Family::histogram(
            "oxbus_journal_wait_seconds",
            "Time that calls waited until the journal had their entry at its durability",
            waits.collect(),
        ));
        families
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(name: &str, active: u64) -> EntityFigures {
        let mut figures = EntityFigures::of_others();
        figures.labels[0].1 = Cow::Owned(name.to_owned());
        figures.counts.active = active;
        figures.meters[Meter::Sent as usize] = active;
        figures
    }

    #[test]
    fn the_least_used_entities_beyond_the_limit_are_summed() {
        let many = (0..METRIC_ENTITIES_MAX as u64 + 3).map(|at| entity(&format!("q{at}"), at));
        let shown = bounded(many.collect());
        assert_eq!(shown.len(), METRIC_ENTITIES_MAX + 1);
        let others = shown.last().expect("there are others");
        assert_eq!(others.labels[0].1, "other");
        assert_eq!(others.counts.active, 1 + 2, "q0, q1 and q2");
        assert_eq!(others.meters[Meter::Sent as usize], 3);
    }
}
