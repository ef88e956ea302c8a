// SPDX-License-Identifier: Apache-2.0
//! `Namespace` and `PartitionHealth`.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_broker::shard::Fault;
use oxbus_broker::{NamespaceOptions, ReceiverOptions};
use oxbus_model::caps::PREFETCH_COUNT_MAX;
use oxbus_model::caps::{PARTITIONS_DEFAULT, PARTITIONS_MAX};
use oxbus_model::name::SubQueue;
use oxbus_model::options::{LockPolicy, QueueSettings, ReceiveMode, in_range};
use oxbus_model::{Error, ErrorKind, PartitionId};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::admin::{Wishes, describe, runtime};
use crate::clock::ManualClock;
use crate::error::OrRaise;
use crate::fork::Owned;
use crate::receiver::ServiceBusReceiver;
use crate::sender::ServiceBusSender;
use crate::{convert, waiting};

/// Health of one partition.
#[pyclass(frozen, get_all, module = "oxbus")]
pub(crate) struct PartitionHealth {
    partition_id: u16,
    status: &'static str,
    reason: Option<&'static str>,
}

#[pymethods]
impl PartitionHealth {
    fn __repr__(&self) -> String {
        let reason = self
            .reason
            .map_or_else(|| "None".to_owned(), |reason| format!("{reason:?}"));
        format!(
            "PartitionHealth(partition_id={}, status={:?}, reason={reason})",
            self.partition_id, self.status
        )
    }
}

/// A set of queues in this process.
#[pyclass(frozen, module = "oxbus", weakref)]
pub(crate) struct Namespace {
    namespace: Owned<oxbus_broker::Namespace>,
    handles: AtomicU64,
}

fn not_yet(what: &str, instead: &str) -> Error {
    Error::new(
        ErrorKind::NotSupported,
        format!("{what} is not in this version; {instead}"),
    )
}

fn lock_policy(name: &str) -> PyResult<LockPolicy> {
    match name {
        "fresh" => Ok(LockPolicy::Fresh),
        "faithful" => Ok(LockPolicy::Faithful),
        _ => Err(PyValueError::new_err(format!(
            "unknown lock_policy; use `fresh` or `faithful`: `{name}`"
        ))),
    }
}

/// Refuses what later versions bring, each with what to do now.
fn check_options(
    path: Option<&Bound<'_, PyAny>>,
    durability: Option<&str>,
    tier: Option<&str>,
    profile: &str,
    config: Option<&Bound<'_, PyAny>>,
    partitions_owned: Option<&Bound<'_, PyAny>>,
    peek_policy: &str,
) -> PyResult<()> {
    if path.is_some() {
        return Err(not_yet(
            "a durable store (path)",
            "leave path out for a namespace in memory",
        ))
        .or_raise();
    }
    match durability {
        None | Some("memory") => {}
        Some("os" | "fsync") => {
            return Err(not_yet(
                "durability beyond `memory`",
                "leave durability out for a namespace in memory",
            ))
            .or_raise();
        }
        Some(other) => {
            return Err(PyValueError::new_err(format!(
                "unknown durability; leave it out, or use `memory`: `{other}`"
            )));
        }
    }
    match tier {
        None => {}
        Some("basic" | "standard" | "premium") => {
            return Err(not_yet("tier", "leave tier out for a namespace without quotas")).or_raise();
        }
        Some(other) => return Err(PyValueError::new_err(format!("unknown tier; leave it out: `{other}`"))),
    }
    match profile {
        "current" => {}
        "2019" | "2017" => return Err(not_yet("an older profile", "leave profile out")).or_raise(),
        other => {
            return Err(PyValueError::new_err(format!(
                "unknown profile; use `current`: `{other}`"
            )));
        }
    }
    if config.is_some() {
        return Err(not_yet(
            "config",
            "create the queues with ServiceBusAdministrationClient",
        ))
        .or_raise();
    }
    if partitions_owned.is_some() {
        return Err(not_yet(
            "partitions_owned",
            "leave it out: a namespace in memory owns all its partitions",
        ))
        .or_raise();
    }
    match peek_policy {
        "merged" => Ok(()),
        "faithful" => Err(not_yet("peek_policy `faithful`", "use `merged`")).or_raise(),
        other => Err(PyValueError::new_err(format!(
            "unknown peek_policy; use `merged`: `{other}`"
        ))),
    }
}

impl Namespace {
    fn identifier(&self, given: Option<String>, kind: &str) -> String {
        given.unwrap_or_else(|| format!("{kind}-{}", self.handles.fetch_add(1, Ordering::Relaxed) + 1))
    }

    fn share(&self) -> PyResult<Owned<oxbus_broker::Namespace>> {
        Ok(self.namespace.sibling(self.namespace.get()?.clone()))
    }
}

/// A partition id; one that no namespace has is refused by whoever looks it up, with the range that holds there.
fn partition(partition_id: i64) -> PartitionId {
    PartitionId(u16::try_from(partition_id).unwrap_or(u16::MAX))
}

#[pymethods]
impl Namespace {
    #[new]
    #[pyo3(signature = (
        path=None, *, partitions=None, durability=None, tier=None, profile="current", config=None, clock=None, memory_limit_bytes=None,
        partitions_owned=None, lock_policy="fresh", peek_policy="merged",
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is an option by name")]
    fn new(
        path: Option<&Bound<'_, PyAny>>,
        partitions: Option<i64>,
        durability: Option<&str>,
        tier: Option<&str>,
        profile: &str,
        config: Option<&Bound<'_, PyAny>>,
        clock: Option<&Bound<'_, PyAny>>,
        memory_limit_bytes: Option<i64>,
        partitions_owned: Option<&Bound<'_, PyAny>>,
        lock_policy: &str,
        peek_policy: &str,
    ) -> PyResult<Self> {
        check_options(path, durability, tier, profile, config, partitions_owned, peek_policy)?;
        let partitions = match partitions {
            None => PARTITIONS_DEFAULT,
            Some(count) => {
                let count = u64::try_from(count).unwrap_or(0);
                in_range("partitions", count, 1, PARTITIONS_MAX.into(), "partitions").or_raise()?;
                count as u16
            }
        };
        let clock = match clock {
            None => None,
            Some(clock) => match clock.cast::<ManualClock>() {
                Ok(clock) => Some(clock.get().clock()),
                Err(_) => {
                    return Err(PyTypeError::new_err(
                        "clock must be an oxbus.testing.ManualClock; leave it out for real time",
                    ));
                }
            },
        };
        let memory_limit_bytes = match memory_limit_bytes {
            None => None,
            Some(limit) => Some(
                u64::try_from(limit)
                    .ok()
                    .and_then(NonZeroU64::new)
                    .ok_or_else(|| {
                        PyValueError::new_err(format!(
                            "memory_limit_bytes must be greater than 0; leave it out for no limit: {limit}"
                        ))
                    })?
                    .get(),
            ),
        };
        let options = NamespaceOptions {
            partitions,
            lock_policy: self::lock_policy(lock_policy)?,
            memory_limit_bytes,
            clock,
        };
        let namespace = oxbus_broker::Namespace::in_memory(options).or_raise()?;
        waiting::register(namespace.wake_handle());
        Ok(Self {
            namespace: Owned::new(namespace),
            handles: AtomicU64::new(0),
        })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let namespace = self.namespace.get()?;
        py.detach(|| namespace.close());
        Ok(())
    }

    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(!self.namespace.get()?.is_open())
    }

    #[getter]
    fn partitions(&self) -> PyResult<u16> {
        Ok(self.namespace.get()?.partitions())
    }

    fn partition_health(&self) -> PyResult<Vec<PartitionHealth>> {
        let health = self.namespace.get()?.partition_health();
        let show = |it: oxbus_broker::namespace::PartitionHealth| PartitionHealth {
            partition_id: it.partition.0,
            status: if it.fault.is_none() { "healthy" } else { "faulted" },
            reason: it.fault.map(Fault::reason),
        };
        Ok(health.into_iter().map(show).collect())
    }

    #[getter]
    fn recovery<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        // Nothing is recovered in memory.
        py.None().into_bound(py)
    }

    fn checkpoint(&self) -> PyResult<()> {
        self.namespace.get()?;
        Err(not_yet("checkpoint", "a namespace in memory has nothing to write")).or_raise()
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let namespace = self.namespace.get()?;
        let queues = namespace.list_queues().or_raise()?;
        let counts: Vec<_> = py.detach(|| queues.iter().map(|queue| queue.counts().total).collect());
        let dict = PyDict::new(py);
        dict.set_item("partitions", namespace.partitions())?;
        dict.set_item("queues", queues.len())?;
        dict.set_item(
            "messages",
            counts
                .iter()
                .map(|it| it.active + it.scheduled + it.dead_letter)
                .sum::<u64>(),
        )?;
        dict.set_item("message_bytes", counts.iter().map(|it| it.size_bytes).sum::<u64>())?;
        dict.set_item(
            "overhead_bytes",
            queues
                .iter()
                .flat_map(|queue| queue.cells())
                .map(|(_, cell)| cell.overhead_bytes())
                .sum::<u64>(),
        )?;
        Ok(dict)
    }

    fn _create_queue<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        options: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut settings = QueueSettings::default();
        Wishes::read(options)?.apply(&mut settings);
        describe(py, &self.namespace.get()?.create_queue(name, settings).or_raise()?)
    }

    fn _get_queue<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        describe(py, &self.namespace.get()?.queue(name).or_raise()?.describe())
    }

    fn _update_queue(&self, name: &str, options: &Bound<'_, PyDict>) -> PyResult<()> {
        let wishes = Wishes::read(options)?;
        self.namespace
            .get()?
            .update_queue(name, |settings| wishes.apply(settings))
            .or_raise()
    }

    fn _delete_queue(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let namespace = self.namespace.get()?;
        py.detach(|| namespace.delete_queue(name)).or_raise()
    }

    fn _list_queues<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let queues = self.namespace.get()?.list_queues().or_raise()?;
        let dicts = queues
            .iter()
            .map(|queue| describe(py, &queue.describe()))
            .collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, dicts)
    }

    fn _queue_runtime<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        runtime(py, &self.namespace.get()?.queue(name).or_raise()?)
    }

    fn _inject_fault(&self, partition_id: i64, fault: &str, after: i64) -> PyResult<()> {
        let after =
            u64::try_from(after).map_err(|_| PyValueError::new_err(format!("after cannot be negative: {after}")))?;
        self.namespace
            .get()?
            .inject_fault(partition(partition_id), Fault::parse(fault).or_raise()?, after)
            .or_raise()
    }

    fn _heal(&self, partition_id: i64) -> PyResult<()> {
        self.namespace.get()?.heal(partition(partition_id)).or_raise()
    }

    #[pyo3(signature = (queue_name, client_identifier=None))]
    fn _sender(&self, queue_name: String, client_identifier: Option<String>) -> PyResult<ServiceBusSender> {
        Ok(ServiceBusSender::new(
            self.share()?,
            queue_name,
            self.identifier(client_identifier, "sender"),
        ))
    }

    #[pyo3(signature = (
        queue_name, *, sub_queue, receive_mode, max_wait_time, prefetch_count, auto_lock_renewer, lock_policy, partition_id, client_identifier,
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is an option by name")]
    fn _receiver(
        &self,
        queue_name: String,
        sub_queue: Option<&str>,
        receive_mode: &str,
        max_wait_time: Option<f64>,
        prefetch_count: i64,
        auto_lock_renewer: Option<Py<PyAny>>,
        lock_policy: Option<&str>,
        partition_id: Option<i64>,
        client_identifier: Option<String>,
    ) -> PyResult<ServiceBusReceiver> {
        let sub_queue = match sub_queue.map(str::to_ascii_lowercase).as_deref() {
            None => SubQueue::Main,
            Some("deadletter") => SubQueue::DeadLetter,
            Some("transferdeadletter") => {
                return Err(not_yet(
                    "the transfer dead-letter queue",
                    "nothing is forwarded, so nothing is in it",
                ))
                .or_raise();
            }
            Some(other) => {
                return Err(PyValueError::new_err(format!(
                    "unknown sub_queue; use `deadletter`: `{other}`"
                )));
            }
        };
        let mode = match receive_mode.to_ascii_lowercase().as_str() {
            "peeklock" => ReceiveMode::PeekLock,
            "receiveanddelete" => ReceiveMode::ReceiveAndDelete,
            other => {
                return Err(PyValueError::new_err(format!(
                    "unknown receive_mode; use `peeklock` or `receiveanddelete`: `{other}`"
                )));
            }
        };
        if let Some(seconds) = max_wait_time {
            convert::wait("max_wait_time", seconds)?;
        }
        if mode == ReceiveMode::ReceiveAndDelete && auto_lock_renewer.is_some() {
            return Err(PyValueError::new_err(
                "a receiver in RECEIVE_AND_DELETE mode has no locks to renew; leave auto_lock_renewer out",
            ));
        }
        let prefetch = usize::try_from(prefetch_count)
            .ok()
            .filter(|count| *count <= PREFETCH_COUNT_MAX)
            .ok_or_else(|| {
                PyValueError::new_err(format!(
                    "prefetch_count is out of range; use 0 for none, or up to {PREFETCH_COUNT_MAX} messages: {prefetch_count}"
                ))
            })?;
        let options = ReceiverOptions {
            sub_queue,
            mode,
            prefetch,
            lock_policy: lock_policy.map(self::lock_policy).transpose()?,
            partition: partition_id.map(partition),
        };
        let identifier = self.identifier(client_identifier, "receiver");
        Ok(ServiceBusReceiver::new(
            self.share()?,
            queue_name,
            identifier,
            options,
            max_wait_time,
            auto_lock_renewer,
        ))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Option<Py<PyAny>>,
        exc_value: Option<Py<PyAny>>,
        traceback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let _ = (exc_type, exc_value, traceback);
        self.close(py)
    }

    fn __repr__(&self) -> PyResult<String> {
        let namespace = self.namespace.get()?;
        Ok(format!(
            "Namespace(partitions={}, closed={})",
            namespace.partitions(),
            !namespace.is_open()
        ))
    }
}
