// SPDX-License-Identifier: Apache-2.0
//! The entities of the directory.

use oxbus_broker::Namespace;
use oxbus_broker::namespace::{AuthorizationRuleUpdate, EntityOption, SubscriptionOptions, TopicOptions};
use oxbus_model::authorization::AccessRight;
use oxbus_model::options::{EntityStatus, QueueSettings};
use oxbus_model::rules::{ActionSettings, CorrelationSettings, FilterSettings, OwnedValue, RuleSettings};

use super::bus::WAIT;

fn partitioned() -> QueueSettings {
    QueueSettings {
        enable_partitioning: true,
        ..QueueSettings::default()
    }
}

/// Creates all entities.
pub(crate) fn create(namespace: &Namespace) {
    with_rights(namespace);
    queues(namespace);
    topic(namespace);
    // The number and the events of a deleted entity.
    let gone = namespace.create_queue("gone", partitioned(), &WAIT).expect("valid");
    let sender = namespace.sender("gone").expect("the queue exists");
    sender
        .send(&super::bus::text("gone", "key"), None, &WAIT)
        .expect("it has room");
    namespace.delete(&gone).expect("the queue exists");
}

/// A queue whose settings all differ from the defaults.
fn with_rights(namespace: &Namespace) {
    let rule = |key_name: &str, key: Option<&str>, rights: &[AccessRight]| AuthorizationRuleUpdate {
        key_name: key_name.to_owned(),
        primary_key: key.map(ToOwned::to_owned),
        secondary_key: key.map(|key| key.chars().rev().collect()),
        rights: rights.to_vec(),
    };
    let options = vec![
        EntityOption::EnablePartitioning(true),
        EntityOption::LockDuration(240_000),
        EntityOption::MaxDeliveryCount(3),
        EntityOption::DefaultTimeToLive(7_200_000),
        EntityOption::DeadLetterExpired(true),
        EntityOption::MaxSizeMegabytes(2_048),
        EntityOption::MaxMessageSizeKilobytes(512),
        EntityOption::UserMetadata("kept for the owner: é 鍵".to_owned()),
        EntityOption::EnableBatchedOperations(false),
        EntityOption::EnableExpress(true),
        EntityOption::AuthorizationRules(vec![
            rule(
                "given",
                Some("0123456789abcdef0123456789abcdef"),
                &[AccessRight::Send, AccessRight::Listen],
            ),
            rule("made", None, &AccessRight::ALL),
        ]),
    ];
    namespace.create_queue_with("orders", options, &WAIT).expect("valid");
}

fn queues(namespace: &Namespace) {
    let settings: [(&str, QueueSettings); 8] = [
        (
            "once",
            QueueSettings {
                requires_duplicate_detection: true,
                duplicate_window_ms: 3_600_000,
                ..partitioned()
            },
        ),
        (
            "talks",
            QueueSettings {
                requires_session: true,
                expire_whole_sessions: true,
                ..partitioned()
            },
        ),
        ("archive", QueueSettings::default()),
        (
            "inbox",
            QueueSettings {
                forward_to: Some("archive".to_owned()),
                ..QueueSettings::default()
            },
        ),
        (
            "worker",
            QueueSettings {
                forward_dead_letters_to: Some("archive".to_owned()),
                auto_delete_on_idle_ms: Some(86_400_000),
                ..QueueSettings::default()
            },
        ),
        ("ledger", partitioned()),
        ("loaded", partitioned()),
        ("reserved", partitioned()),
    ];
    for (name, settings) in settings {
        namespace.create_queue(name, settings, &WAIT).expect("valid");
    }
    let closed = namespace
        .create_queue("closed", QueueSettings::default(), &WAIT)
        .expect("valid");
    namespace
        .update(&closed, |it| it.status = EntityStatus::ReceiveDisabled, &WAIT)
        .expect("valid");
}

fn topic(namespace: &Namespace) {
    let options = TopicOptions {
        support_ordering: false,
    };
    namespace
        .create_topic("events", partitioned(), options, &WAIT)
        .expect("valid");
    let text = |text: &str| OwnedValue::Text(text.to_owned());
    let urgent = RuleSettings {
        name: "urgent".to_owned(),
        filter: FilterSettings::Sql {
            expression: "priority >= @least AND sys.Label LIKE 'alarm%'".to_owned(),
            parameters: vec![("@least".to_owned(), OwnedValue::Int(5))],
        },
        action: Some(ActionSettings {
            expression: "SET level = @level; REMOVE priority".to_owned(),
            parameters: vec![("@level".to_owned(), text("high"))],
        }),
        created_at_ms: 0,
    };
    let blue = RuleSettings {
        name: "blue".to_owned(),
        filter: FilterSettings::Correlation(CorrelationSettings {
            subject: Some("paint".to_owned()),
            properties: vec![("color".to_owned(), text("blue"))],
            ..CorrelationSettings::default()
        }),
        action: None,
        created_at_ms: 0,
    };
    let none = RuleSettings {
        name: "none".to_owned(),
        filter: FilterSettings::False,
        ..blue.clone()
    };
    for (name, dead_letter_failed, rule) in [("all", true, None), ("chosen", false, Some(urgent))] {
        let options = SubscriptionOptions { dead_letter_failed };
        namespace
            .create_subscription("events", name, partitioned(), options, rule, &WAIT)
            .expect("valid");
    }
    for rule in [blue, none] {
        namespace.create_rule("events", "chosen", &rule, &WAIT).expect("valid");
    }
}
