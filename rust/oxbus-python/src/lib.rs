// SPDX-License-Identifier: Apache-2.0
//! The extension module `oxbus._oxbus`: conversion and registration only, one file per Python class.
//!
//! Each method has four steps: take owned values, detach from the interpreter where it may block, run, map the error.

#![allow(
    clippy::unused_self,
    clippy::needless_pass_by_value,
    reason = "PyO3 fixes the arguments of methods"
)]

mod admin;
mod arrow;
mod backup;
mod batch;
mod blocking;
mod body_iterator;
mod browse;
mod buffer;
mod bulk;
mod bulk_load;
mod clock;
mod connection_string;
mod convert;
mod drain;
mod error;
mod event_loop;
mod fork;
mod handles;
mod hash;
mod ids;
mod imports;
mod logging;
mod loop_calls;
mod loop_turn;
mod message;
mod metrics;
mod namespace;
mod options;
mod outgoing;
mod pending_call;
mod properties;
mod received;
mod receiver;
mod receiver_opening;
mod receiving;
mod remote;
mod remote_namespace;
mod reservations;
mod salvage;
mod sender;
mod server;
mod session;
mod session_list;
mod settle;
mod settle_call;
mod settle_remote;
mod settle_rows;
mod shared_receiver;
mod stages;
mod store_threads;
mod stored;
mod transaction;
mod transport;
mod unknown_options;
mod untracked;
mod waiting;

use pyo3::prelude::*;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The native part of oxbus.
#[pymodule(gil_used = false)]
mod _oxbus {
    #[pymodule_export]
    use super::arrow::ArrowTable;
    #[pymodule_export]
    use super::arrow::{_Columns, _ReceivedRows, _browsed_columns, _page_stream, ArrowArray};
    #[pymodule_export]
    use super::backup::{_Backup, _BackupLock, _backup_directory};
    #[pymodule_export]
    use super::batch::ServiceBusMessageBatch;
    #[pymodule_export]
    use super::browse::_Browse;
    #[pymodule_export]
    use super::bulk::BulkClient;
    #[pymodule_export]
    use super::bulk_load::_BulkLoad;
    #[pymodule_export]
    use super::clock::ManualClock;
    #[pymodule_export]
    use super::connection_string::_parse_connection_string;
    #[pymodule_export]
    use super::drain::{_Drain, _shards_of};
    #[pymodule_export]
    use super::event_loop::{EventLoopNotifier, TaskWaiter};
    #[pymodule_export]
    use super::hash::{partition_id, partition_ids};
    #[pymodule_export]
    use super::logging::{_end_log, _flush_log, _mute_log};
    #[pymodule_export]
    use super::loop_turn::{LoopTurn, ReadyReceiver, ReadySender};
    #[pymodule_export]
    use super::message::ServiceBusMessage;
    #[pymodule_export]
    use super::metrics::{MetricFamily, MetricHistogram};
    #[pymodule_export]
    use super::namespace::{Namespace, PartitionHealth, Recovery};
    #[pymodule_export]
    use super::pending_call::PendingCall;
    #[pymodule_export]
    use super::received::ServiceBusReceivedMessage;
    #[pymodule_export]
    use super::receiver::ServiceBusReceiver;
    #[pymodule_export]
    use super::remote_namespace::_RemoteNamespace;
    #[pymodule_export]
    use super::reservations::Reservations;
    #[pymodule_export]
    use super::salvage::{_salvage, _verify};
    #[pymodule_export]
    use super::sender::ServiceBusSender;
    #[pymodule_export]
    use super::server::Server;
    #[pymodule_export]
    use super::session::ServiceBusSession;
    #[pymodule_export]
    use super::settle_call::LoopSettlement;
    #[pymodule_export]
    use super::stages::Stages;
    #[pymodule_export]
    use super::stored::{_has_namespace, _is_store_url, _shown_store_url};
    #[pymodule_export]
    use super::transaction::Transaction;
    #[pymodule_export]
    use super::waiting::{_close_durable, _wake_waiting};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::ids::choose_prefix()?;
        super::fork::register_handler()?;
        super::logging::install()
    }
}
