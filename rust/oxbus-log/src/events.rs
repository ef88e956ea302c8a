// SPDX-License-Identifier: Apache-2.0
//! The log events, each with its name, target and level. docs/logging.md lists them with the operator's response.

use tracing::Level;

/// An event.
#[derive(Debug, Clone, Copy)]
pub struct LogEvent {
    /// Its name, which stays.
    pub name: &'static str,
    /// The part of oxbus that emits it: the name of the logger, with `::` for each dot.
    pub target: &'static str,
    /// How grave it is.
    pub level: Level,
}

/// The targets of all events.
pub const TARGETS: [&str; 4] = [STORE, BROKER, SERVER, LOG];

const STORE: &str = "oxbus::store";
const BROKER: &str = "oxbus::broker";
const SERVER: &str = "oxbus::server";
const LOG: &str = "oxbus::log";

macro_rules! events {
    ($($(#[$doc:meta])* $event:ident = $name:literal, $target:ident, $level:ident;)+) => {
        $(
            $(#[$doc])*
            pub const $event: LogEvent = LogEvent { name: $name, target: $target, level: Level::$level };
        )+

        /// All of them, by name.
        pub const ALL: &[LogEvent] = &[$($event),+];
    };
}

events! {
    /// A connection has ended.
    CONNECTION_CLOSED = "connection.closed", SERVER, DEBUG;
    /// A connection ended before it spoke a protocol, or by an error of its protocol.
    CONNECTION_FAILED = "connection.failed", SERVER, INFO;
    /// A connection speaks a protocol.
    CONNECTION_OPENED = "connection.opened", SERVER, DEBUG;
    /// A client was refused: by its token, its key, or because what it names is not there.
    CLIENT_REFUSED = "client.refused", SERVER, WARN;
    /// A call waited for a store longer than the threshold.
    CALL_SLOW = "call.slow", BROKER, WARN;
    /// A stalled disk responds again.
    DISK_ANSWERS = "disk.answers", BROKER, WARN;
    /// A disk has room again.
    DISK_FREE = "disk.free", STORE, WARN;
    /// A disk is full: the partition takes no messages, and goes on with everything else.
    DISK_FULL = "disk.full", STORE, ERROR;
    /// A disk is unresponsive: its partitions are stalled.
    DISK_STALLED = "disk.stalled", BROKER, WARN;
    /// A test put a fault into a partition or its files.
    FAULT_INJECTED = "fault.injected", BROKER, INFO;
    /// Messages stay at their source, because the destination of a forward takes none.
    FORWARD_BLOCKED = "forward.blocked", BROKER, WARN;
    /// Lines were lost, because they came faster than they were written.
    LINES_LOST = "log.lines_lost", LOG, WARN;
    /// The rows of bulk loads were stored at an opening.
    LOAD_TAKEN_OVER = "load.taken_over", BROKER, INFO;
    /// The rows of a bulk load could not be stored at an opening, and wait in their file.
    LOAD_WAITING = "load.waiting", BROKER, WARN;
    /// A call came with a lock that is over.
    LOCK_LOST = "lock.lost", BROKER, INFO;
    /// The broker moved messages to a dead-letter queue without a call.
    MESSAGE_DEAD_LETTERED = "message.dead_lettered", BROKER, INFO;
    /// A namespace has closed.
    NAMESPACE_CLOSED = "namespace.closed", BROKER, INFO;
    /// A namespace is open.
    NAMESPACE_OPENED = "namespace.opened", BROKER, INFO;
    /// A partition is out of service.
    PARTITION_FAULT = "partition.fault", BROKER, ERROR;
    /// A try to bring a partition back failed; there will be another one.
    PARTITION_HEAL_FAILED = "partition.heal_failed", BROKER, WARN;
    /// A partition is back in service.
    PARTITION_HEALED = "partition.healed", BROKER, WARN;
    /// A partition of a directory is open.
    PARTITION_OPENED = "partition.opened", STORE, DEBUG;
    /// A message was refused for want of room or of numbers.
    QUOTA_EXCEEDED = "quota.exceeded", BROKER, WARN;
    /// The end of a journal was cut, because its write never finished.
    RECOVERY_CUT = "recovery.cut", STORE, WARN;
    /// Other authorization rules hold in a server.
    RULES_REPLACED = "rules.replaced", SERVER, INFO;
    /// A server waits for the requests under way.
    SERVER_DRAINING = "server.draining", SERVER, INFO;
    /// A server accepts connections.
    SERVER_READY = "server.ready", SERVER, INFO;
    /// A server is about to listen.
    SERVER_STARTING = "server.starting", SERVER, INFO;
    /// A server has ended.
    SERVER_STOPPED = "server.stopped", SERVER, INFO;
    /// The lock of a session ended, or a call came with one that is over.
    SESSION_LOST = "session.lost", BROKER, INFO;
    /// A snapshot of a partition could not be written.
    SNAPSHOT_FAILED = "snapshot.failed", BROKER, WARN;
    /// A snapshot of a partition was written.
    SNAPSHOT_WRITTEN = "snapshot.written", BROKER, DEBUG;
}

#[cfg(test)]
mod tests {
    use super::{ALL, TARGETS};

    #[test]
    fn every_event_has_a_name_and_a_target_of_its_own_kind() {
        for (position, event) in ALL.iter().enumerate() {
            assert!(TARGETS.contains(&event.target), "{}", event.name);
            assert!(event.name.contains('.'), "{}", event.name);
            assert!(
                ALL[..position].iter().all(|other| other.name != event.name),
                "{} is listed twice",
                event.name
            );
        }
    }
}
