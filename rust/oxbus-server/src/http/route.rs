// SPDX-License-Identifier: Apache-2.0
//! Resolves the path of a request.
//!
//! Paths are decoded before they are split, so that `a%2Fb` and `a/b` name the same entity. Keywords of the service
//! are case-insensitive.

use hyper::Method;
use percent_encoding::percent_decode_str;

use super::error::HttpError;
use super::health::HealthCheck;

/// The operation or resource of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HttpRoute {
    /// The health of the server.
    Health(HealthCheck),
    /// The counters of the server.
    Metrics,
    /// An operation on messages.
    Messages {
        entity: String,
        operation: MessageOperation,
    },
    /// An operation on entities.
    Entities(AtomResource),
    /// An operation on the messages that a filter selects: an extension.
    Selected {
        entity: String,
        operation: SelectionOperation,
    },
}

/// An operation on the messages that a filter selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SelectionOperation {
    Purge,
    Resubmit,
}

/// The seven operations (B-440). Sends of a message and of a batch differ only in their content type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MessageOperation {
    Send,
    PeekLock,
    ReceiveAndDelete,
    Unlock(LockedMessageRef),
    Complete(LockedMessageRef),
    Renew(LockedMessageRef),
}

/// A locked message: its id or its sequence number, and its lock token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockedMessageRef {
    pub(crate) reference: String,
    pub(crate) token: String,
}

/// A resource of the management API.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AtomResource {
    Namespace,
    Queues,
    Topics,
    Entity(String),
    Subscriptions(String),
    Subscription(String, String),
    Rules(String, String),
    Rule(String, String, String),
}

impl AtomResource {
    fn is_list(&self) -> bool {
        matches!(
            self,
            Self::Queues | Self::Topics | Self::Subscriptions(_) | Self::Rules(..)
        )
    }
}

impl HttpRoute {
    pub(crate) fn of(method: &Method, path: &str) -> Result<Self, HttpError> {
        let decoded = percent_decode_str(path)
            .decode_utf8()
            .map_err(|_| HttpError::bad_request("the path is not valid UTF-8; escape it as UTF-8"))?;
        let segments: Vec<&str> = decoded.trim_start_matches('/').split('/').collect();
        let is = |at: usize, word: &str| segments.get(at).is_some_and(|it| it.eq_ignore_ascii_case(word));
        if segments.len() == 1 && *method == Method::GET {
            if is(0, "health") || is(0, "$health") {
                return Ok(Self::Health(HealthCheck::State));
            }
            if is(0, "metrics") || is(0, "$metrics") {
                return Ok(Self::Metrics);
            }
        }
        if segments.len() == 2 && *method == Method::GET && is(0, "$health") {
            let checks = [("live", HealthCheck::Live), ("ready", HealthCheck::Ready)];
            if let Some((_, check)) = checks.into_iter().find(|(name, _)| is(1, name)) {
                return Ok(Self::Health(check));
            }
        }
        if let Some(route) = messages(method, &segments) {
            return Ok(route);
        }
        if *method == Method::POST
            && let [entity @ .., operation] = &segments[..]
            && !entity.is_empty()
            && !entity.contains(&"")
        {
            let operation = match operation.to_ascii_lowercase().as_str() {
                "$purge" => Some(SelectionOperation::Purge),
                "$resubmit" => Some(SelectionOperation::Resubmit),
                _ => None,
            };
            if let Some(operation) = operation {
                let entity = entity.join("/");
                return Ok(Self::Selected { entity, operation });
            }
        }
        // The Go SDK ends the path of a list of rules with a slash.
        if let [list @ .., ""] = &segments[..]
            && !list.contains(&"")
            && let Some(resource) = resource(list).filter(AtomResource::is_list)
        {
            return Ok(Self::Entities(resource));
        }
        if segments.iter().any(|segment| segment.is_empty()) {
            return Err(HttpError::bad_request(format!(
                "the path has an empty segment; remove it, or name the entity: `{decoded}`"
            )));
        }
        resource(&segments).map(Self::Entities).ok_or_else(|| {
            HttpError::bad_request(format!(
                "the path names no resource of a namespace; check it: `{decoded}`"
            ))
        })
    }
}

fn messages(method: &Method, segments: &[&str]) -> Option<HttpRoute> {
    let count = segments.len();
    let is = |back: usize, word: &str| count > back && segments[count - back].eq_ignore_ascii_case(word);
    let (entity, operation) = if *method == Method::POST && is(1, "messages") {
        (count - 1, MessageOperation::Send)
    } else if is(2, "messages") && is(1, "head") {
        let operation = match *method {
            Method::POST => MessageOperation::PeekLock,
            Method::DELETE => MessageOperation::ReceiveAndDelete,
            _ => return None,
        };
        (count - 2, operation)
    } else if is(3, "messages") {
        let message = LockedMessageRef {
            reference: segments[count - 2].to_owned(),
            token: segments[count - 1].to_owned(),
        };
        let operation = match *method {
            Method::PUT => MessageOperation::Unlock(message),
            Method::DELETE => MessageOperation::Complete(message),
            Method::POST => MessageOperation::Renew(message),
            _ => return None,
        };
        (count - 3, operation)
    } else {
        return None;
    };
    let entity = segments[..entity].join("/");
    Some(HttpRoute::Messages { entity, operation })
}

fn resource(segments: &[&str]) -> Option<AtomResource> {
    let is = |at: usize, word: &str| segments.get(at).is_some_and(|it| it.eq_ignore_ascii_case(word));
    if is(0, "$resources") {
        return match segments.len() {
            2 if is(1, "queues") => Some(AtomResource::Queues),
            2 if is(1, "topics") => Some(AtomResource::Topics),
            _ => None,
        };
    }
    if is(0, "$namespaceinfo") {
        return (segments.len() == 1).then_some(AtomResource::Namespace);
    }
    let Some(at) = (1..segments.len()).find(|&at| is(at, "subscriptions")) else {
        return Some(AtomResource::Entity(segments.join("/")));
    };
    let topic = segments[..at].join("/");
    let own = |at: usize| segments[at].to_owned();
    match segments.len() - at {
        1 => Some(AtomResource::Subscriptions(topic)),
        2 => Some(AtomResource::Subscription(topic, own(at + 1))),
        3 if is(at + 2, "rules") => Some(AtomResource::Rules(topic, own(at + 1))),
        4 if is(at + 2, "rules") => Some(AtomResource::Rule(topic, own(at + 1), own(at + 3))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use hyper::Method;

    use super::{AtomResource, HealthCheck, HttpRoute, LockedMessageRef, MessageOperation, SelectionOperation};

    fn of(method: &Method, path: &str) -> HttpRoute {
        HttpRoute::of(method, path).expect("a route")
    }

    #[test]
    fn messages_have_seven_operations() {
        // B-440.
        let message = || LockedMessageRef {
            reference: "7".to_owned(),
            token: "t".to_owned(),
        };
        for (method, path, operation) in [
            (Method::POST, "/a/b/messages", MessageOperation::Send),
            (Method::POST, "/a%2Fb/Messages/Head", MessageOperation::PeekLock),
            (Method::DELETE, "/a/b/messages/head", MessageOperation::ReceiveAndDelete),
            (Method::PUT, "/a/b/messages/7/t", MessageOperation::Unlock(message())),
            (
                Method::DELETE,
                "/a/b/messages/7/t",
                MessageOperation::Complete(message()),
            ),
            (Method::POST, "/a/b/messages/7/t", MessageOperation::Renew(message())),
        ] {
            let entity = "a/b".to_owned();
            assert_eq!(of(&method, path), HttpRoute::Messages { entity, operation });
        }
    }

    #[test]
    fn entity_paths_ignore_case_of_keywords_and_allow_slashes_in_names() {
        // B-457.
        let own = |text: &str| text.to_owned();
        for (path, resource) in [
            ("/$Resources/Queues", AtomResource::Queues),
            ("/$Resources/topics", AtomResource::Topics),
            ("/$namespaceinfo", AtomResource::Namespace),
            ("/a%2Fb", AtomResource::Entity(own("a/b"))),
            ("/a/messages", AtomResource::Entity(own("a/messages"))),
            ("/a/b/Subscriptions", AtomResource::Subscriptions(own("a/b"))),
            ("/t/subscriptions/s", AtomResource::Subscription(own("t"), own("s"))),
            ("/t/Subscriptions/s/Rules", AtomResource::Rules(own("t"), own("s"))),
            (
                "/t/subscriptions/s/rules/$Default",
                AtomResource::Rule(own("t"), own("s"), own("$Default")),
            ),
        ] {
            assert_eq!(of(&Method::GET, path), HttpRoute::Entities(resource));
        }
    }

    #[test]
    fn selected_messages_have_two_operations() {
        for (path, entity, operation) in [
            ("/a/b/$purge", "a/b", SelectionOperation::Purge),
            (
                "/t/Subscriptions/s/$Resubmit",
                "t/Subscriptions/s",
                SelectionOperation::Resubmit,
            ),
        ] {
            let entity = entity.to_owned();
            assert_eq!(of(&Method::POST, path), HttpRoute::Selected { entity, operation });
        }
        for path in ["/$purge", "//$purge"] {
            assert!(!matches!(
                HttpRoute::of(&Method::POST, path),
                Ok(HttpRoute::Selected { .. })
            ));
        }
    }

    #[test]
    fn health_has_three_checks() {
        for (path, check) in [
            ("/health", HealthCheck::State),
            ("/$Health", HealthCheck::State),
            ("/$health/live", HealthCheck::Live),
            ("/$health/Ready", HealthCheck::Ready),
        ] {
            assert_eq!(of(&Method::GET, path), HttpRoute::Health(check));
        }
        let entity = |path: &str| HttpRoute::Entities(AtomResource::Entity(path.to_owned()));
        assert_eq!(of(&Method::GET, "/health/live"), entity("health/live"));
        assert_eq!(of(&Method::PUT, "/$health/live"), entity("$health/live"));
    }

    #[test]
    fn a_list_may_end_with_a_slash() {
        for (path, resource) in [
            ("/$Resources/queues/", AtomResource::Queues),
            ("/$Resources/topics/", AtomResource::Topics),
            ("/t/subscriptions/", AtomResource::Subscriptions("t".to_owned())),
            (
                "/t/subscriptions/s/rules/",
                AtomResource::Rules("t".to_owned(), "s".to_owned()),
            ),
        ] {
            assert_eq!(of(&Method::GET, path), HttpRoute::Entities(resource));
        }
    }

    #[test]
    fn paths_without_a_resource_are_rejected() {
        for path in [
            "/",
            "//",
            "/t/subscriptions/s/rules//",
            "/t/subscriptions/s/rules/r/",
            "/t/subscriptions/s/",
            "//subscriptions/",
            "/q/",
            "/t//subscriptions/",
            "/t//s",
            "/$Resources/all",
            "/$Resources",
            "/$namespaceinfo/x",
            "/t/subscriptions/s/other",
            "/%ff",
        ] {
            assert!(HttpRoute::of(&Method::GET, path).is_err(), "{path}");
        }
    }
}
