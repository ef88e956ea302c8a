// SPDX-License-Identifier: Apache-2.0
//! Reads the options of an entity from its description.
//!
//! Absent elements are ignored. So are empty ones, except where an empty text is a value.

use oxbus_broker::namespace::EntityOption;
use oxbus_model::options::EntityStatus;

use super::xml::Element;
use super::{authorization, duration, forwarding};
use crate::http::error::HttpError;

/// The type of an element and the option that it sets.
enum OptionParser {
    Duration(fn(u64) -> EntityOption),
    Number(fn(u64) -> EntityOption),
    Flag(fn(bool) -> EntityOption),
    Text(fn(String) -> EntityOption),
    Path(fn(String) -> EntityOption),
    Status,
    Rules,
    /// An option that the broker does not support. It is rejected unless it is false.
    Unsupported,
}

type Options = &'static [(&'static str, OptionParser)];

const QUEUE: Options = &[
    ("LockDuration", OptionParser::Duration(EntityOption::LockDuration)),
    (
        "MaxSizeInMegabytes",
        OptionParser::Number(EntityOption::MaxSizeMegabytes),
    ),
    (
        "RequiresDuplicateDetection",
        OptionParser::Flag(EntityOption::RequiresDuplicateDetection),
    ),
    ("RequiresSession", OptionParser::Flag(EntityOption::RequiresSession)),
    (
        "DefaultMessageTimeToLive",
        OptionParser::Duration(EntityOption::DefaultTimeToLive),
    ),
    (
        "DeadLetteringOnMessageExpiration",
        OptionParser::Flag(EntityOption::DeadLetterExpired),
    ),
    (
        "DuplicateDetectionHistoryTimeWindow",
        OptionParser::Duration(EntityOption::DuplicateWindow),
    ),
    ("MaxDeliveryCount", OptionParser::Number(EntityOption::MaxDeliveryCount)),
    (
        "EnableBatchedOperations",
        OptionParser::Flag(EntityOption::EnableBatchedOperations),
    ),
    ("IsAnonymousAccessible", OptionParser::Unsupported),
    ("AuthorizationRules", OptionParser::Rules),
    ("Status", OptionParser::Status),
    (
        "AutoDeleteOnIdle",
        OptionParser::Duration(EntityOption::AutoDeleteOnIdle),
    ),
    (
        "EnablePartitioning",
        OptionParser::Flag(EntityOption::EnablePartitioning),
    ),
    ("EnableExpress", OptionParser::Flag(EntityOption::EnableExpress)),
    ("ForwardTo", OptionParser::Path(EntityOption::ForwardTo)),
    ("UserMetadata", OptionParser::Text(EntityOption::UserMetadata)),
    (
        "ForwardDeadLetteredMessagesTo",
        OptionParser::Path(EntityOption::ForwardDeadLettersTo),
    ),
    (
        "MaxMessageSizeInKilobytes",
        OptionParser::Number(EntityOption::MaxMessageSizeKilobytes),
    ),
];

const TOPIC: Options = &[
    (
        "DefaultMessageTimeToLive",
        OptionParser::Duration(EntityOption::DefaultTimeToLive),
    ),
    (
        "MaxSizeInMegabytes",
        OptionParser::Number(EntityOption::MaxSizeMegabytes),
    ),
    (
        "RequiresDuplicateDetection",
        OptionParser::Flag(EntityOption::RequiresDuplicateDetection),
    ),
    (
        "DuplicateDetectionHistoryTimeWindow",
        OptionParser::Duration(EntityOption::DuplicateWindow),
    ),
    (
        "EnableBatchedOperations",
        OptionParser::Flag(EntityOption::EnableBatchedOperations),
    ),
    ("FilteringMessagesBeforePublishing", OptionParser::Unsupported),
    ("IsAnonymousAccessible", OptionParser::Unsupported),
    ("AuthorizationRules", OptionParser::Rules),
    ("Status", OptionParser::Status),
    ("SupportOrdering", OptionParser::Flag(EntityOption::SupportOrdering)),
    (
        "AutoDeleteOnIdle",
        OptionParser::Duration(EntityOption::AutoDeleteOnIdle),
    ),
    (
        "EnablePartitioning",
        OptionParser::Flag(EntityOption::EnablePartitioning),
    ),
    ("EnableExpress", OptionParser::Flag(EntityOption::EnableExpress)),
    ("UserMetadata", OptionParser::Text(EntityOption::UserMetadata)),
    (
        "MaxMessageSizeInKilobytes",
        OptionParser::Number(EntityOption::MaxMessageSizeKilobytes),
    ),
];

const SUBSCRIPTION: Options = &[
    ("LockDuration", OptionParser::Duration(EntityOption::LockDuration)),
    ("RequiresSession", OptionParser::Flag(EntityOption::RequiresSession)),
    (
        "DefaultMessageTimeToLive",
        OptionParser::Duration(EntityOption::DefaultTimeToLive),
    ),
    (
        "DeadLetteringOnMessageExpiration",
        OptionParser::Flag(EntityOption::DeadLetterExpired),
    ),
    (
        "DeadLetteringOnFilterEvaluationExceptions",
        OptionParser::Flag(EntityOption::DeadLetterFailed),
    ),
    ("MaxDeliveryCount", OptionParser::Number(EntityOption::MaxDeliveryCount)),
    (
        "EnableBatchedOperations",
        OptionParser::Flag(EntityOption::EnableBatchedOperations),
    ),
    ("Status", OptionParser::Status),
    ("ForwardTo", OptionParser::Path(EntityOption::ForwardTo)),
    (
        "ForwardDeadLetteredMessagesTo",
        OptionParser::Path(EntityOption::ForwardDeadLettersTo),
    ),
    (
        "AutoDeleteOnIdle",
        OptionParser::Duration(EntityOption::AutoDeleteOnIdle),
    ),
    ("UserMetadata", OptionParser::Text(EntityOption::UserMetadata)),
];

/// The kind of entity of a description, from its element name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DescriptionKind {
    Queue,
    Topic,
    Subscription,
}

impl DescriptionKind {
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

/// The options of a description. An update without a forwarding element ends the forwarding, as in the service.
pub(super) fn entity_options(
    kind: DescriptionKind,
    description: &Element,
    is_update: bool,
) -> Result<Vec<EntityOption>, HttpError> {
    let mut options = Vec::new();
    for (name, parser) in kind.options() {
        let element = description.child(name);
        if let (None, OptionParser::Path(option), true) = (element, parser, is_update) {
            options.push(option(String::new()));
        }
        if let Some(element) = element {
            options.extend(parse_option(name, parser, element)?);
        }
    }
    Ok(options)
}

/// The forwarding destinations: that of messages, then that of dead letters.
pub(super) fn destinations(options: &[EntityOption]) -> [Option<&str>; 2] {
    let mut found = [None, None];
    for option in options {
        match option {
            EntityOption::ForwardTo(path) => found[0] = Some(path.as_str()),
            EntityOption::ForwardDeadLettersTo(path) => found[1] = Some(path.as_str()),
            _ => {}
        }
    }
    found.map(|path| path.filter(|path| !path.is_empty()))
}

fn parse_option(name: &str, parser: &OptionParser, element: &Element) -> Result<Option<EntityOption>, HttpError> {
    let text = element.text.trim();
    let wrong = |expected: &str| HttpError::bad_request(format!("{name} must be {expected}: `{text}`"));
    if text.is_empty()
        && matches!(
            parser,
            OptionParser::Duration(_)
                | OptionParser::Number(_)
                | OptionParser::Flag(_)
                | OptionParser::Status
                | OptionParser::Unsupported
        )
    {
        return Ok(None);
    }
    let flag = || match text {
        "true" | "True" | "1" => Ok(true),
        "false" | "False" | "0" => Ok(false),
        _ => Err(wrong("true or false")),
    };
    Ok(Some(match parser {
        OptionParser::Duration(option) => {
            let ms = duration::parse(text);
            option(ms.ok_or_else(|| wrong("an ISO 8601 duration of days, hours, minutes and seconds such as PT1M"))?)
        }
        OptionParser::Number(option) => option(text.parse().map_err(|_| wrong("a whole number that is not negative"))?),
        OptionParser::Flag(option) => option(flag()?),
        OptionParser::Text(option) => option(element.text.clone()),
        OptionParser::Path(option) => option(forwarding::path(text)),
        OptionParser::Status => EntityOption::Status(status(text).ok_or_else(|| {
            wrong("Active, Disabled, SendDisabled or ReceiveDisabled; only the service sets the others")
        })?),
        OptionParser::Rules => EntityOption::AuthorizationRules(authorization::read(element)?),
        OptionParser::Unsupported if flag()? => return Err(wrong("false: the feature is not supported")),
        OptionParser::Unsupported => return Ok(None),
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

    use super::{DescriptionKind, entity_options};
    use crate::http::atom::xml::Element;

    fn of(xml: &str, is_update: bool) -> Vec<EntityOption> {
        let root = Element::parse(xml.as_bytes()).expect("XML");
        entity_options(DescriptionKind::of(&root).expect("a description"), &root, is_update).expect("options")
    }

    #[test]
    fn absent_and_empty_elements_are_ignored() {
        assert_eq!(of("<QueueDescription><LockDuration/></QueueDescription>", false), []);
        let xml = "<QueueDescription><Unheard>1</Unheard><LockDuration>PT5S</LockDuration></QueueDescription>";
        assert_eq!(of(xml, false), [EntityOption::LockDuration(5_000)]);
    }

    #[test]
    fn update_without_forwarding_ends_it() {
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
    fn invalid_values_are_rejected() {
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
            assert!(entity_options(DescriptionKind::Queue, &root, false).is_err(), "{name}");
        }
    }
}
