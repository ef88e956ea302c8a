// SPDX-License-Identifier: Apache-2.0
//! Evaluates all rules of all subscriptions of a topic for a message.
//!
//! Copies of one subscription (B-347, B-348):
//! - its rules without an action share one copy. If none of them selects the message and some fail, the copy is the
//!   first failure: true OR an error is true, in either order;
//! - each of its rules with an action makes its own copy, or its own failure.
//!
//! Equal filters are evaluated once for all rules that use them. True filters are not evaluated.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use smallvec::SmallVec;

use super::correlation_index::CorrelationIndex;
use super::rule::{Rule, RuleFilter};
use super::sql_filter::SqlFilter;
use super::view::MessageView;
use super::{MessageCopy, RuleFailure, RuleInput, Selection};

/// Number of hits of one message that fit without an allocation.
const HITS_INLINE: usize = 16;

/// The rules of a topic, rebuilt at each change of a rule.
#[derive(Debug)]
pub struct TopicRules {
    /// By subscription.
    rules: Vec<Box<[Arc<Rule>]>>,
    /// Rules that select every message, in the order of [`RuleHit`].
    always: Vec<RuleTarget>,
    /// True if `always` has all rules, and none has an action.
    is_plain: bool,
    correlations: CorrelationIndex,
    /// Distinct SQL filters with the rules that use them.
    sql: Vec<(SqlFilter, SmallVec<[RuleTarget; 1]>)>,
}

/// A rule and the copy that it contributes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RuleTarget {
    subscription: u32,
    copy: CopyKey,
    /// Position among the rules of the subscription.
    rule: u32,
}

/// A copy of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CopyKey {
    /// The copy that rules without an action share.
    Shared,
    /// The copy of the rule with an action at this position.
    Own(u32),
}

/// A rule whose filter selected the message or failed. The order is by copy. For the same copy, a selection comes
/// before a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RuleHit {
    subscription: u32,
    copy: CopyKey,
    /// Position of the failure text, if the filter failed.
    failed: Option<u32>,
    rule: u32,
}

impl TopicRules {
    /// Builds the rules of a topic from the rules of each subscription.
    pub fn compile<'r>(subscriptions: impl Iterator<Item = &'r [Arc<Rule>]>) -> Self {
        let rules: Vec<Box<[Arc<Rule>]>> = subscriptions.map(Box::from).collect();
        let mut always = Vec::new();
        let mut correlations = Vec::new();
        let mut sql: Vec<(SqlFilter, SmallVec<[RuleTarget; 1]>)> = Vec::new();
        let mut sql_by_text: HashMap<String, usize, BuildHasherDefault<DefaultHasher>> = HashMap::default();
        for (subscription, rules) in rules.iter().enumerate() {
            let is_all = |rule: &Arc<Rule>| rule.filter == RuleFilter::All && rule.action.is_none();
            let first_all = rules.iter().position(is_all);
            for (position, rule) in rules.iter().enumerate() {
                // A rule that shares its copy with a true filter has no effect.
                if rule.action.is_none() && first_all.is_some_and(|first| first != position) {
                    continue;
                }
                let copy = if rule.action.is_none() {
                    CopyKey::Shared
                } else {
                    CopyKey::Own(position as u32)
                };
                let target = RuleTarget {
                    subscription: subscription as u32,
                    copy,
                    rule: position as u32,
                };
                match &rule.filter {
                    RuleFilter::All => always.push(target),
                    RuleFilter::Nothing => {}
                    RuleFilter::Correlation(correlation) => correlations.push((correlation, target)),
                    RuleFilter::Sql(filter) => {
                        let place = *sql_by_text.entry(filter.to_string()).or_insert_with(|| {
                            sql.push((filter.clone(), SmallVec::new()));
                            sql.len() - 1
                        });
                        sql[place].1.push(target);
                    }
                }
            }
        }
        always.sort_unstable();
        let correlations = CorrelationIndex::of(correlations.into_iter());
        let has_own = always.iter().any(|target| target.copy != CopyKey::Shared);
        Self {
            is_plain: correlations.is_empty() && sql.is_empty() && !has_own,
            rules,
            always,
            correlations,
            sql,
        }
    }

    /// Appends to `out` the copies of a message, in the order of the subscriptions.
    #[inline]
    pub fn select(&self, input: &RuleInput<'_>, out: &mut Vec<Selection>) {
        if self.is_plain {
            out.extend(self.always.iter().map(|target| Selection {
                subscription: target.subscription as usize,
                copy: MessageCopy::AsSent,
            }));
        } else {
            self.select_by_filters(input, out);
        }
    }

    fn select_by_filters(&self, input: &RuleInput<'_>, out: &mut Vec<Selection>) {
        let view = MessageView::of(input);
        let mut failures: Vec<String> = Vec::new();
        let mut hits: SmallVec<[RuleHit; HITS_INLINE]> = SmallVec::new();
        let mut hit = |targets: &[RuleTarget], failed: Option<u32>| {
            hits.extend(targets.iter().map(|target| RuleHit {
                subscription: target.subscription,
                copy: target.copy,
                failed,
                rule: target.rule,
            }));
        };
        hit(&self.always, None);
        self.correlations.find(&view, |targets| hit(targets, None));
        for (filter, targets) in &self.sql {
            match filter.selects_view(&view) {
                Ok(true) => hit(targets, None),
                Ok(false) => {}
                Err(failure) => {
                    hit(targets, Some(failures.len() as u32));
                    failures.push(failure);
                }
            }
        }
        hits.sort_unstable_by_key(|hit| (hit.subscription, hit.copy, hit.failed.is_some(), hit.rule));
        hits.dedup_by_key(|hit| (hit.subscription, hit.copy));
        out.extend(hits.iter().map(|hit| Selection {
            subscription: hit.subscription as usize,
            copy: self.copy_of(hit, &view, &failures),
        }));
    }

    #[inline]
    fn copy_of(&self, hit: &RuleHit, view: &MessageView<'_>, failures: &[String]) -> MessageCopy {
        let rule = || &self.rules[hit.subscription as usize][hit.rule as usize];
        if let Some(failure) = hit.failed {
            let detail = format!("{}: rule=`{}`", failures[failure as usize], rule().name());
            return MessageCopy::Failed(RuleFailure::Filter(detail));
        }
        if hit.copy == CopyKey::Shared {
            return MessageCopy::AsSent;
        }
        let Some(action) = &rule().action else {
            unreachable!("only a rule with an action has a separate copy");
        };
        match action.apply(view, rule().name()) {
            Ok(record) => MessageCopy::Changed(record),
            Err(failure) => MessageCopy::Failed(RuleFailure::Action(format!("{failure}: rule=`{}`", rule().name()))),
        }
    }
}
