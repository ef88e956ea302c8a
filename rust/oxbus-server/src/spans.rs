// SPDX-License-Identifier: Apache-2.0
//! What a server did for its clients, as records from which the program makes spans of OpenTelemetry.
//!
//! A record has the contexts that messages carry in the application property `traceparent` or `Diagnostic-Id`, so that
//! the span of the server belongs to the trace of its client. The server itself exports nothing: the program that
//! started it takes the records (docs/decisions/0039-spans-through-the-program.md).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use oxbus_amqp::engine::IncomingDelivery;
use oxbus_amqp::message::MESSAGE_FORMAT_BATCH;
use oxbus_amqp::record;
use oxbus_model::caps::{SPAN_CONTEXTS_MAX, SPANS_WAITING_MAX};
use oxbus_model::message::{Fields, Value};
use oxbus_model::sync::ignore_poison;
use oxbus_store::Record;

/// Application properties with the context of a message, in this order.
const CONTEXT_PROPERTIES: [&str; 2] = ["traceparent", "Diagnostic-Id"];

/// Something that the server did.
#[derive(Debug, Clone)]
pub struct FinishedSpan {
    /// `send`, `receive`, `settle`, or the method of an HTTP request.
    pub operation: &'static str,
    /// The entity, or the path of an HTTP request.
    pub target: String,
    /// Contexts of the messages or of the request, in the form of `traceparent`.
    pub contexts: Vec<String>,
    /// The number of messages; 0 for HTTP.
    pub messages: usize,
    /// The AMQP condition or HTTP status of an error.
    pub error: Option<String>,
    /// When it began.
    pub begun: Instant,
    /// How long it took.
    pub took: Duration,
}

/// The records that the program has not taken.
#[derive(Debug, Default)]
pub(crate) struct SpanRecorder {
    is_on: AtomicBool,
    /// A panic leaves it consistent: each change adds or takes whole records.
    finished: Mutex<VecDeque<FinishedSpan>>,
    added: Condvar,
}

impl SpanRecorder {
    /// True once the program wants records.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Adds a record. Drops the oldest one if the program does not take them fast enough.
    pub(crate) fn record(&self, mut span: FinishedSpan) {
        span.contexts.truncate(SPAN_CONTEXTS_MAX);
        let mut finished = ignore_poison(self.finished.lock());
        if finished.len() >= SPANS_WAITING_MAX {
            finished.pop_front();
        }
        finished.push_back(span);
        drop(finished);
        self.added.notify_one();
    }

    /// Takes the records, and waits for the first one for at most `limit`. The first call switches records on.
    pub(crate) fn take(&self, limit: Duration) -> Vec<FinishedSpan> {
        self.is_on.store(true, Ordering::Relaxed);
        let finished = ignore_poison(self.finished.lock());
        let waited = self.added.wait_timeout_while(finished, limit, |it| it.is_empty());
        let (mut finished, _) = ignore_poison(waited);
        finished.drain(..).collect()
    }
}

/// The context of a message.
fn context_of(fields: &Fields<'_>) -> Option<String> {
    let properties = fields.application_properties?;
    CONTEXT_PROPERTIES.iter().find_map(|name| match properties.get(name)? {
        Value::Text(text) => Some(text.to_owned()),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        _ => None,
    })
}

/// The context of a stored message.
pub(crate) fn context_of_record(record: &Record) -> Option<String> {
    context_of(&Fields::decode(record).ok()?)
}

/// The contexts of the messages of a transfer, and how many messages it has. A malformed one has neither.
pub(crate) fn contexts_of(incoming: &IncomingDelivery) -> (Vec<String>, usize) {
    let (mut contexts, mut messages) = (Vec::new(), 0);
    let mut note = |bytes: &bytes::Bytes| {
        record::read(bytes, |fields| {
            messages += 1;
            contexts.extend(context_of(fields));
            Ok(())
        })
    };
    let _ = if incoming.message_format == MESSAGE_FORMAT_BATCH {
        record::each_of_batch(&incoming.message, |one| note(one))
    } else {
        note(&incoming.message)
    };
    (contexts, messages)
}
