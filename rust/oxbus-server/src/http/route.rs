// SPDX-License-Identifier: Apache-2.0
//! What a path means.
//!
//! Paths are decoded before they are split, so that `a%2Fb` and `a/b` name the same entity; words of the service compare
//! without case.

use hyper::Method;
use percent_encoding::percent_decode_str;

use super::refusal::Refusal;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Is the server there?
    Health,
    /// What it counts.
    Metrics,
    /// One of the operations on messages.
    Messages { entity: String, operation: Operation },
    /// One of the operations on entities.
    Entities(Place),
}

/// The seven operations (B-440); a send and a batch differ by their content type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Send,
    PeekLock,
    ReceiveAndDelete,
    Unlock(Held),
    Complete(Held),
    Renew(Held),
}

/// A locked message: its id or its sequence number, and its lock token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) reference: String,
    pub(crate) token: String,
}

/// What management is about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Namespace,
    Queues,
    Topics,
    Entity(String),
    Subscriptions(String),
    Subscription(String, String),
    Rules(String, String),
    Rule(String, String, String),
}

impl Place {
    fn is_list(&self) -> bool {
        matches!(
            self,
            Self::Queues | Self::Topics | Self::Subscriptions(_) | Self::Rules(..)
        )
    }
}

impl Route {
    pub(crate) fn of(method: &Method, path: &str) -> Result<Self, Refusal> {
        let decoded = percent_decode_str(path)
            .decode_utf8()
            .map_err(|_| Refusal::bad_request("the path is no text; escape it as UTF-8"))?;
        let segments: Vec<&str> = decoded.trim_start_matches('/').split('/').collect();
        let is = |at: usize, word: &str| segments.get(at).is_some_and(|it| it.eq_ignore_ascii_case(word));
        if segments.len() == 1 && *method == Method::GET {
            if is(0, "health") || is(0, "$health") {
                return Ok(Self::Health);
            }
            if is(0, "metrics") || is(0, "$metrics") {
                return Ok(Self::Metrics);
            }
        }
        if let Some(route) = messages(method, &segments) {
            return Ok(route);
        }
        // The SDK of Go ends the path of a list of rules with a slash.
        if let [list @ .., ""] = &segments[..]
            && !list.contains(&"")
            && let Some(place) = place(list).filter(Place::is_list)
        {
            return Ok(Self::Entities(place));
        }
        if segments.iter().any(|segment| segment.is_empty()) {
            return Err(Refusal::bad_request(format!(
                "the path has an empty segment; name what you mean: `{decoded}`"
            )));
        }
        place(&segments).map(Self::Entities).ok_or_else(|| {
            Refusal::bad_request(format!("the path names nothing of a namespace; check it: `{decoded}`"))
        })
    }
}

fn messages(method: &Method, segments: &[&str]) -> Option<Route> {
    let count = segments.len();
    let is = |back: usize, word: &str| count > back && segments[count - back].eq_ignore_ascii_case(word);
    let (entity, operation) = if *method == Method::POST && is(1, "messages") {
        (count - 1, Operation::Send)
    } else if is(2, "messages") && is(1, "head") {
        let operation = match *method {
            Method::POST => Operation::PeekLock,
            Method::DELETE => Operation::ReceiveAndDelete,
            _ => return None,
        };
        (count - 2, operation)
    } else if is(3, "messages") {
        let held = Held {
            reference: segments[count - 2].to_owned(),
            token: segments[count - 1].to_owned(),
        };
        let operation = match *method {
            Method::PUT => Operation::Unlock(held),
            Method::DELETE => Operation::Complete(held),
            Method::POST => Operation::Renew(held),
            _ => return None,
        };
        (count - 3, operation)
    } else {
        return None;
    };
    let entity = segments[..entity].join("/");
    Some(Route::Messages { entity, operation })
}

fn place(segments: &[&str]) -> Option<Place> {
    let is = |at: usize, word: &str| segments.get(at).is_some_and(|it| it.eq_ignore_ascii_case(word));
    if is(0, "$resources") {
        return match segments.len() {
            2 if is(1, "queues") => Some(Place::Queues),
            2 if is(1, "topics") => Some(Place::Topics),
            _ => None,
        };
    }
    if is(0, "$namespaceinfo") {
        return (segments.len() == 1).then_some(Place::Namespace);
    }
    let Some(at) = (1..segments.len()).find(|&at| is(at, "subscriptions")) else {
        return Some(Place::Entity(segments.join("/")));
    };
    let topic = segments[..at].join("/");
    let own = |at: usize| segments[at].to_owned();
    match segments.len() - at {
        1 => Some(Place::Subscriptions(topic)),
        2 => Some(Place::Subscription(topic, own(at + 1))),
        3 if is(at + 2, "rules") => Some(Place::Rules(topic, own(at + 1))),
        4 if is(at + 2, "rules") => Some(Place::Rule(topic, own(at + 1), own(at + 3))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use hyper::Method;

    use super::{Held, Operation, Place, Route};

    fn of(method: &Method, path: &str) -> Route {
        Route::of(method, path).expect("a route")
    }

    #[test]
    fn messages_have_seven_operations() {
        // B-440.
        let held = || Held {
            reference: "7".to_owned(),
            token: "t".to_owned(),
        };
        for (method, path, operation) in [
            (Method::POST, "/a/b/messages", Operation::Send),
            (Method::POST, "/a%2Fb/Messages/Head", Operation::PeekLock),
            (Method::DELETE, "/a/b/messages/head", Operation::ReceiveAndDelete),
            (Method::PUT, "/a/b/messages/7/t", Operation::Unlock(held())),
            (Method::DELETE, "/a/b/messages/7/t", Operation::Complete(held())),
            (Method::POST, "/a/b/messages/7/t", Operation::Renew(held())),
        ] {
            let entity = "a/b".to_owned();
            assert_eq!(of(&method, path), Route::Messages { entity, operation });
        }
    }

    #[test]
    fn entities_are_found_with_any_case_and_with_slashes_in_names() {
        // B-457.
        let own = |text: &str| text.to_owned();
        for (path, place) in [
            ("/$Resources/Queues", Place::Queues),
            ("/$Resources/topics", Place::Topics),
            ("/$namespaceinfo", Place::Namespace),
            ("/a%2Fb", Place::Entity(own("a/b"))),
            ("/a/messages", Place::Entity(own("a/messages"))),
            ("/a/b/Subscriptions", Place::Subscriptions(own("a/b"))),
            ("/t/subscriptions/s", Place::Subscription(own("t"), own("s"))),
            ("/t/Subscriptions/s/Rules", Place::Rules(own("t"), own("s"))),
            (
                "/t/subscriptions/s/rules/$Default",
                Place::Rule(own("t"), own("s"), own("$Default")),
            ),
        ] {
            assert_eq!(of(&Method::GET, path), Route::Entities(place));
        }
    }

    #[test]
    fn a_list_may_end_with_a_slash() {
        for (path, place) in [
            ("/$Resources/queues/", Place::Queues),
            ("/$Resources/topics/", Place::Topics),
            ("/t/subscriptions/", Place::Subscriptions("t".to_owned())),
            (
                "/t/subscriptions/s/rules/",
                Place::Rules("t".to_owned(), "s".to_owned()),
            ),
        ] {
            assert_eq!(of(&Method::GET, path), Route::Entities(place));
        }
    }

    #[test]
    fn paths_that_name_nothing_are_refused() {
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
            assert!(Route::of(&Method::GET, path).is_err(), "{path}");
        }
    }
}
