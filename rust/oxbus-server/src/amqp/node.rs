// SPDX-License-Identifier: Apache-2.0
//! The addresses of links (B-020, B-420).
//!
//! An address is `$cbs`, or `queue` or `topic/Subscriptions/name`, optionally followed by `/$DeadLetterQueue` or
//! `/$Transfer/$DeadLetterQueue`, and then optionally by `/$management`. Scheme and host are optional and
//! ignored.

use oxbus_model::name::{EntityName, SubQueue};
use percent_encoding::percent_decode_str;

const CBS: &str = "$cbs";
const MANAGEMENT: &str = "/$management";
const TRANSFER: &str = "/$transfer";

/// The node that an address names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AmqpNode {
    /// The node for tokens.
    Cbs,
    /// The management of an entity.
    Management(EntityAddress),
    /// An entity.
    Entity(EntityAddress),
}

/// An entity, or one of its sub-queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntityAddress {
    /// The path of the entity.
    pub(super) path: String,
    /// The entity itself, or its dead-letter queue.
    pub(super) sub_queue: SubQueue,
    /// Its transfer dead-letter queue.
    pub(super) transfer: bool,
}

impl AmqpNode {
    /// The node of an address. Any text that is not `$cbs` names an entity, which may not exist.
    pub(super) fn of(address: &str) -> Self {
        let path = match address.split_once("://") {
            Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
            None => address,
        };
        let path = percent_decode_str(path).decode_utf8_lossy();
        let path = path.trim_matches('/');
        if path.eq_ignore_ascii_case(CBS) {
            Self::Cbs
        } else if let Some(entity) = strip_suffix_ignore_case(path, MANAGEMENT) {
            Self::Management(EntityAddress::of(entity))
        } else {
            Self::Entity(EntityAddress::of(path))
        }
    }
}

impl EntityAddress {
    /// The scope that a token must cover. Clients request a token for the sub-queue that they receive from (B-416).
    pub(super) fn scope(&self) -> String {
        let suffix = match self.sub_queue {
            SubQueue::Main => "",
            SubQueue::DeadLetter if self.transfer => "/$transfer/$deadletterqueue",
            SubQueue::DeadLetter => "/$deadletterqueue",
        };
        format!("{}{suffix}", self.path)
    }

    fn of(path: &str) -> Self {
        let (entity, sub_queue) = EntityName::split_sub_queue(path);
        let before_transfer = strip_suffix_ignore_case(entity, TRANSFER).filter(|_| sub_queue == SubQueue::DeadLetter);
        Self {
            path: before_transfer.unwrap_or(entity).to_owned(),
            sub_queue,
            transfer: before_transfer.is_some(),
        }
    }
}

fn strip_suffix_ignore_case<'a>(path: &'a str, suffix: &str) -> Option<&'a str> {
    let at = path.len().checked_sub(suffix.len())?;
    let (before, last) = path.split_at_checked(at)?;
    last.eq_ignore_ascii_case(suffix).then_some(before)
}

#[cfg(test)]
mod tests {
    use oxbus_model::name::SubQueue;

    use super::{AmqpNode, EntityAddress};

    fn entity(path: &str, sub_queue: SubQueue, transfer: bool) -> EntityAddress {
        EntityAddress {
            path: path.to_owned(),
            sub_queue,
            transfer,
        }
    }

    #[test]
    fn address_resolves_with_or_without_scheme_and_host() {
        // B-020, B-420.
        let main = AmqpNode::Entity(entity("a/Q", SubQueue::Main, false));
        for address in [
            "a/Q",
            "/a/Q",
            "amqps://host:5672/a/Q",
            "amqp://other/a%2FQ",
            "sb://h/a/Q/",
        ] {
            assert_eq!(AmqpNode::of(address), main, "{address}");
        }
        assert_eq!(AmqpNode::of("amqps://h/$CBS"), AmqpNode::Cbs);
        assert_eq!(AmqpNode::of("$cbs"), AmqpNode::Cbs);
    }

    #[test]
    fn path_suffix_selects_sub_queue_and_management() {
        // B-018, B-020.
        let dead = entity("t/Subscriptions/s", SubQueue::DeadLetter, false);
        assert_eq!(
            AmqpNode::of("t/Subscriptions/s/$DeadLetterQueue"),
            AmqpNode::Entity(dead.clone())
        );
        assert_eq!(
            AmqpNode::of("t/Subscriptions/s/$deadletterqueue/$management"),
            AmqpNode::Management(dead)
        );
        let transfer = entity("q", SubQueue::DeadLetter, true);
        assert_eq!(AmqpNode::of("q/$Transfer/$DeadLetterQueue"), AmqpNode::Entity(transfer));
        assert_eq!(
            AmqpNode::of("q/$management"),
            AmqpNode::Management(entity("q", SubQueue::Main, false))
        );
    }
}
