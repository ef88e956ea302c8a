// SPDX-License-Identifier: Apache-2.0

use oxbus_store::Wait;
use oxbus_store::suspended::run_now;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use oxbus_amqp::codec::{AmqpTimestamp, AmqpValue, Array, Map, Symbol, Uuid};
use oxbus_amqp::message::{
    Sections, put_application_properties, put_data, put_message_annotations, put_value_body, read_map,
};
use oxbus_broker::client::SettleKey;
use oxbus_broker::namespace::{SubscriptionOptions, TopicOptions};
use oxbus_broker::{Namespace, NamespaceOptions, Receiver, ReceiverOptions};
use oxbus_model::message::{Body, Fields};
use oxbus_model::name::SubQueue;
use oxbus_model::options::QueueSettings;
use proptest::prelude::*;

use super::answer;
use crate::amqp::node::AmqpNode;
use crate::amqp::request::{AmqpRequest, Reply};
use crate::amqp::state::ConnectionState;
use crate::amqp::transactions::Coordinator;
use crate::front::Context;
use oxbus_amqp::record::token;

/// A namespace with a queue `q`, a session queue `s`, and a topic `t` with a subscription `a`.
struct Bus {
    namespace: Namespace,
    context: Context,
    state: Arc<ConnectionState>,
}

fn bus() -> Bus {
    let namespace = Namespace::open(NamespaceOptions::default()).expect("memory");
    namespace
        .create_queue("q", QueueSettings::default(), &Wait::FOREVER)
        .expect("q");
    let sessions = QueueSettings {
        requires_session: true,
        ..QueueSettings::default()
    };
    namespace.create_queue("s", sessions, &Wait::FOREVER).expect("s");
    let options = TopicOptions {
        support_ordering: false,
    };
    namespace
        .create_topic("t", QueueSettings::default(), options, &Wait::FOREVER)
        .expect("t");
    let options = SubscriptionOptions {
        dead_letter_failed: false,
    };
    let made = namespace.create_subscription("t", "a", QueueSettings::default(), options, None, &Wait::FOREVER);
    made.expect("a");
    let context = Context::for_tests(namespace.clone());
    let state = Arc::new(ConnectionState::new(context.clone()));
    let claims = context
        .authority()
        .authorize_plain("RootManageSharedAccessKey", "SAS_KEY_VALUE");
    assert!(state.grant(claims.expect("the development key")));
    Bus {
        namespace,
        context,
        state,
    }
}

fn request(operation: &str, body: &AmqpValue) -> Bytes {
    let mut properties = Map::new();
    properties.push("operation", operation);
    let mut out = BytesMut::new();
    put_application_properties(&mut out, &properties);
    put_value_body(&mut out, body);
    out.freeze()
}

impl Bus {
    fn ask(&self, path: &str, operation: &str, body: impl Into<AmqpValue>) -> Reply {
        let message = request(&format!("com.microsoft:{operation}"), &body.into());
        let sections = Sections::scan(&message).expect("a message");
        let AmqpNode::Entity(address) = AmqpNode::of(path) else {
            panic!("an entity: {path}")
        };
        run_now(answer(
            &AmqpRequest {
                context: self.context.clone(),
                address: Some(address),
                state: Arc::clone(&self.state),
                message,
                sections,
                transaction: None,
                coordinator: Arc::new(Coordinator::new(self.context.clone())),
            },
            &Wait::FOREVER,
        ))
    }

    fn send(&self, path: &str, text: &str, session_id: Option<&str>) {
        let fields = Fields {
            body: Body::Data(text.as_bytes()),
            session_id,
            ..Fields::default()
        };
        self.namespace
            .sender(path)
            .expect("sender")
            .send(&fields, None, &Wait::FOREVER)
            .expect("sent");
    }

    /// Receives the next message of `q`. Returns its key, and its token as a request argument.
    fn receive(&self) -> (Receiver, SettleKey, AmqpValue) {
        self.receive_from(SubQueue::Main)
    }

    fn receive_from(&self, sub_queue: SubQueue) -> (Receiver, SettleKey, AmqpValue) {
        let options = ReceiverOptions {
            sub_queue,
            ..ReceiverOptions::default()
        };
        let receiver = self.namespace.receiver("q", options).expect("receiver");
        let deliveries = receiver
            .receive_now(1, &Wait::FOREVER)
            .expect("received")
            .expect("a message");
        let settle_key = SettleKey {
            index: deliveries[0].index,
            key: deliveries[0].claimed.key,
        };
        let token = token::to_guid(receiver.token(settle_key));
        (receiver, settle_key, array(vec![token.into()]))
    }
}

fn body(pairs: Vec<(&str, AmqpValue)>) -> Map {
    pairs.into_iter().map(|(key, value)| (key.into(), value)).collect()
}

fn array(items: Vec<AmqpValue>) -> AmqpValue {
    Array::new(items).expect("one type").into()
}

fn reply_field(reply: &Reply, key: &str) -> AmqpValue {
    assert_eq!((reply.status, reply.condition), (200, None), "{}", reply.description);
    let body = reply.body.as_map().expect("a map");
    // Clients in use expect string keys, not symbols.
    let is_key = |pair: &&(AmqpValue, AmqpValue)| pair.0 == AmqpValue::from(key);
    body.iter().find(is_key).expect("the key").1.clone()
}

fn refused(reply: &Reply) -> (i32, &'static str) {
    (reply.status, reply.condition.expect("a condition"))
}

fn later() -> AmqpValue {
    let mut out = BytesMut::new();
    let due = AmqpTimestamp(4_000_000_000_000);
    put_message_annotations(&mut out, &Map::new().with("x-opt-scheduled-enqueue-time", due));
    put_data(&mut out, &Bytes::from_static(b"later"));
    let entry = body(vec![("message-id", "m".into()), ("message", out.freeze().into())]);
    AmqpValue::List(vec![entry.into()])
}

#[test]
fn scheduled_message_gets_a_number_and_can_be_peeked_and_cancelled() {
    // B-232, B-238, B-290, B-292, B-431, B-436.
    let bus = bus();
    let peek = || {
        body(vec![
            ("from-sequence-number", 0_i64.into()),
            ("message-count", 10_i32.into()),
        ])
    };
    let empty = bus.ask("q", "peek-message", peek());
    assert_eq!((empty.status, empty.condition), (204, None));
    let numbers = reply_field(
        &bus.ask("q", "schedule-message", body(vec![("messages", later())])),
        "sequence-numbers",
    );
    assert_eq!(numbers, array(vec![1_i64.into()]));
    let messages = reply_field(&bus.ask("q", "peek-message", peek()), "messages");
    let AmqpValue::List(messages) = messages else {
        panic!("a list: {messages:?}")
    };
    let Some(AmqpValue::Binary(message)) = messages[0].as_map().and_then(|it| it.get("message")) else {
        panic!("a binary");
    };
    let sections = Sections::scan(message).expect("a message");
    let annotations = read_map(message, &sections.message_annotations).expect("annotations");
    assert_eq!(annotations.get("x-opt-sequence-number"), Some(&AmqpValue::Long(1)));
    assert_eq!(annotations.get("x-opt-message-state"), Some(&AmqpValue::Int(2)));
    let cancel = || body(vec![("sequence-numbers", numbers.clone())]);
    assert_eq!(bus.ask("q", "cancel-scheduled-message", cancel()).status, 200);
    let again = bus.ask("q", "cancel-scheduled-message", cancel());
    assert_eq!(refused(&again), (404, "com.microsoft:message-not-found"));
}

#[test]
fn scheduling_requires_a_time() {
    let bus = bus();
    let mut out = BytesMut::new();
    put_data(&mut out, &Bytes::from_static(b"now"));
    let entry = body(vec![("message", out.freeze().into())]);
    let messages = body(vec![("messages", AmqpValue::List(vec![entry.into()]))]);
    let reply = bus.ask("q", "schedule-message", messages);
    assert_eq!(refused(&reply), (400, "com.microsoft:argument-error"));
    assert!(reply.description.contains("x-opt-scheduled-enqueue-time"));
}

#[test]
fn a_token_renews_its_lock_and_settles_once() {
    // B-154, B-155, B-172, B-431.
    let bus = bus();
    for (status, is_gone) in [
        ("completed", true),
        ("abandoned", false),
        ("suspended", true),
        ("defered", false),
    ] {
        bus.send("q", status, None);
        let (receiver, settle_key, tokens) = bus.receive();
        let reply = bus.ask("q", "renew-lock", body(vec![("lock-tokens", tokens.clone())]));
        let AmqpValue::Array(expirations) = reply_field(&reply, "expirations") else {
            panic!("an array")
        };
        assert!(
            matches!(expirations.items(), [AmqpValue::Timestamp(_)]),
            "{expirations:?}"
        );
        let settle = || {
            body(vec![
                ("disposition-status", status.into()),
                ("lock-tokens", tokens.clone()),
                ("deadletter-reason", "why".into()),
                ("deadletter-description", "".into()),
            ])
        };
        assert_eq!(bus.ask("q", "update-disposition", settle()).status, 200, "{status}");
        let again = bus.ask("q", "update-disposition", settle());
        assert_eq!(refused(&again), (410, "com.microsoft:message-lock-lost"), "{status}");
        assert!(receiver.renew(settle_key, &Wait::FOREVER).is_err());
        let left = receiver.browse(10, None, &Wait::FOREVER).expect("browsed").len();
        assert_eq!(left, usize::from(!is_gone), "{status}");
        if status == "abandoned" {
            let (receiver, settle_key, _) = bus.receive();
            receiver
                .settle(settle_key, oxbus_broker::client::Settlement::Complete, &Wait::FOREVER)
                .expect("held");
        }
    }
}

#[test]
fn a_token_settles_only_in_the_sub_queue_of_its_message() {
    // B-170, B-273: found by the contract tests over AMQP. A request to the transfer dead-letter queue used to settle
    // a message of the dead-letter queue by its token.
    let bus = bus();
    bus.send("q", "x", None);
    let (receiver, settle_key, _) = bus.receive();
    let dead_letter = oxbus_broker::client::Settlement::DeadLetter {
        reason: None,
        description: None,
        changes: &[],
    };
    receiver.settle(settle_key, dead_letter, &Wait::FOREVER).expect("held");
    let (_dead_letters, _, tokens) = bus.receive_from(SubQueue::DeadLetter);
    let complete = body(vec![
        ("disposition-status", "completed".into()),
        ("lock-tokens", tokens),
    ]);
    for address in ["q", "q/$Transfer/$DeadLetterQueue"] {
        let answer = bus.ask(address, "update-disposition", complete.clone());
        assert_eq!(refused(&answer), (410, "com.microsoft:message-lock-lost"), "{address}");
    }
    let answer = bus.ask("q/$DeadLetterQueue", "update-disposition", complete);
    assert_eq!(answer.status, 200);
}

#[test]
fn deferred_messages_are_received_with_their_tokens() {
    // B-276, B-277, B-278, B-283, B-431.
    let bus = bus();
    bus.send("q", "x", None);
    let (_receiver, _, tokens) = bus.receive();
    let modified = body(vec![("colour", "red".into()), ("size", 3_i32.into())]);
    let settle = body(vec![
        ("disposition-status", "defered".into()),
        ("lock-tokens", tokens),
        ("properties-to-modify", modified.into()),
    ]);
    assert_eq!(bus.ask("q", "update-disposition", settle).status, 200);
    let fetch = |mode: AmqpValue, number: i64| {
        let numbers = array(vec![number.into()]);
        body(vec![("sequence-numbers", numbers), ("receiver-settle-mode", mode)])
    };
    let unknown = bus.ask("q", "receive-by-sequence-number", fetch(1_u32.into(), 9));
    assert_eq!(refused(&unknown), (404, "com.microsoft:message-not-found"));
    let messages = reply_field(
        &bus.ask("q", "receive-by-sequence-number", fetch(1_u32.into(), 1)),
        "messages",
    );
    let AmqpValue::List(messages) = messages else {
        panic!("a list")
    };
    let entry = messages[0].as_map().expect("a map");
    let token = entry.get("lock-token").expect("a token").clone();
    let Some(AmqpValue::Binary(message)) = entry.get("message") else {
        panic!("a binary")
    };
    let sections = Sections::scan(message).expect("a message");
    let properties = read_map(message, &sections.application_properties).expect("properties");
    assert_eq!(properties.get("colour").and_then(AmqpValue::as_text), Some("red"));
    assert_eq!(properties.get("size").and_then(AmqpValue::as_i64), Some(3));
    let complete = body(vec![
        ("disposition-status", "completed".into()),
        ("lock-tokens", array(vec![token])),
    ]);
    assert_eq!(bus.ask("q", "update-disposition", complete).status, 200);
    let gone = bus.ask("q", "receive-by-sequence-number", fetch(0_u8.into(), 1));
    assert_eq!(refused(&gone), (404, "com.microsoft:message-not-found"));
}

#[test]
fn rules_can_be_added_listed_and_removed() {
    // B-360, B-431, B-432, B-433.
    let bus = bus();
    let path = "t/Subscriptions/a";
    let add = |name: &str, key: &str, filter: Map| {
        let description = body(vec![(key, filter.into()), ("sql-rule-action", AmqpValue::Null)]);
        body(vec![
            ("rule-name", name.into()),
            ("rule-description", description.into()),
        ])
    };
    let red = || add("red", "sql-filter", body(vec![("expression", "colour = 'red'".into())]));
    assert_eq!(bus.ask(path, "add-rule", red()).status, 200);
    let again = bus.ask(path, "add-rule", red());
    assert_eq!(refused(&again), (409, "com.microsoft:entity-already-exists"));
    let span = AmqpValue::described(Symbol::from("com.microsoft:timespan").into(), 15_000_000_i64.into());
    let properties = body(vec![("to", "me".into()), ("wait", span)]);
    let letter = body(vec![
        ("label", "letter".into()),
        ("to", AmqpValue::Null),
        ("properties", properties.clone().into()),
    ]);
    assert_eq!(
        bus.ask(path, "add-rule", add("letter", "correlation-filter", letter))
            .status,
        200
    );
    let wrong = add("wrong", "sql-filter", body(vec![("expression", "colour =".into())]));
    assert_eq!(
        refused(&bus.ask(path, "add-rule", wrong)),
        (400, "com.microsoft:argument-error")
    );
    let page = |skip: i32| body(vec![("top", 100_i32.into()), ("skip", skip.into())]);
    let AmqpValue::List(rules) = reply_field(&bus.ask(path, "enumerate-rules", page(0)), "rules") else {
        panic!("a list")
    };
    let entries: Vec<&AmqpValue> = rules
        .iter()
        .filter_map(|rule| rule.as_map()?.get("rule-description"))
        .collect();
    let filters: Vec<u64> = entries.iter().map(|rule| descriptor(part(rule, 0))).collect();
    assert_eq!(filters, [0x13_7000_0007, 0x13_7000_0009, 0x13_7000_0006]);
    let names: Vec<&AmqpValue> = entries.iter().map(|rule| part(rule, 2)).collect();
    assert_eq!(names, [&"$Default".into(), &"letter".into(), &"red".into()]);
    for rule in &entries {
        assert_eq!(descriptor(rule), 0x137_0000_0004);
        assert_eq!(descriptor(part(rule, 1)), 0x137_0000_0005);
    }
    assert_eq!(part(part(entries[1], 0), 4), &"letter".into());
    let shown_properties = part(part(entries[1], 0), 8).as_map().expect("a map");
    assert!(shown_properties.iter().eq(properties.iter()), "{shown_properties:?}");
    assert_eq!(part(part(entries[2], 0), 0), &"colour = 'red'".into());
    assert_eq!(bus.ask(path, "enumerate-rules", page(3)).status, 204);
    let remove = || body(vec![("rule-name", "red".into())]);
    assert_eq!(bus.ask(path, "remove-rule", remove()).status, 200);
    assert_eq!(
        refused(&bus.ask(path, "remove-rule", remove())),
        (404, "amqp:not-found")
    );
    assert_eq!(
        refused(&bus.ask("q", "remove-rule", remove())),
        (400, "amqp:not-allowed")
    );
}

fn descriptor(value: &AmqpValue) -> u64 {
    let AmqpValue::Described(pair) = value else {
        panic!("described: {value:?}")
    };
    let AmqpValue::Ulong(code) = pair.0 else {
        panic!("a ulong: {:?}", pair.0)
    };
    code
}

fn part(value: &AmqpValue, at: usize) -> &AmqpValue {
    &value.undescribed().as_items().expect("a list")[at]
}

#[test]
fn sessions_are_listed_and_need_a_holder() {
    // B-203, B-214.
    let bus = bus();
    let list = |skip: i32| {
        body(vec![
            ("last-updated-time", AmqpTimestamp(253_402_300_800_000).into()),
            ("skip", skip.into()),
            ("top", 100_i32.into()),
        ])
    };
    assert_eq!(bus.ask("s", "get-message-sessions", list(0)).status, 204);
    bus.send("s", "x", Some("b"));
    bus.send("s", "x", Some("a"));
    let reply = bus.ask("s", "get-message-sessions", list(0));
    assert_eq!(reply_field(&reply, "sessions-ids"), array(vec!["a".into(), "b".into()]));
    assert_eq!(reply_field(&reply, "skip"), AmqpValue::Int(2));
    assert_eq!(bus.ask("s", "get-message-sessions", list(2)).status, 204);
    for operation in ["renew-session-lock", "get-session-state", "set-session-state"] {
        let reply = bus.ask("s", operation, body(vec![("session-id", "a".into())]));
        assert_eq!(refused(&reply), (410, "com.microsoft:session-lock-lost"), "{operation}");
    }
}

#[test]
fn messages_are_deleted_in_batches() {
    // B-401, B-402, B-403: AMQP_BATCH_DELETE_MAX.
    let bus = bus();
    for text in ["a", "b", "c"] {
        bus.send("q", text, None);
    }
    let delete = |count: i32, before: i64| {
        body(vec![
            ("message-count", count.into()),
            ("enqueued-time-utc", AmqpTimestamp(before).into()),
        ])
    };
    let far = 4_000_000_000_000;
    assert_eq!(bus.ask("q", "batch-delete-messages", delete(10, 1)).status, 204);
    let reply = bus.ask("q", "batch-delete-messages", delete(2, far));
    assert_eq!(reply_field(&reply, "message-count"), AmqpValue::Int(2));
    let reply = bus.ask("q", "batch-delete-messages", delete(2, far));
    assert_eq!(reply_field(&reply, "message-count"), AmqpValue::Int(1));
    for count in [0, 4_001, -1] {
        let reply = bus.ask("q", "batch-delete-messages", delete(count, far));
        assert_eq!(refused(&reply), (400, "com.microsoft:argument-error"), "{count}");
    }
}

#[test]
fn invalid_requests_are_rejected() {
    // B-434.
    let bus = bus();
    assert_eq!(
        refused(&bus.ask("q", "none", Map::new())),
        (501, "amqp:not-implemented")
    );
    assert_eq!(
        refused(&bus.ask("q", "renew-lock", "text")),
        (400, "com.microsoft:argument-error")
    );
    assert_eq!(
        refused(&bus.ask(
            "nowhere",
            "peek-message",
            body(vec![
                ("from-sequence-number", 1_i64.into()),
                ("message-count", 1_i32.into())
            ])
        )),
        (404, "amqp:not-found")
    );
    let foreign = body(vec![("lock-tokens", array(vec![Uuid([7; 16]).into()]))]);
    assert_eq!(
        refused(&bus.ask("q", "renew-lock", foreign)),
        (410, "com.microsoft:message-lock-lost")
    );
}

#[test]
fn requests_without_a_right_are_rejected() {
    // B-416.
    let mut bus = bus();
    bus.state = Arc::new(ConnectionState::new(bus.context.clone()));
    let reply = bus.ask("q", "schedule-message", body(vec![("messages", later())]));
    assert_eq!(refused(&reply), (401, "amqp:unauthorized-access"));
}

const OPERATIONS: [&str; 14] = [
    "peek-message",
    "receive-by-sequence-number",
    "renew-lock",
    "update-disposition",
    "schedule-message",
    "cancel-scheduled-message",
    "renew-session-lock",
    "get-session-state",
    "set-session-state",
    "get-message-sessions",
    "add-rule",
    "remove-rule",
    "enumerate-rules",
    "batch-delete-messages",
];

const KEYS: [&str; 12] = [
    "lock-tokens",
    "from-sequence-number",
    "message-count",
    "sequence-numbers",
    "receiver-settle-mode",
    "disposition-status",
    "session-id",
    "messages",
    "rule-name",
    "rule-description",
    "skip",
    "top",
];

fn any_value() -> impl Strategy<Value = AmqpValue> {
    let leaf = prop_oneof![
        Just(AmqpValue::Null),
        any::<bool>().prop_map(AmqpValue::from),
        any::<i32>().prop_map(AmqpValue::from),
        any::<i64>().prop_map(AmqpValue::from),
        any::<u64>().prop_map(AmqpValue::from),
        ".{0,8}".prop_map(AmqpValue::from),
        any::<i64>().prop_map(|ms| AmqpValue::from(AmqpTimestamp(ms))),
        any::<[u8; 16]>().prop_map(|bytes| AmqpValue::from(Uuid(bytes))),
        proptest::collection::vec(any::<u8>(), 0..8).prop_map(|bytes| AmqpValue::from(Bytes::from(bytes))),
        "[a-z]{0,8}".prop_map(|name| AmqpValue::from(Symbol::new(&name))),
    ];
    leaf.prop_recursive(2, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(AmqpValue::List),
            proptest::collection::vec(("[a-z-]{0,12}".prop_map(AmqpValue::from), inner), 0..4)
                .prop_map(|pairs| AmqpValue::Map(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_request_gets_a_reply(
        operation in proptest::sample::select(&OPERATIONS[..]),
        path in proptest::sample::select(&["q", "s", "t", "t/Subscriptions/a"][..]),
        pairs in proptest::collection::vec((proptest::sample::select(&KEYS[..]), any_value()), 0..6),
    ) {
        let reply = bus().ask(path, operation, body(pairs));
        let is_error = reply.condition.is_some();
        prop_assert_eq!(is_error, reply.status >= 400, "{:?}", reply);
    }
}
