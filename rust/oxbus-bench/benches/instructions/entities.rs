// SPDX-License-Identifier: Apache-2.0
//! Topics, sessions and forwards in memory, and the filters of rules.

use std::hint::black_box;

use oxbus_broker::client::SessionSelector;
use oxbus_broker::filter::SqlFilter;
use oxbus_broker::namespace::{SubscriptionOptions, TopicOptions};
use oxbus_broker::{Namespace, NamespaceOptions, ReceiverOptions};
use oxbus_model::message::Fields;
use oxbus_model::options::QueueSettings;
use oxbus_model::rules::{FilterSettings, RuleSettings};

use crate::bus::{NOW, WAIT, complete, ends, fields, in_memory, receiver};

/// A message to a topic with three subscriptions, two of which want it; completed in both.
pub(crate) fn topic(rounds: usize) {
    let namespace = Namespace::open(NamespaceOptions::default()).expect("a namespace in memory");
    let options = TopicOptions {
        support_ordering: false,
    };
    namespace
        .create_topic("news", QueueSettings::default(), options, WAIT)
        .expect("a new topic");
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
            .expect("a new subscription");
    }
    let sender = namespace.sender("news").expect("a sender");
    let receivers = ["news/Subscriptions/all", "news/Subscriptions/plain"].map(|path| receiver(&namespace, path));
    let fields = fields(None);
    for _ in 0..rounds {
        sender.send(black_box(&fields), None, WAIT).expect("room");
        receivers.iter().for_each(complete);
    }
}

/// A message of a session is sent; the session is accepted, its message completed, its state set, and it is closed.
pub(crate) fn session(rounds: usize) {
    let namespace = Namespace::open(NamespaceOptions::default()).expect("a namespace in memory");
    let settings = QueueSettings {
        requires_session: true,
        ..QueueSettings::default()
    };
    namespace.create_queue("visits", settings, WAIT).expect("a new queue");
    let sender = namespace.sender("visits").expect("a sender");
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
        .expect("an acceptor");
    for _ in 0..rounds {
        sender.send(black_box(&fields), None, WAIT).expect("room");
        let receiver = acceptor.accept_now(WAIT).expect("a queue with sessions");
        let receiver = receiver.expect("a session with a message");
        complete(&receiver);
        receiver
            .set_session_state(Some(b"state"), WAIT)
            .expect("a session that holds");
        receiver.close(WAIT);
    }
}

/// A message to a queue that forwards, completed in the queue that it comes to.
pub(crate) fn forward(rounds: usize) {
    let namespace = in_memory();
    let settings = QueueSettings {
        forward_to: Some("orders".to_owned()),
        ..QueueSettings::default()
    };
    namespace.create_queue("inbox", settings, WAIT).expect("a new queue");
    let sender = namespace.sender("inbox").expect("a sender");
    let (_, receiver) = ends(&namespace, "orders");
    let fields = fields(None);
    for _ in 0..rounds {
        sender.send(black_box(&fields), None, WAIT).expect("room");
        complete(&receiver);
    }
}

/// A filter of a rule, from its text.
pub(crate) fn parse(rounds: usize) {
    const TYPICAL: &str = "sys.Label LIKE 'order.%' AND color IN ('red', 'blue') AND quantity > 5";
    for _ in 0..rounds {
        black_box(SqlFilter::parse(black_box(TYPICAL), &[]).expect("a filter"));
    }
}
