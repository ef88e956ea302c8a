// SPDX-License-Identifier: Apache-2.0
//! Describes the content of an open namespace as text: entities, rules, messages, sessions, reservations and stages.

use std::fmt::Write as _;

use oxbus_broker::client::BrowseItem;
use oxbus_broker::entity::Entity;
use oxbus_broker::{Namespace, ReceiverOptions};
use oxbus_model::message::{Body, Fields, MessageId};
use oxbus_model::name::SubQueue;
use oxbus_model::{EntityKind, Timestamp};

use super::bus::{START, WAIT};

/// A longer body is shown by its length.
const SHOWN_BYTES: usize = 60;

/// The whole description.
pub(crate) fn describe(namespace: &Namespace) -> String {
    let mut text = String::new();
    for entity in namespace.list_entities().expect("open") {
        describe_entity(namespace, &entity, &mut text);
    }
    for stage in namespace.stages().list() {
        let _ = writeln!(
            text,
            "stage {:?} for {} of {} with {} rows: {:?}",
            stage.id,
            stage.entity,
            time(stage.created_at),
            stage.rows,
            stage.state
        );
    }
    text
}

/// Milliseconds since the script began.
fn time(at: Timestamp) -> String {
    if at == Timestamp::NEVER {
        return "never".to_owned();
    }
    format!("{}", at.0 as i64 - START.0 as i64)
}

fn describe_entity(namespace: &Namespace, entity: &Entity, text: &mut String) {
    let path = entity.name().as_str();
    let (created, updated, used) = entity.times();
    let used = used.map_or("never".to_owned(), time);
    let _ = writeln!(
        text,
        "{:?} {path}, number {}, created {}, updated {}, used {used}",
        entity.kind(),
        entity.id().0,
        time(created),
        time(updated)
    );
    let settings = serde_json::to_string(&**entity.settings()).expect("settings are JSON");
    let _ = writeln!(text, "  settings {settings}");
    if let (EntityKind::Subscription, Some((topic, name))) = (entity.kind(), path.split_once("/Subscriptions/")) {
        for rule in namespace.list_rules(topic, name).expect("the queue exists") {
            let _ = writeln!(text, "  rule {}", serde_json::to_string(&rule).expect("rules are JSON"));
        }
    }
    if entity.kind() == EntityKind::Topic {
        return;
    }
    let _ = writeln!(
        text,
        "  {:?}",
        entity.counts(&WAIT).expect("it owns the namespace").total
    );
    for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
        let options = ReceiverOptions {
            sub_queue,
            ..ReceiverOptions::default()
        };
        let Ok(receiver) = namespace.receiver(path, options) else {
            continue;
        };
        for browsed in receiver.browse(250, None, &WAIT).expect("open") {
            describe_message(&browsed, sub_queue, text);
        }
    }
    if entity.settings().requires_session {
        describe_sessions(namespace, entity, text);
    } else if let Ok(reservations) = namespace.reservations(path) {
        for reservation in reservations.list(&WAIT) {
            let _ = writeln!(text, "  {reservation:?}");
        }
    }
}

fn describe_message(browsed: &BrowseItem, sub_queue: SubQueue, text: &mut String) {
    let message = &browsed.message;
    let number = Entity::sequence_number(browsed.index, message.counter).0;
    let place = match sub_queue {
        SubQueue::Main => "message",
        SubQueue::DeadLetter => "dead letter",
    };
    let _ = write!(
        text,
        "  {place} {number:#x} {:?}, deliveries {}, generation {}, accepted {}, expires {}",
        message.phase,
        message.delivery_count,
        message.generation,
        time(message.enqueued_at),
        time(message.expires_at)
    );
    let record = message.record.in_memory().expect("a browse loads it");
    describe_fields(&Fields::decode(record).expect("whole"), text);
    text.push('\n');
}

fn describe_fields(fields: &Fields<'_>, text: &mut String) {
    let body = fields.body.bytes();
    let kind = match fields.body {
        Body::Data(_) => "data",
        Body::Null => "null",
        Body::Sections(_) => "sections",
    };
    let _ = match body.len() {
        0..SHOWN_BYTES => write!(text, ", {kind} \"{}\"", body.escape_ascii()),
        len => write!(text, ", {kind} of {len} bytes, \"{}\"…", body[..10].escape_ascii()),
    };
    match fields.message_id {
        Some(MessageId::Given(id)) => _ = write!(text, ", id {id:?}"),
        Some(MessageId::Assigned(id)) => _ = write!(text, ", assigned id {:02x?}", id.to_bytes()),
        None => {}
    }
    let texts = [
        ("session", fields.session_id),
        ("key", fields.partition_key),
        ("subject", fields.subject),
        ("correlation", fields.correlation_id),
        ("content type", fields.content_type),
        ("to", fields.to),
        ("reply to", fields.reply_to),
        ("reply-to session", fields.reply_to_session_id),
        ("dead-letter source", fields.dead_letter_source),
    ];
    for (name, value) in texts {
        let _ = value.map(|value| write!(text, ", {name} {value:?}"));
    }
    let ms = fields.time_to_live_ms.map(|ms| write!(text, ", lives {ms}"));
    let due = fields.scheduled_enqueue_time;
    let due = due.map(|due| write!(text, ", scheduled for {}", time(due)));
    let first = fields.enqueued_number;
    let first = first.map(|first| write!(text, ", first number {:#x}", first.0));
    let hops = fields.hops.map(|hops| write!(text, ", hops {hops}"));
    let _ = (ms, due, first, hops);
    for (name, value) in fields.application_properties.iter().flat_map(|it| it.entries()) {
        let _ = write!(text, ", {name}={value:?}");
    }
    if !fields.amqp.is_empty() {
        let _ = write!(text, ", amqp \"{}\"", fields.amqp.escape_ascii());
    }
}

/// Describes sessions by accepting and closing each.
fn describe_sessions(namespace: &Namespace, entity: &Entity, text: &mut String) {
    use oxbus_broker::client::SessionSelector;
    let path = entity.name().as_str();
    for (partition, session) in entity.list_sessions(&WAIT).expect("it has sessions") {
        let wanted = SessionSelector::Id(session.id.to_string());
        let acceptor = namespace.acceptor(path, wanted, ReceiverOptions::default(), "golden".to_owned());
        let receiver = acceptor.expect("valid").accept_now(&WAIT).expect("open");
        let receiver = receiver.expect("it is free");
        let state = receiver.session_state(&WAIT).expect("it is accepted");
        let state = state.map(|state| state.escape_ascii().to_string());
        receiver.close(&WAIT);
        let _ = writeln!(
            text,
            "  session {} in partition {partition}: {} messages, the oldest of {:?}, state {state:?} set {:?}",
            session.id,
            session.messages,
            session.oldest.map(time),
            session.state_set_at.map(time)
        );
    }
}
