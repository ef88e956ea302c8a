// SPDX-License-Identifier: Apache-2.0
//! Takes the samples of the history.

use std::sync::Arc;
use std::time::Duration;

use oxbus_broker::entity::Entity;
use oxbus_broker::shard::Meter;
use oxbus_model::EntityKind;
use oxbus_model::name::SubQueue;

use super::history::Sample;
use super::state::Console;
use crate::accept::until_stopped;
use crate::blocking::run_blocking;
use crate::front::Context;

const SHORT_STEP: Duration = Duration::from_secs(5);

/// Samples the counters until the server stops.
pub(crate) async fn sample(context: Context, console: Arc<Console>) {
    let mut stopped = context.stopped();
    let mut ticks = tokio::time::interval(SHORT_STEP);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = until_stopped(&mut stopped) => return,
        }
        let (context, console) = (context.clone(), Arc::clone(&console));
        let taken = run_blocking(move |wait| {
            let entities = context.namespace().list_entities()?;
            let of = |entity: &Arc<Entity>| {
                let meters = entity.meter_counts();
                let is_topic = entity.kind() == EntityKind::Topic;
                let is_used = meters.iter().any(|count| *count > 0) && !is_topic;
                let depth = if is_used {
                    entity.backlog(SubQueue::Main, wait)?.iter().map(|it| it.messages).sum()
                } else {
                    0
                };
                let sample = Sample {
                    at_ms: 0,
                    sent: meters[Meter::Sent as usize],
                    received: meters[Meter::Received as usize],
                    completed: meters[Meter::Completed as usize],
                    depth,
                };
                Ok((entity.name().as_str().to_owned(), sample))
            };
            let samples = entities.iter().map(of).collect::<oxbus_model::Result<_>>()?;
            console.history.add(context.now(), samples);
            Ok(())
        });
        // A namespace that is closed has no counters; the server ends soon.
        let _ = taken.await;
    }
}
