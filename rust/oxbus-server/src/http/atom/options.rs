// SPDX-License-Identifier: Apache-2.0
//! The options of an entity, from its description to what the broker is asked for.
//!
//! An element that is absent says nothing; so does an empty one, except where an empty text is a value.

use oxbus_broker::namespace::EntityOption;
use oxbus_model::options::EntityStatus;

use super::xml::Element;
use super::{authorization, duration, forwarding};
use crate::http::refusal::Refusal;

/// How an element is read, and what it asks for.
enum Read {
    Duration(fn(u64) -> EntityOption),
    Number(fn(u64) -> EntityOption),
    Flag(fn(bool) -> EntityOption),
    Text(fn(String) -> EntityOption),
    Path(fn(String) -> EntityOption),
    Status,
    Rules,
    /// Refused unless it is false: the broker has no such thing.
    Off,
}

type Options = &'static [(&'static str, Read)];

const QUEUE: Options = &[
    ("LockDuration", Read::Duration(EntityOption::LockDuration)),
    ("MaxSizeInMegabytes", Read::Number(EntityOption::MaxSizeMegabytes)),
    (
        "RequiresDuplicateDetection",
        Read::Flag(EntityOption::RequiresDuplicateDetection),
    ),
    ("RequiresSession", Read::Flag(EntityOption::RequiresSession)),
    (
        "DefaultMessageTimeToLive",
        Read::Duration(EntityOption::DefaultTimeToLive),
    ),
    (
        "DeadLetteringOnMessageExpiration",
        Read::Flag(EntityOption::DeadLetterExpired),
    ),
    (
        "DuplicateDetectionHistoryTimeWindow",
        Read::Duration(EntityOption::DuplicateWindow),
    ),
    ("MaxDeliveryCount", Read::Number(EntityOption::MaxDeliveryCount)),
    (
        "EnableBatchedOperations",
        Read::Flag(EntityOption::EnableBatchedOperations),
    ),
    ("IsAnonymousAccessible", Read::Off),
    ("AuthorizationRules", Read::Rules),
    ("Status", Read::Status),
    ("AutoDeleteOnIdle", Read::Duration(EntityOption::AutoDeleteOnIdle)),
    ("EnablePartitioning", Read::Flag(EntityOption::EnablePartitioning)),
    ("EnableExpress", Read::Flag(EntityOption::EnableExpress)),
    ("ForwardTo", Read::Path(EntityOption::ForwardTo)),
    ("UserMetadata", Read::Text(EntityOption::UserMetadata)),
    (
        "ForwardDeadLetteredMessagesTo",
        Read::Path(EntityOption::ForwardDeadLettersTo),
    ),
    (
        "MaxMessageSizeInKilobytes",
        Read::Number(EntityOption::MaxMessageSizeKilobytes),
    ),
];

const TOPIC: Options = &[
    (
        "DefaultMessageTimeToLive",
        Read::Duration(EntityOption::DefaultTimeToLive),
    ),
    ("MaxSizeInMegabytes", Read::Number(EntityOption::MaxSizeMegabytes)),
    (
        "RequiresDuplicateDetection",
        Read::Flag(EntityOption::RequiresDuplicateDetection),
    ),
    (
        "DuplicateDetectionHistoryTimeWindow",
        Read::Duration(EntityOption::DuplicateWindow),
    ),
    (
        "EnableBatchedOperations",
        Read::Flag(EntityOption::EnableBatchedOperations),
    ),
    ("FilteringMessagesBeforePublishing", Read::Off),
    ("IsAnonymousAccessible", Read::Off),
    ("AuthorizationRules", Read::Rules),
    ("Status", Read::Status),
    ("SupportOrdering", Read::Flag(EntityOption::SupportOrdering)),
    ("AutoDeleteOnIdle", Read::Duration(EntityOption::AutoDeleteOnIdle)),
    ("EnablePartitioning", Read::Flag(EntityOption::EnablePartitioning)),
    ("EnableExpress", Read::Flag(EntityOption::EnableExpress)),
    ("UserMetadata", Read::Text(EntityOption::UserMetadata)),
    (
        "MaxMessageSizeInKilobytes",
        Read::Number(EntityOption::MaxMessageSizeKilobytes),
    ),
];

const SUBSCRIPTION: Options = &[
    ("LockDuration", Read::Duration(EntityOption::LockDuration)),
    ("RequiresSession", Read::Flag(EntityOption::RequiresSession)),
    (
        "DefaultMessageTimeToLive",
        Read::Duration(EntityOption::DefaultTimeToLive),
    ),
    (
        "DeadLetteringOnMessageExpiration",
        Read::Flag(EntityOption::DeadLetterExpired),
    ),
    (
        "DeadLetteringOnFilterEvaluationExceptions",
        Read::Flag(EntityOption::DeadLetterFailed),
    ),
    ("MaxDeliveryCount", Read::Number(EntityOption::MaxDeliveryCount)),
    (
        "EnableBatchedOperations",
        Read::Flag(EntityOption::EnableBatchedOperations),
    ),
    ("Status", Read::Status),
    ("ForwardTo", Read::Path(EntityOption::ForwardTo)),
    (
        "ForwardDeadLetteredMessagesTo",
        Read::Path(EntityOption::ForwardDeadLettersTo),
    ),
    ("AutoDeleteOnIdle", Read::Duration(EntityOption::AutoDeleteOnIdle)),
    ("UserMetadata", Read::Text(EntityOption::UserMetadata)),
];

/// What is described, by the name of its element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Described {
    Queue,
    Topic,
    Subscription,
}

impl Described {
    pub(super) fn of(element: &Element) -> Option<Self> {
        match element.name.as_str() {
            "QueueDescription" => Some(Self::Queue),
            "TopicDescription" => Some(Self::Topic),
            "SubscriptionDescription" => Some(Self::Subscription),
            _ => None,
        }
    }

    fn options(self) -> Options {
        match self {
            Self::Queue => QUEUE,
            Self::Topic => TOPIC,
            Self::Subscription => SUBSCRIPTION,
        }
    }
}

/// What a description asks for. An update that is silent about forwarding ends it, as in the service.
pub(super) fn wishes(kind: Described, description: &Element, is_update: bool) -> Result<Vec<EntityOption>, Refusal> {
    let mut wishes = Vec::new();
    for (name, read) in kind.options() {
        let element = description.child(name);
        if let (None, Read::Path(wish), true) = (element, read, is_update) {
            wishes.push(wish(String::new()));
        }
        if let Some(element) = element {
            wishes.extend(wish(name, read, element)?);
        }
    }
    Ok(wishes)
}

/// The paths that a description forwards to: those of messages, then those of dead letters.
pub(super) fn destinations(wishes: &[EntityOption]) -> [Option<&str>; 2] {
    let mut found = [None, None];
    for wish in wishes {
        match wish {
            EntityOption::ForwardTo(path) => found[0] = Some(path.as_str()),
            EntityOption::ForwardDeadLettersTo(path) => found[1] = Some(path.as_str()),
            _ => {}
        }
    }
    found.map(|path| path.filter(|path| !path.is_empty()))
}

fn wish(name: &str, read: &Read, element: &Element) -> Result<Option<EntityOption>, Refusal> {
    let text = element.text.trim();
    let wrong = |expected: &str| Refusal::bad_request(format!("{name} must be {expected}: `{text}`"));
    if text.is_empty()
        && matches!(
            read,
            Read::Duration(_) | Read::Number(_) | Read::Flag(_) | Read::Status | Read::Off
        )
    {
        return Ok(None);
    }
    let flag = || match text {
        "true" | "True" | "1" => Ok(true),
        "false" | "False" | "0" => Ok(false),
        _ => Err(wrong("true or false")),
    };
    Ok(Some(match read {
        Read::Duration(wish) => {
            let ms = duration::read(text);
            wish(ms.ok_or_else(|| wrong("an ISO 8601 duration of days, hours, minutes and seconds such as PT1M"))?)
        }
        Read::Number(wish) => wish(text.parse().map_err(|_| wrong("a whole number that is not negative"))?),
        Read::Flag(wish) => wish(flag()?),
        Read::Text(wish) => wish(element.text.clone()),
        Read::Path(wish) => wish(forwarding::path(text)),
        Read::Status => EntityOption::Status(status(text).ok_or_else(|| {
            wrong("Active, Disabled, SendDisabled or ReceiveDisabled; the others are set by the service alone")
        })?),
        Read::Rules => EntityOption::AuthorizationRules(authorization::read(element)?),
        Read::Off if flag()? => return Err(wrong("false: this version does not have that")),
        Read::Off => return Ok(None),
    }))
}

fn status(text: &str) -> Option<EntityStatus> {
    [
        EntityStatus::Active,
        EntityStatus::Disabled,
        EntityStatus::SendDisabled,
        EntityStatus::ReceiveDisabled,
    ]
    .into_iter()
    .find(|status| format!("{status:?}").eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use oxbus_broker::namespace::EntityOption;

    use super::{Described, wishes};
    use crate::http::atom::xml::Element;

    fn of(xml: &str, is_update: bool) -> Vec<EntityOption> {
        let root = Element::parse(xml.as_bytes()).expect("XML");
        wishes(Described::of(&root).expect("a description"), &root, is_update).expect("wishes")
    }

    #[test]
    fn absent_and_empty_elements_say_nothing() {
        assert_eq!(of("<QueueDescription><LockDuration/></QueueDescription>", false), []);
        let xml = "<QueueDescription><Unheard>1</Unheard><LockDuration>PT5S</LockDuration></QueueDescription>";
        assert_eq!(of(xml, false), [EntityOption::LockDuration(5_000)]);
    }

    #[test]
    fn an_update_that_is_silent_about_forwarding_ends_it() {
        let none = || String::new();
        assert_eq!(
            of("<SubscriptionDescription/>", true),
            [
                EntityOption::ForwardTo(none()),
                EntityOption::ForwardDeadLettersTo(none())
            ]
        );
        assert_eq!(of("<TopicDescription/>", true), []);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for (name, text) in [
            ("LockDuration", "60"),
            ("MaxDeliveryCount", "-1"),
            ("MaxSizeInMegabytes", "much"),
            ("RequiresSession", "yes"),
            ("Status", "Restoring"),
            ("IsAnonymousAccessible", "true"),
        ] {
            let xml = format!("<QueueDescription><{name}>{text}</{name}></QueueDescription>");
            let root = Element::parse(xml.as_bytes()).expect("XML");
            assert!(wishes(Described::Queue, &root, false).is_err(), "{name}");
        }
    }
}
