// SPDX-License-Identifier: Apache-2.0
//! All log events: name, target and level. docs/logging.md lists them with the fields and what to do.

use tracing::Level;

/// A log event.
#[derive(Debug, Clone, Copy)]
pub struct LogEvent {
    /// The name of the event, which never changes.
    pub name: &'static str,
    /// The part of oxbus that emits it: the Python logger name with `::` for each dot.
    pub target: &'static str,
    /// The level of the event.
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

        /// All events, in the order of this file.
        pub const ALL: &[LogEvent] = &[$($event),+];
    };
}

events! {
    /// The files of a namespace are being copied.
    BACKUP_BEGUN = "backup.begun", BROKER, INFO;
    /// A connection has ended.
    CONNECTION_CLOSED = "connection.closed", SERVER, DEBUG;
    /// A connection ended before its protocol was known, or with a protocol error.
    CONNECTION_FAILED = "connection.failed", SERVER, INFO;
    /// The protocol of a connection is known.
    CONNECTION_OPENED = "connection.opened", SERVER, DEBUG;
    /// The server rejected a client: invalid token or key, or an unknown entity.
    CLIENT_REFUSED = "client.refused", SERVER, WARN;
    /// Somebody changed something by the console.
    CONSOLE_CHANGED = "console.changed", SERVER, INFO;
    /// Somebody signed in to the console.
    CONSOLE_SIGNED_IN = "console.signed_in", SERVER, INFO;
    /// A call waited for the store longer than the threshold.
    CALL_SLOW = "call.slow", BROKER, WARN;
    /// A stalled disk answers again.
    DISK_ANSWERS = "disk.answers", BROKER, WARN;
    /// A full disk has space again.
    DISK_FREE = "disk.free", STORE, WARN;
    /// A disk is full: the partition accepts no messages, but receiving and settling work.
    DISK_FULL = "disk.full", STORE, ERROR;
    /// A disk does not answer.
    DISK_STALLED = "disk.stalled", BROKER, WARN;
    /// A test injected a fault into a partition or its files.
    FAULT_INJECTED = "fault.injected", BROKER, INFO;
    /// Messages stay at their source, because the destination of a forward rejects them.
    FORWARD_BLOCKED = "forward.blocked", BROKER, WARN;
    /// Log lines were dropped, because they arrived faster than they were written.
    LINES_LOST = "log.lines_lost", LOG, WARN;
    /// An open stored the rows of unfinished bulk loads.
    LOAD_TAKEN_OVER = "load.taken_over", BROKER, INFO;
    /// An open could not store the rows of a bulk load. They stay in their file.
    LOAD_WAITING = "load.waiting", BROKER, WARN;
    /// A call used an expired or released message lock.
    LOCK_LOST = "lock.lost", BROKER, INFO;
    /// The broker dead-lettered messages.
    MESSAGE_DEAD_LETTERED = "message.dead_lettered", BROKER, INFO;
    /// A namespace is closed.
    NAMESPACE_CLOSED = "namespace.closed", BROKER, INFO;
    /// Another process took over a namespace in a store that this one had.
    NAMESPACE_LOST = "namespace.lost", STORE, ERROR;
    /// A namespace is open.
    NAMESPACE_OPENED = "namespace.opened", BROKER, INFO;
    /// A namespace in a store was taken over from an owner that had not closed it.
    NAMESPACE_TAKEN = "namespace.taken", STORE, WARN;
    /// A partition is out of service.
    PARTITION_FAULT = "partition.fault", BROKER, ERROR;
    /// Healing a partition failed and will be retried.
    PARTITION_HEAL_FAILED = "partition.heal_failed", BROKER, WARN;
    /// A partition is back in service.
    PARTITION_HEALED = "partition.healed", BROKER, WARN;
    /// A durable partition is open.
    PARTITION_OPENED = "partition.opened", STORE, DEBUG;
    /// A message was rejected, because a quota or the sequence numbers are exhausted.
    QUOTA_EXCEEDED = "quota.exceeded", BROKER, WARN;
    /// Recovery cut an incomplete write from the end of a journal.
    RECOVERY_CUT = "recovery.cut", STORE, WARN;
    /// A server's authorization rules were replaced.
    RULES_REPLACED = "rules.replaced", SERVER, INFO;
    /// A server waits for running requests before it stops.
    SERVER_DRAINING = "server.draining", SERVER, INFO;
    /// A server accepts connections.
    SERVER_READY = "server.ready", SERVER, INFO;
    /// A server is about to listen.
    SERVER_STARTING = "server.starting", SERVER, INFO;
    /// A server has stopped.
    SERVER_STOPPED = "server.stopped", SERVER, INFO;
    /// A session lock expired, or a call used an expired one.
    SESSION_LOST = "session.lost", BROKER, INFO;
    /// A snapshot of a partition could not be written.
    SNAPSHOT_FAILED = "snapshot.failed", BROKER, WARN;
    /// A snapshot of a partition was written.
    SNAPSHOT_WRITTEN = "snapshot.written", BROKER, DEBUG;
    /// Records for spans of a server were dropped, because the program did not take them fast enough.
    SPANS_LOST = "spans.lost", SERVER, WARN;
    /// A store answers again as it should.
    STORE_ANSWERS = "store.answers", STORE, WARN;
    /// A store does not answer, refuses the credentials, or is full. Requests are repeated.
    STORE_TROUBLE = "store.trouble", STORE, WARN;
}

/// Events whose lines are never left out, because each line is the record of what a person did.
pub const AUDIT: [LogEvent; 2] = [CONSOLE_CHANGED, CONSOLE_SIGNED_IN];

#[cfg(test)]
mod tests {
    use super::{ALL, TARGETS};

    #[test]
    fn every_event_has_a_unique_name_and_a_known_target() {
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
