// SPDX-License-Identifier: Apache-2.0
//! Cases with topics, sessions and forwarding in memory, and with filters of rules.

use std::hint::black_box;

use oxbus_broker::client::SessionSelector;
use oxbus_broker::filter::SqlFilter;
use oxbus_broker::namespace::{SubscriptionOptions, TopicOptions};
use oxbus_broker::{Namespace, NamespaceOptions, ReceiverOptions};
use oxbus_model::message::Fields;
use oxbus_model::options::QueueSettings;
use oxbus_model::rules::{FilterSettings, RuleSettings};

use crate::bus::{NOW, WAIT, complete, fields, in_memory, receiver, sender_and_receiver};

/// Each round sends a message to a topic with three subscriptions, two of which select it, and completes both copies.
pub(crate) fn topic(rounds: usize) {
    let namespace = Namespace::open(NamespaceOptions::default()).expect("opens");
    let options = TopicOptions {
        support_ordering: false,
    };
    namespace
        .create_topic("news", QueueSettings::default(), options, WAIT)
        .expect("creates the topic");
    for (name, filter) in [
        ("all", "1 = 1"),
        ("plain", "sys.Label IS NULL"),
        ("red", "color = 'red'"),
    ] {
        let rule = RuleSettings {
            name: "rule".to_owned(),
            filter: FilterSettings::Sql {
                expression: filter.to_owned(),
                parameters: Vec::new(),
            },
            action: None,
            created_at_ms: NOW.0,
        };
        let options = SubscriptionOptions {
            dead_letter_failed: true,
        };
        namespace
            .create_subscription("news", name, QueueSettings::default(), options, Some(rule), WAIT)
            .expect("creates the subscription");
    }
    let sender = namespace.sender("news").expect("opens a sender");
    let receivers = ["news/Subscriptions/all", "news/Subscriptions/plain"].map(|path| receiver(&namespace, path));
    let fields = fields(None);
    for _ in 0..rounds {
        sender.send(black_box(&fields), None, WAIT).expect("sends");
        receivers.iter().for_each(complete);
    }
}

/// Each round sends a message of a session, accepts the session, completes the message, sets the state, and closes the
/// session.
pub(crate) fn session(rounds: usize) {
    let namespace = Namespace::open(NamespaceOptions::default()).expect("opens");
    let settings = QueueSettings {
        requires_session: true,
        ..QueueSettings::default()
    };
    namespace
        .create_queue("visits", settings, WAIT)
        .expect("creates the queue");
    let sender = namespace.sender("visits").expect("opens a sender");
    let fields = Fields {
        session_id: Some("customer-4711"),
        ..fields(None)
    };
    let acceptor = namespace
        .acceptor(
            "visits",
            SessionSelector::Next,
            ReceiverOptions::default(),
            "counted".to_owned(),
        )
        .expect("opens an acceptor");
    for _ in 0..rounds {
        sender.send(black_box(&fields), None, WAIT).expect("sends");
        let receiver = acceptor.accept_now(WAIT).expect("accepts");
        let receiver = receiver.expect("the session has a message");
        complete(&receiver);
        receiver
            .set_session_state(Some(b"state"), WAIT)
            .expect("the session lock is valid");
        receiver.close(WAIT);
    }
}

/// Each round sends a message to a queue that forwards, and completes it in the target queue.
pub(crate) fn forward(rounds: usize) {
    let namespace = in_memory();
    let settings = QueueSettings {
        forward_to: Some("orders".to_owned()),
        ..QueueSettings::default()
    };
    namespace
        .create_queue("inbox", settings, WAIT)
        .expect("creates the queue");
    let sender = namespace.sender("inbox").expect("opens a sender");
    let (_, receiver) = sender_and_receiver(&namespace, "orders");
    let fields = fields(None);
    for _ in 0..rounds {
        sender.send(black_box(&fields), None, WAIT).expect("sends");
        complete(&receiver);
    }
}

/// Parses an SQL filter.
pub(crate) fn parse(rounds: usize) {
    const TYPICAL: &str = "sys.Label LIKE 'order.%' AND color IN ('red', 'blue') AND quantity > 5";
    for _ in 0..rounds {
        black_box(SqlFilter::parse(black_box(TYPICAL), &[]).expect("parses"));
    }
}
