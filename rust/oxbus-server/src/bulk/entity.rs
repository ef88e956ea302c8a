// SPDX-License-Identifier: Apache-2.0
//! Paths of entities: `queue`, `topic`, `topic/Subscriptions/name`, each with `/$deadletterqueue` behind it.

use oxbus_broker::{Namespace, Receiver, ReceiverOptions};
use oxbus_model::name::SubQueue;
use oxbus_model::options::ReceiveMode;
use oxbus_model::{PartitionId, Result};

const DEAD_LETTERS: &str = "/$deadletterqueue";

/// The entity, and which of its message streams.
pub(super) fn parse(path: &str) -> (&str, SubQueue) {
    let cut = path.len().wrapping_sub(DEAD_LETTERS.len());
    match path.split_at_checked(cut) {
        Some((entity, end)) if end.eq_ignore_ascii_case(DEAD_LETTERS) => (entity, SubQueue::DeadLetter),
        _ => (path, SubQueue::Main),
    }
}

/// A receiver of one partition or of all.
pub(super) fn receiver(
    namespace: &Namespace,
    path: &str,
    mode: ReceiveMode,
    partition: Option<PartitionId>,
) -> Result<Receiver> {
    let (entity, sub_queue) = parse(path);
    let options = ReceiverOptions {
        sub_queue,
        mode,
        partition,
        ..ReceiverOptions::default()
    };
    namespace.receiver(entity, options)
}

#[cfg(test)]
mod tests {
    use oxbus_model::name::SubQueue;

    use super::parse;

    #[test]
    fn dead_letter_queues_are_found_in_any_case() {
        assert_eq!(parse("q"), ("q", SubQueue::Main));
        assert_eq!(parse("q/$DeadLetterQueue"), ("q", SubQueue::DeadLetter));
        assert_eq!(
            parse("t/Subscriptions/s/$deadletterqueue"),
            ("t/Subscriptions/s", SubQueue::DeadLetter)
        );
        assert_eq!(parse("éééééééééééééééé"), ("éééééééééééééééé", SubQueue::Main));
        assert_eq!(parse(""), ("", SubQueue::Main));
    }
}
