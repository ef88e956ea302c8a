// SPDX-License-Identifier: Apache-2.0
//! Resubmitting many dead letters at a given rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oxbus_broker::entity::{Entity, MessageSelector};
use oxbus_broker::filter::SqlFilter;
use oxbus_log::event;
use oxbus_model::rules::OwnedValue;
use oxbus_model::{Effect, Result, Timestamp};

use super::jobs::Job;
use super::session::Caller;
use super::state::Console;
use crate::blocking::run_blocking;
use crate::front::Context;

/// Steps in a second at most: a step moves the messages of its part of a second.
const STEPS_PER_SECOND: u64 = 10;

/// What to resubmit.
pub(super) struct Resubmission {
    pub(super) entity: Arc<Entity>,
    pub(super) filter: FilterText,
    pub(super) per_second: u64,
    pub(super) total: u64,
    /// Dead letters that arrive later are not for this job.
    pub(super) before: Timestamp,
}

/// Starts to resubmit. Returns the number of the job.
pub(super) fn start(context: &Context, console: &Arc<Console>, caller: &Caller, work: Resubmission) -> u64 {
    let (id, is_cancelled) = console.jobs.add(Job {
        entity: work.entity.name().as_str().to_owned(),
        what: "resubmit",
        total: work.total,
        per_second: work.per_second,
        started_ms: context.now().0,
        key_name: caller.key_name.clone(),
        is_running: true,
        ..Job::default()
    });
    let console = Arc::clone(console);
    tokio::spawn(run(context.clone(), caller.clone(), work, console, (id, is_cancelled)));
    id
}

async fn run(
    context: Context,
    caller: Caller,
    work: Resubmission,
    console: Arc<Console>,
    (id, is_cancelled): (u64, Arc<AtomicBool>),
) {
    let steps = work.per_second.clamp(1, STEPS_PER_SECOND);
    let mut ticks = tokio::time::interval(Duration::from_millis(1_000 / steps));
    let at_once = usize::try_from(work.per_second / steps).unwrap_or(usize::MAX);
    let (mut done, mut end) = (0, None);
    loop {
        ticks.tick().await;
        if *context.stopped().borrow() || is_cancelled.load(Ordering::Relaxed) {
            end = Some("it was cancelled".to_owned());
            break;
        }
        let (entity, filter, before) = (Arc::clone(&work.entity), work.filter.clone(), work.before);
        let moved = run_blocking(move |wait| {
            let selector = MessageSelector {
                filter: filter.parse()?,
                before: Some(before),
                limit: Some(at_once),
            };
            entity.resubmit(&selector, wait)
        });
        match moved.await {
            Ok(0) => break,
            Ok(count) => {
                done += count as u64;
                console.jobs.update(id, |job| {
                    job.done = done;
                    job.total = job.total.max(done);
                });
            }
            Err(error) => {
                let unknown = if error.effect() == Some(Effect::Unknown) {
                    " (a part may be done)"
                } else {
                    ""
                };
                end = Some(format!("{}{unknown}", error.detail()));
                break;
            }
        }
    }
    console.jobs.update(id, |job| {
        job.is_running = false;
        job.end = end;
    });
    event!(
        CONSOLE_CHANGED,
        key_name = caller.key_name,
        peer = caller.peer.map(oxbus_log::display),
        entity = work.entity.name().as_str(),
        action = "resubmit_ended",
        count = done
    );
}

/// A filter as text, with the values of its parameters. An empty one selects all.
#[derive(Debug, Clone, Default)]
pub(super) struct FilterText {
    pub(super) expression: String,
    pub(super) parameters: Vec<(String, OwnedValue)>,
}

impl FilterText {
    pub(super) fn parse(&self) -> Result<Option<SqlFilter>> {
        if self.expression.trim().is_empty() {
            return Ok(None);
        }
        SqlFilter::parse(&self.expression, &self.parameters).map(Some)
    }
}
