// SPDX-License-Identifier: Apache-2.0
//! Entities and rules: create, update, delete, purge, resubmit.

use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_broker::entity::{Entity, MessageSelector};
use oxbus_broker::namespace::{SubscriptionOptions, TopicOptions};
use oxbus_model::name::SubQueue;
use oxbus_model::options::QueueSettings;
use oxbus_model::rules::{ActionSettings, CorrelationSettings, FilterSettings, OwnedValue, RuleSettings};
use oxbus_model::{ErrorKind, Result};
use oxbus_sim::model::Refusals;
use oxbus_sim::model::entity::Kind;
use oxbus_sim::model::topic::{Filter, Rule, SQL};

use super::bus::{Bus, PATHS, TOPIC, check_result};
use super::step::Change;

fn as_sent(rule: &Rule) -> RuleSettings {
    let filter = match &rule.filter {
        Filter::True => FilterSettings::True,
        Filter::False => FilterSettings::False,
        Filter::Subject(subject) => FilterSettings::Correlation(CorrelationSettings {
            subject: Some(subject.clone()),
            ..CorrelationSettings::default()
        }),
        Filter::Color(color) => FilterSettings::Correlation(CorrelationSettings {
            properties: vec![("color".to_owned(), OwnedValue::Text(color.clone()))],
            ..CorrelationSettings::default()
        }),
        Filter::Sql(which) => FilterSettings::Sql {
            expression: SQL[*which].0.to_owned(),
            parameters: Vec::new(),
        },
    };
    RuleSettings {
        name: rule.name.clone(),
        filter,
        action: rule.acts.then(|| ActionSettings {
            expression: "SET tag = 1".to_owned(),
            parameters: Vec::new(),
        }),
        created_at_ms: 0,
    }
}

/// The topic and the name of a subscription's path.
fn parts(path: &str) -> (&str, &str) {
    path.split_once("/Subscriptions/").expect("a subscription")
}

impl Bus {
    pub(crate) fn create(&mut self, position: usize, mut settings: QueueSettings, rule: Option<&Rule>) {
        let path = PATHS[position];
        let topic = self.entity(TOPIC);
        let kind = match position {
            0..TOPIC => Kind::Queue,
            TOPIC => Kind::Topic,
            _ => match topic {
                Some(topic) => Kind::Subscription(topic),
                None => return,
            },
        };
        match kind {
            Kind::Queue => {}
            Kind::Topic => {
                settings.requires_session = false;
                settings.forward_to = None;
                settings.forward_dead_letters_to = None;
            }
            Kind::Subscription(_) => settings.requires_duplicate_detection = false,
        }
        let refusals = self.world.create_refusals(path, kind, &settings);
        let rules = vec![rule.cloned().unwrap_or(Rule {
            name: "$Default".to_owned(),
            filter: Filter::True,
            acts: false,
        })];
        let result = match kind {
            Kind::Queue => self
                .namespace
                .create_queue(path, settings.clone(), &Wait::FOREVER)
                .map(drop),
            Kind::Topic => {
                let options = TopicOptions { support_ordering: true };
                self.namespace
                    .create_topic(path, settings.clone(), options, &Wait::FOREVER)
                    .map(drop)
            }
            Kind::Subscription(_) => {
                let (topic, name) = parts(path);
                let options = SubscriptionOptions {
                    dead_letter_failed: true,
                };
                let rule = rule.map(as_sent);
                let created =
                    self.namespace
                        .create_subscription(topic, name, settings.clone(), options, rule, &Wait::FOREVER);
                created.map(drop)
            }
        };
        if check_result("create", &refusals, result).is_some() {
            self.world.created(path, kind, settings, rules);
        }
    }

    pub(crate) fn update(&mut self, entity: usize, change: Change) {
        let it = &self.world.entities[entity];
        let (path, kind) = (it.name.clone(), it.kind);
        let mut next = it.settings.clone();
        let path_of = |to: Option<usize>| to.map(|to| PATHS[to].to_owned());
        match change {
            Change::Lock(ms) => next.lock_duration_ms = ms,
            // No rule covers messages that were delivered more often than the new maximum.
            Change::MaxDeliveries(count) if it.main.messages.values().any(|message| message.count >= count) => return,
            Change::MaxDeliveries(count) => next.max_delivery_count = count,
            Change::Life(ms) => next.default_time_to_live_ms = ms,
            Change::DeadLetterExpired(dead_letter_expired) => {
                next.dead_lettering_on_message_expiration = dead_letter_expired;
            }
            // No rule covers ids whose window has passed but that may still be remembered.
            Change::Window(_)
                if it
                    .seen
                    .values()
                    .any(|first| self.world.now >= first.since + next.duplicate_window_ms) =>
            {
                return;
            }
            Change::Window(ms) => next.duplicate_window_ms = ms,
            Change::Status(status) => next.status = status,
            Change::Forward(to) if kind != Kind::Topic => next.forward_to = path_of(to),
            Change::ForwardDead(to) if kind != Kind::Topic => next.forward_dead_letters_to = path_of(to),
            Change::Forward(_) | Change::ForwardDead(_) => return,
            Change::Partitioning => next.enable_partitioning = !next.enable_partitioning,
            Change::Sessions => next.requires_session = !next.requires_session,
        }
        let refusals = self.world.update_refusals(entity, &next);
        let wanted = next.clone();
        let found = self.lookup(&path, kind);
        let result = self
            .namespace
            .update(&found, |settings| *settings = wanted, &Wait::FOREVER);
        if check_result("update", &refusals, result).is_some() {
            self.world.updated(entity, next);
        }
    }

    /// The entity, which exists in the model.
    fn lookup(&self, path: &str, kind: Kind) -> Arc<Entity> {
        let found = match kind {
            Kind::Queue => self.namespace.queue(path),
            Kind::Topic => self.namespace.topic(path),
            Kind::Subscription(_) => {
                let (topic, name) = parts(path);
                self.namespace.subscription(topic, name)
            }
        };
        found.expect("the model has it")
    }

    pub(crate) fn delete(&mut self, entity: usize) {
        let it = &self.world.entities[entity];
        let result = self.namespace.delete(&self.lookup(&it.name, it.kind));
        check_result("delete", &Refusals::new(), result).expect("it exists");
        self.world.deleted(entity);
    }

    fn change_rules(
        &mut self,
        entity: usize,
        refusals: &Refusals,
        call: impl FnOnce(&Self, &str, &str) -> Result<()>,
    ) -> bool {
        let path = self.world.entities[entity].name.clone();
        let (topic, name) = parts(&path);
        check_result("change rules", refusals, call(self, topic, name)).is_some()
    }

    pub(crate) fn add_rule(&mut self, entity: usize, rule: Rule) {
        let known = &self.world.entities[entity].rules;
        let mut refusals = Refusals::new();
        if known.iter().any(|it| it.name == rule.name) {
            refusals.push(ErrorKind::EntityAlreadyExists);
        }
        let sent = as_sent(&rule);
        if self.change_rules(entity, &refusals, |bus, topic, name| {
            bus.namespace.create_rule(topic, name, &sent, &Wait::FOREVER)
        }) {
            self.world.entities[entity].rules.push(rule);
        }
    }

    pub(crate) fn remove_rule(&mut self, entity: usize, pick: usize) {
        let known = &self.world.entities[entity].rules;
        let name = known.get(pick % (known.len() + 1)).map(|rule| rule.name.clone());
        let refusals = if name.is_some() {
            Refusals::new()
        } else {
            vec![ErrorKind::EntityNotFound]
        };
        let wanted = name.unwrap_or_else(|| "missing".to_owned());
        if self.change_rules(entity, &refusals, |bus, topic, name| {
            bus.namespace.delete_rule(topic, name, &wanted, &Wait::FOREVER)
        }) {
            self.world.entities[entity].rules.retain(|rule| rule.name != wanted);
        }
    }

    pub(crate) fn purge(&mut self, entity: usize, dead: bool, limit: usize) {
        let sub_queue = if dead { SubQueue::DeadLetter } else { SubQueue::Main };
        let selector = MessageSelector {
            limit: Some(limit),
            ..MessageSelector::default()
        };
        let queue = self
            .namespace
            .entity(&self.world.entities[entity].name)
            .expect("it exists");
        let refusals = self.world.purge_refusals(entity, sub_queue);
        let Some(removed) = check_result("purge", &refusals, queue.purge(sub_queue, &selector, &Wait::FOREVER)) else {
            return;
        };
        let left = self.numbers((entity, sub_queue));
        self.world.purged(entity, sub_queue, limit, removed, &left);
    }

    pub(crate) fn resubmit(&mut self, entity: usize, limit: usize) {
        let selector = MessageSelector {
            limit: Some(limit),
            ..MessageSelector::default()
        };
        let queue = self
            .namespace
            .entity(&self.world.entities[entity].name)
            .expect("it exists");
        let refusals = self.world.resubmit_refusals(entity);
        let Some(sent) = check_result("resubmit", &refusals, queue.resubmit(&selector, &Wait::FOREVER)) else {
            return;
        };
        let left = self.numbers((entity, SubQueue::DeadLetter));
        self.world.resubmitted(entity, limit, sent, &left);
    }
}
