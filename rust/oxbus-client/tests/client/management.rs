// SPDX-License-Identifier: Apache-2.0
//! Schedules, rules, deletion.

use oxbus_broker::namespace::{SubscriptionOptions, TopicOptions};
use oxbus_client::{ClientErrorKind, EncodedMessage, block_on};
use oxbus_model::message::{Body, Fields, MessageId};
use oxbus_model::options::QueueSettings;
use oxbus_model::rules::{ActionSettings, CorrelationSettings, FilterSettings, OwnedValue, RuleSettings};
use oxbus_model::{ErrorKind, SequenceNumber};
use oxbus_store::Wait;

use super::server::{Server, clock, error, none, receiver, send, soon};

fn scheduled(id: &str, after_ms: u64) -> EncodedMessage {
    EncodedMessage::from_fields(&Fields {
        body: Body::Data(b"later"),
        message_id: Some(MessageId::Given(id)),
        scheduled_enqueue_time: Some(clock().plus_ms(after_ms)),
        ..Fields::default()
    })
}

#[test]
fn messages_are_scheduled_and_cancelled() {
    let server = Server::start();
    let client = server.client();
    let management = client.management("orders");
    let messages = [scheduled("1", 3_600_000), scheduled("2", 3_600_000)];
    let numbers = block_on(management.schedule(&messages, None, soon())).expect("schedules");
    assert_eq!(numbers.len(), 2);
    none(&receiver(&client, "orders"));
    block_on(management.cancel_scheduled(&numbers, soon())).expect("cancels");
    let failed = error(block_on(management.cancel_scheduled(&numbers, soon())));
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::MessageNotFound));
    assert_eq!(failed.condition(), Some("com.microsoft:message-not-found"));
}

#[test]
fn messages_are_deleted() {
    let server = Server::start();
    let client = server.client();
    let sender = client.sender("orders");
    for text in ["1", "2", "3"] {
        send(&sender, text);
    }
    let management = client.management("orders");
    let later = clock().plus_ms(60_000);
    assert_eq!(
        block_on(management.delete_messages(2, later, soon())).expect("deletes"),
        2
    );
    assert_eq!(
        block_on(management.delete_messages(10, later, soon())).expect("deletes"),
        1
    );
    assert_eq!(
        block_on(management.delete_messages(10, later, soon())).expect("deletes"),
        0
    );
}

#[test]
fn rules_survive_the_way() {
    let server = Server::start();
    server
        .namespace
        .create_topic(
            "events",
            QueueSettings::default(),
            TopicOptions { support_ordering: true },
            &Wait::FOREVER,
        )
        .expect("a new topic");
    server
        .namespace
        .create_subscription(
            "events",
            "all",
            QueueSettings::default(),
            SubscriptionOptions {
                dead_letter_failed: true,
            },
            None,
            &Wait::FOREVER,
        )
        .expect("a new subscription");
    let client = server.client();
    let management = client.management("events/Subscriptions/all");
    let before = block_on(management.rules(soon())).expect("rules");
    assert_eq!(before.len(), 1);
    assert_eq!(before[0].filter, FilterSettings::True);
    let correlation = RuleSettings {
        name: "by-subject".to_owned(),
        filter: FilterSettings::Correlation(CorrelationSettings {
            subject: Some("order.created".to_owned()),
            properties: vec![
                ("region".to_owned(), OwnedValue::Text("north".to_owned())),
                ("quantity".to_owned(), OwnedValue::Int(17)),
            ],
            ..CorrelationSettings::default()
        }),
        action: Some(ActionSettings {
            expression: "SET seen = 1".to_owned(),
            parameters: Vec::new(),
        }),
        created_at_ms: 0,
    };
    let sql = RuleSettings {
        name: "by-sql".to_owned(),
        filter: FilterSettings::Sql {
            expression: "quantity > 5".to_owned(),
            parameters: Vec::new(),
        },
        action: None,
        created_at_ms: 0,
    };
    let never = RuleSettings {
        name: "never".to_owned(),
        filter: FilterSettings::False,
        ..sql.clone()
    };
    for rule in [&correlation, &sql, &never] {
        block_on(management.add_rule(rule, soon())).expect("adds");
    }
    let failed = error(block_on(management.add_rule(&sql, soon())));
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::EntityAlreadyExists));
    block_on(management.remove_rule(&before[0].name, soon())).expect("removes");
    let mut found = block_on(management.rules(soon())).expect("rules");
    for rule in &mut found {
        assert!(rule.created_at_ms > 0);
        rule.created_at_ms = 0;
    }
    assert_eq!(found, [sql, correlation, never].map(|rule| rule));
    let failed = error(block_on(management.add_rule(
        &RuleSettings {
            name: "broken".to_owned(),
            filter: FilterSettings::Sql {
                expression: "quantity >".to_owned(),
                parameters: Vec::new(),
            },
            action: None,
            created_at_ms: 0,
        },
        soon(),
    )));
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::InvalidArgument));
}

#[test]
fn the_management_of_a_missing_entity_is_missing() {
    let server = Server::start();
    let client = server.client();
    let failed = error(block_on(client.management("nothing").peek(
        SequenceNumber(0),
        1,
        soon(),
    )));
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::EntityNotFound));
}
