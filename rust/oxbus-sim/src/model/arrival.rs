// SPDX-License-Identifier: Apache-2.0
//! Messages whose sequence number the caller does not learn: copies, activated, forwarded and resubmitted messages.
//!
//! The model learns their numbers by browsing. Browsing also shows which expired messages were removed (B-251).

use std::collections::{BTreeMap, BTreeSet};

use oxbus_model::options::QueueSettings;

use super::entity::Entity;
use super::message::{Content, Message, MessagePhase, NEVER};
use super::{Dropped, World};

/// A message without a number.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The content of the message.
    pub content: Content,
    /// Its partition, if that is determined.
    pub partition: Option<u64>,
    /// When it was accepted.
    pub enqueued_at: u64,
    /// When it expires.
    pub expires_at: u64,
    /// True if it arrives as a dead letter.
    pub dead: bool,
}

/// The identifying properties of a browsed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowsedMessage {
    /// Its body.
    pub body: u64,
    /// The rule that made it.
    pub rule: Option<String>,
    /// Why it was dead-lettered.
    pub reason: Option<String>,
    /// How many times it was forwarded.
    pub hops: u8,
    /// When it was accepted.
    pub since: u64,
}

/// Why an expired message is dead-lettered (B-253).
pub const EXPIRED: &str = "TTLExpiredException";
/// Why a message without a session id is dead-lettered in an entity with sessions (B-185).
pub const WITHOUT_SESSION: &str = "Session id is null.";
/// Why a message that was delivered too often is dead-lettered (B-178).
pub const EXHAUSTED: &str = "MaxDeliveryCountExceeded";

/// The content of a browsed message if it can be the message `original`. When duplicates arrive together, any of them
/// may come first, and the others are dropped. So the browsed message may also be a dropped duplicate, of this entity
/// or of a later one on its way.
fn shown(original: &Content, browsed: &BrowsedMessage, dropped: &Dropped) -> Option<Content> {
    if (original.body, &original.rule, original.hops, &original.reason)
        == (browsed.body, &browsed.rule, browsed.hops, &browsed.reason)
    {
        return Some(original.clone());
    }
    let may_be_copy = |copy: &&Content| {
        let is_rule = browsed.rule == original.rule || browsed.rule == copy.rule;
        let is_reason = browsed.reason == original.reason || browsed.reason == copy.reason;
        copy.body == browsed.body && is_rule && is_reason && browsed.hops >= original.hops.min(copy.hops)
    };
    let copy = dropped.get(&original.body)?.iter().find(may_be_copy)?;
    Some(Content {
        rule: browsed.rule.clone(),
        reason: browsed.reason.clone(),
        hops: browsed.hops,
        ..copy.clone()
    })
}

/// The content of an arrival if a browsed message can be that arrival.
fn recognize(
    arrival: &Arrival,
    (number, browsed, is_dead): (u64, &BrowsedMessage, bool),
    now: u64,
    settings: &QueueSettings,
    dropped: &Dropped,
) -> Option<Content> {
    let expired = arrival.expires_at <= now
        && settings.dead_lettering_on_message_expiration
        && browsed.reason.as_deref() == Some(EXPIRED);
    let partition = Entity::partition_of_number(number);
    let is_match = arrival.enqueued_at == browsed.since
        && arrival.partition.is_none_or(|wanted| wanted == partition)
        && if is_dead {
            arrival.dead || expired
        } else {
            !arrival.dead
        };
    if !is_match {
        return None;
    }
    let reason = if expired {
        &arrival.content.reason
    } else {
        &browsed.reason
    };
    let browsed_before = BrowsedMessage {
        reason: reason.clone(),
        ..browsed.clone()
    };
    let content = shown(&arrival.content, &browsed_before, dropped)?;
    Some(Content {
        reason: browsed.reason.clone(),
        ..content
    })
}

impl World {
    /// True if the model must browse the entity to know its content.
    pub fn needs_browse(&self, entity: usize) -> bool {
        let it = &self.entities[entity];
        it.alive && (!it.arrivals.is_empty() || it.has_unseen_change || it.has_overdue(self.now))
    }

    /// Learns from a browse of an entity and its dead-letter queue which expired messages were removed, and the numbers
    /// of arrivals. Returns a description of an unexplained message: it may come from an entity that was not browsed
    /// yet.
    ///
    /// # Panics
    /// When a number is wrong.
    pub fn learn_from_browse(
        &mut self,
        entity: usize,
        main: &BTreeMap<u64, BrowsedMessage>,
        dead: &BTreeMap<u64, BrowsedMessage>,
    ) -> Option<String> {
        self.learn_removals(entity, main);
        self.entities[entity].has_unseen_change = false;
        self.forward_all();
        // A message that expired before any browse may be gone, and its number with it.
        let now = self.now;
        let target = &mut self.entities[entity];
        let late = target.arrivals.iter().filter(|it| it.expires_at <= now);
        target.unseen_numbers += late.count() as i64;
        let known =
            |number: &u64| target.main.messages.contains_key(number) || target.dead.messages.contains_key(number);
        let shown = main
            .iter()
            .map(|it| (it, false))
            .chain(dead.iter().map(|it| (it, true)));
        let mut new: Vec<_> = shown.filter(|((number, _), _)| !known(number)).collect();
        new.sort_by_key(|((number, _), _)| **number);
        let mut unexplained = None;
        // An unexplained number blocks the later numbers of its partition.
        let mut stuck = BTreeSet::new();
        let mut waiting = Vec::new();
        for ((number, browsed), is_dead) in new {
            let partition = Entity::partition_of_number(*number);
            if stuck.contains(&partition) {
                waiting.push((*number, browsed, is_dead));
            } else if let Some(why) = self.learn_number(entity, *number, browsed, is_dead) {
                stuck.insert(partition);
                unexplained = unexplained.or(Some(why));
            }
        }
        let target = &mut self.entities[entity];
        for mut lost in std::mem::take(&mut target.arrivals) {
            if lost.expires_at > now {
                // A chain of entities may need several browses.
                unexplained = Some(format!("{}: {lost:?} did not arrive", target.name));
                target.arrivals.push(lost);
                continue;
            }
            let is_shown = waiting.iter().any(|(number, browsed, is_dead)| {
                recognize(
                    &lost,
                    (*number, browsed, *is_dead),
                    now,
                    &target.settings,
                    &self.dropped,
                )
                .is_some()
            });
            if is_shown {
                target.unseen_numbers -= 1;
                target.arrivals.push(lost);
                continue;
            }
            let settings = &target.settings;
            if settings.dead_lettering_on_message_expiration && settings.forward_dead_letters_to.is_some() {
                lost.content.reason = Some(EXPIRED.to_owned());
                lost.dead = true;
                lost.expires_at = NEVER;
                target.unseen_numbers -= 1;
                target.arrivals.push(lost);
            }
        }
        self.forward_all();
        let target = &self.entities[entity];
        let (name, unseen) = (&target.name, target.unseen_numbers);
        assert!(
            unseen >= 0 || !target.arrivals.is_empty(),
            "{name}: {unseen} numbers were not seen"
        );
        unexplained
    }

    fn learn_removals(&mut self, entity: usize, main: &BTreeMap<u64, BrowsedMessage>) {
        let now = self.now;
        let target = &mut self.entities[entity];
        let overdue = target
            .main
            .messages
            .iter()
            .filter(|(_, it)| Entity::is_overdue(it, now));
        let gone: Vec<u64> = overdue
            .map(|(number, _)| *number)
            .filter(|it| !main.contains_key(it))
            .collect();
        for number in gone {
            let mut message = target
                .main
                .messages
                .remove(&number)
                .expect("the search above found the message");
            if target.settings.dead_lettering_on_message_expiration {
                message.content.reason = Some(EXPIRED.to_owned());
                target.dead.messages.insert(number, message);
            }
        }
    }

    fn learn_number(&mut self, entity: usize, number: u64, browsed: &BrowsedMessage, is_dead: bool) -> Option<String> {
        let (now, born) = (self.now, self.serial());
        let target = &mut self.entities[entity];
        let shown = (number, browsed, is_dead);
        let find = |dropped| {
            let mut arrivals = target.arrivals.iter().enumerate();
            arrivals.find_map(|(at, it)| Some((at, recognize(it, shown, now, &target.settings, dropped)?)))
        };
        // An exact match takes precedence over a match with a dropped duplicate.
        let Some((position, content)) = find(&Dropped::new()).or_else(|| find(&self.dropped)) else {
            let (name, arrivals) = (&target.name, &target.arrivals);
            return Some(format!(
                "{name}: number {number} with {browsed:?} is not one of {arrivals:?}"
            ));
        };
        let arrival = target.arrivals.remove(position);
        target.unseen_numbers -= i64::from(arrival.expires_at <= now);
        target.take_number(number);
        let message = Message {
            content,
            phase: MessagePhase::Ready,
            count: 0,
            enqueued_at: arrival.enqueued_at,
            expires_at: arrival.expires_at,
            lock: None,
            delayed_until: None,
            born,
            may_come_late: false,
        };
        let stream = if is_dead { &mut target.dead } else { &mut target.main };
        stream.messages.insert(number, message);
        None
    }
}
