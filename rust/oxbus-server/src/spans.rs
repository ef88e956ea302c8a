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
use oxbus_log::event;
use oxbus_model::caps::{SPAN_CONTEXT_BYTES_MAX, SPAN_CONTEXTS_MAX, SPANS_WAITING_MAX};
use oxbus_model::message::{Fields, Value};
use oxbus_model::sync::ignore_poison;
use oxbus_store::Record;

/// Application properties with the context of a message, in this order.
const CONTEXT_PROPERTIES: [&str; 2] = ["traceparent", "Diagnostic-Id"];

/// Something that the server did.
#[derive(Debug, Clone)]
pub struct FinishedSpan {
    /// `send`, `receive`, `settle`, or the method of an HTTP request, which is `_OTHER` if it is not a known one.
    pub operation: &'static str,
    /// The entity, or the path of an HTTP request.
    pub target: String,
    /// Contexts of the messages or of the request, in the form of `traceparent`.
    pub contexts: Vec<String>,
    /// The number of messages; 0 for HTTP.
    pub messages: usize,
    /// The AMQP condition of an error, or the HTTP status of one of the server.
    pub error: Option<String>,
    /// Present for HTTP.
    pub http: Option<HttpExchange>,
    /// When it began.
    pub begun: Instant,
    /// How long it took.
    pub took: Duration,
}

/// What a span of HTTP has beside the path.
#[derive(Debug, Clone)]
pub struct HttpExchange {
    /// The path with names of parameters instead of their values; `None` if the server has no such route.
    pub route: Option<String>,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The status of the response.
    pub status: u16,
}

/// The route that answered a request, as an extension of its response.
#[derive(Debug, Clone)]
pub(crate) struct AnsweringRoute(pub(crate) String);

/// The records that the program has not taken.
#[derive(Debug, Default)]
pub(crate) struct SpanRecorder {
    is_on: AtomicBool,
    /// A panic leaves it consistent: each change adds or takes whole records.
    waiting: Mutex<WaitingSpans>,
    added: Condvar,
}

#[derive(Debug, Default)]
struct WaitingSpans {
    finished: VecDeque<FinishedSpan>,
    /// Records dropped since the last take.
    lost: u64,
}

impl SpanRecorder {
    /// True once the program wants records.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Adds a record. Drops the oldest one if the program does not take them fast enough.
    pub(crate) fn record(&self, mut span: FinishedSpan) {
        span.contexts.truncate(SPAN_CONTEXTS_MAX);
        let mut waiting = ignore_poison(self.waiting.lock());
        if waiting.finished.len() >= SPANS_WAITING_MAX {
            waiting.finished.pop_front();
            waiting.lost += 1;
        }
        waiting.finished.push_back(span);
        drop(waiting);
        self.added.notify_one();
    }

    /// Takes the records, and waits for the first one for at most `limit`. The first call switches records on.
    pub(crate) fn take(&self, limit: Duration) -> Vec<FinishedSpan> {
        self.is_on.store(true, Ordering::Relaxed);
        let waiting = ignore_poison(self.waiting.lock());
        let waited = self
            .added
            .wait_timeout_while(waiting, limit, |it| it.finished.is_empty());
        let (mut waiting, _) = ignore_poison(waited);
        let WaitingSpans { finished, lost } = std::mem::take(&mut *waiting);
        drop(waiting);
        if lost > 0 {
            event!(SPANS_LOST, count = lost);
        }
        finished.into()
    }
}

/// A context, unless it is too long to be one: a client chooses it, and the records keep it.
pub(crate) fn checked_context(text: &str) -> Option<String> {
    (text.len() <= SPAN_CONTEXT_BYTES_MAX).then(|| text.to_owned())
}

/// The context of a message.
fn context_of(fields: &Fields<'_>) -> Option<String> {
    let properties = fields.application_properties?;
    CONTEXT_PROPERTIES.iter().find_map(|name| match properties.get(name)? {
        Value::Text(text) => checked_context(text),
        Value::Bytes(bytes) => std::str::from_utf8(bytes).ok().and_then(checked_context),
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
