// SPDX-License-Identifier: Apache-2.0
//! `Namespace`, `PartitionHealth` and `Recovery`.

use std::path::PathBuf;
use std::sync::Arc;

use oxbus_store::Wait;

use oxbus_broker::NamespaceOptions;
use oxbus_broker::durable::StoreOptions;
use oxbus_broker::entity::Entity;
use oxbus_broker::shard::{InjectedFault, PartitionFault};
use oxbus_model::{EntityKind, Error, ErrorKind};
use oxbus_object::LaneDisk;
use oxbus_store::disk::Disk;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::backup::_Backup;
use crate::clock::ManualClock;
use crate::error::OrRaise;
use crate::fork::ProcessLocal;
use crate::handles::{Handles, partition};
use crate::metrics::MetricFamily;
use crate::receiver::ServiceBusReceiver;
use crate::reservations::Reservations;
use crate::sender::ServiceBusSender;
use crate::stored::{self, StorageOptions};
use crate::transaction::Transaction;
use crate::transport::{NamespaceTransport, TransactionTransport};
use crate::unknown_options::{self, UnknownOptions};
use crate::{blocking, imports, logging, metrics, options, waiting};

/// The health of one partition.
#[pyclass(frozen, get_all, module = "oxbus")]
pub(crate) struct PartitionHealth {
    partition_id: u16,
    status: &'static str,
    reason: Option<String>,
}

#[pymethods]
impl PartitionHealth {
    fn __repr__(&self) -> String {
        let reason = self
            .reason
            .as_ref()
            .map_or_else(|| "None".to_owned(), |reason| format!("{reason:?}"));
        format!(
            "PartitionHealth(partition_id={}, status={:?}, reason={reason})",
            self.partition_id, self.status
        )
    }
}

/// The result of recovering a durable namespace when it was opened.
#[pyclass(frozen, get_all, module = "oxbus")]
pub(crate) struct Recovery {
    frames: u64,
    truncated_bytes: u64,
    corrupt_partitions: Vec<u16>,
    waiting_loads: Vec<String>,
    seconds: f64,
}

#[pymethods]
impl Recovery {
    fn __repr__(&self) -> String {
        format!(
            "Recovery(frames={}, truncated_bytes={}, corrupt_partitions={:?}, seconds={:.3})",
            self.frames, self.truncated_bytes, self.corrupt_partitions, self.seconds
        )
    }
}

/// A namespace in this process.
#[pyclass(frozen, module = "oxbus", weakref)]
#[expect(clippy::struct_field_names, reason = "it wraps the namespace of the broker")]
pub(crate) struct Namespace {
    pub(crate) namespace: ProcessLocal<oxbus_broker::Namespace>,
    handles: Handles,
    /// The disk of a namespace in a store.
    lane: Option<Arc<LaneDisk>>,
}

impl Namespace {
    fn open(py: Python<'_>, options: NamespaceOptions, clock: Option<Py<ManualClock>>) -> PyResult<Self> {
        let is_durable = options.store.is_some();
        if is_durable {
            logging::start_and_refresh_levels(py)?;
        } else {
            logging::refresh_levels(py)?;
        }
        let namespace = blocking::run(py, is_durable, |_| oxbus_broker::Namespace::open(options))?.or_raise()?;
        waiting::register(namespace.wake_handle());
        let namespace = ProcessLocal::new(namespace);
        if is_durable {
            waiting::register_durable(namespace.sibling(namespace.get()?.close_handle()));
        }
        let shared = NamespaceTransport::Local(namespace.get()?.clone());
        Ok(Self {
            handles: Handles::new(namespace.sibling(shared), clock),
            namespace,
            lane: None,
        })
    }

    /// Opens a namespace in a store. If that fails, another process can open it at once.
    fn open_stored(
        py: Python<'_>,
        lane: Arc<LaneDisk>,
        options: NamespaceOptions,
        clock: Option<Py<ManualClock>>,
    ) -> PyResult<Self> {
        let options = NamespaceOptions {
            store: Some(stored::store_options(&lane)),
            ..options
        };
        match Self::open(py, options, clock) {
            Ok(opened) => Ok(Self {
                lane: Some(lane),
                ..opened
            }),
            Err(error) => {
                py.detach(|| lane.release());
                Err(error)
            }
        }
    }
}

#[pymethods]
impl Namespace {
    #[new]
    #[pyo3(signature = (
        path=None, *, partitions=None, durability=None, tier=None, profile="current", config=None, clock=None, memory_limit_bytes=None,
        slow_call_seconds=1.0, partitions_owned=None, lock_policy="fresh", peek_policy="merged", storage_options=None, standby=false,
        take_over=false,
        **unknown,
    ), text_signature = "(path=None, *, partitions=None, durability=None, tier=None, profile='current', config=None, \
        clock=None, memory_limit_bytes=None, slow_call_seconds=1.0, partitions_owned=None, lock_policy='fresh', peek_policy='merged', \
        storage_options=None, standby=False, take_over=False)")]
    #[expect(clippy::too_many_arguments, reason = "each is an option by name")]
    fn new(
        py: Python<'_>,
        path: Option<&Bound<'_, PyAny>>,
        partitions: Option<i64>,
        durability: Option<&str>,
        tier: Option<&str>,
        profile: &str,
        config: Option<&Bound<'_, PyAny>>,
        clock: Option<&Bound<'_, PyAny>>,
        memory_limit_bytes: Option<i64>,
        slow_call_seconds: f64,
        partitions_owned: Option<&Bound<'_, PyAny>>,
        lock_policy: &str,
        peek_policy: &str,
        storage_options: Option<&Bound<'_, PyAny>>,
        standby: bool,
        take_over: bool,
        unknown: Option<UnknownOptions<'_, '_>>,
    ) -> PyResult<Py<Self>> {
        unknown_options::refuse::<Self>(py, "", unknown)?;
        // The configuration is read before anything is opened or created.
        let configuration = config
            .map(|config| imports::read_configuration(py)?.call1((config,)))
            .transpose()?;
        let clock = match clock {
            None => None,
            Some(clock) => match clock.cast::<ManualClock>() {
                Ok(clock) => Some(clock.clone().unbind()),
                Err(_) => {
                    return Err(PyTypeError::new_err(
                        "clock must be an oxbus.testing.ManualClock; leave it out for real time",
                    ));
                }
            },
        };
        let url = path.and_then(|path| path.extract::<PathBuf>().ok());
        let url = url.as_deref().and_then(stored::url_of);
        let store = match url {
            Some(_) => {
                stored::check(durability, partitions_owned.is_some())?;
                None
            }
            None if storage_options.is_some() || standby || take_over => {
                let detail = "storage_options, standby and take_over are for a namespace in a store; open one by its URL, such as \
                     `s3://bucket/prefix`, or leave them out";
                return Err(Error::new(ErrorKind::InvalidOperation, detail)).or_raise();
            }
            None => options::store(path, durability, partitions_owned)?,
        };
        let storage_options = StorageOptions::of(storage_options, stored::takeover(standby, take_over)?)?;
        let options = NamespaceOptions {
            store,
            partitions: options::partitions(partitions)?,
            lock_policy: options::lock_policy(lock_policy)?,
            peek_policy: options::peek_policy(peek_policy)?,
            plan: options::plan(tier, profile)?,
            memory_limit_bytes: options::memory_limit_bytes(memory_limit_bytes)?,
            keep_bodies_on_disk: false,
            clock: clock.as_ref().map(|clock| clock.get().clock()),
            slow_call_ms: options::slow_call_ms(slow_call_seconds)?,
            ..NamespaceOptions::default()
        };
        let opened = match url {
            Some(url) => {
                // Opening the store may log.
                logging::start_and_refresh_levels(py)?;
                Self::open_stored(py, storage_options.open(py, url)?, options, clock)?
            }
            None => Self::open(py, options, clock)?,
        };
        let opened = Py::new(py, opened)?;
        if let Some(configuration) = configuration
            && let Err(refusal) = configuration.call_method1("create_in", (&opened,))
        {
            opened.get().close(py)?;
            return Err(refusal);
        }
        Ok(opened)
    }

    /// Tells processes that wait for a namespace in a store where its server listens.
    fn _announce(&self, address: &str) {
        if let Some(lane) = &self.lane {
            lane.set_address(address);
        }
    }

    /// True if another process may take the namespace over from this one.
    #[getter]
    fn _has_lease(&self) -> bool {
        self.lane.is_some()
    }

    /// True if another process took the namespace over.
    fn _is_taken_over(&self) -> PyResult<bool> {
        Ok(self.namespace.get()?.is_taken_over())
    }

    /// Why the store of a namespace does not do what it should, if it does not.
    fn _store_trouble(&self) -> Option<String> {
        self.lane.as_ref().and_then(|lane| lane.trouble())
    }

    /// Opens a directory with one owned partition, whose message bodies stay on disk. See `oxbus.spark.owned`.
    #[staticmethod]
    #[pyo3(signature = (path, partition, durability=None))]
    fn _own(py: Python<'_>, path: &Bound<'_, PyAny>, partition: i64, durability: Option<&str>) -> PyResult<Self> {
        let owned = PyTuple::new(py, [partition])?;
        let options = NamespaceOptions {
            store: options::store(Some(path), durability, Some(owned.as_any()))?,
            keep_bodies_on_disk: true,
            ..NamespaceOptions::default()
        };
        Self::open(py, options, None)
    }

    /// Opens a directory to look at it: what would be written stays in memory. `oxbus console` uses it.
    #[staticmethod]
    fn _view(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let options = NamespaceOptions {
            store: Some(py.detach(|| StoreOptions::view(&path)).or_raise()?),
            keep_bodies_on_disk: true,
            ..NamespaceOptions::default()
        };
        Self::open(py, options, None)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let namespace = self.namespace.get()?;
        logging::refresh_levels(py)?;
        py.detach(|| namespace.close());
        Ok(())
    }

    /// See `oxbus.spark.owned`.
    fn _close_as_it_is(&self, py: Python<'_>) -> PyResult<()> {
        let namespace = self.namespace.get()?;
        py.detach(|| namespace.close_without_snapshots());
        Ok(())
    }

    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(!self.namespace.get()?.is_open())
    }

    /// True if calls may wait for a store.
    #[getter]
    fn _may_wait(&self) -> PyResult<bool> {
        Ok(self.namespace.get()?.may_wait())
    }

    /// True if the namespace is in a store, which answers after milliseconds at least, and open.
    #[getter]
    fn _is_in_store(&self) -> bool {
        self.namespace.get().is_ok_and(oxbus_broker::Namespace::is_in_store)
    }

    #[getter]
    fn partitions(&self) -> PyResult<u16> {
        Ok(self.namespace.get()?.partitions())
    }

    fn partition_health(&self) -> PyResult<Vec<PartitionHealth>> {
        let health = self.namespace.get()?.partition_health();
        let show = |it: oxbus_broker::namespace::PartitionHealth| PartitionHealth {
            partition_id: it.partition.0,
            status: it.fault.map_or("healthy", PartitionFault::status),
            reason: it.reason,
        };
        Ok(health.into_iter().map(show).collect())
    }

    #[getter]
    fn recovery(&self) -> PyResult<Option<Recovery>> {
        // A namespace in memory has no recovery.
        let found = self.namespace.get()?.recovery();
        Ok(found.map(|found| Recovery {
            frames: found.frames,
            truncated_bytes: found.truncated_bytes,
            corrupt_partitions: found.corrupt_partitions,
            waiting_loads: found.waiting_loads,
            seconds: found.seconds,
        }))
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        let namespace = self.namespace.get()?;
        waiting::run_detached(py, |_| namespace.checkpoint())?.or_raise()
    }

    /// The directory, unless the namespace is in memory.
    fn _directory(&self) -> PyResult<Option<PathBuf>> {
        let stores = self.namespace.get()?.stores().filter(|_| self.lane.is_none());
        Ok(stores.map(|stores| stores.dir().to_owned()))
    }

    fn _backup(&self, py: Python<'_>) -> PyResult<_Backup> {
        let namespace = self.namespace.get()?;
        Ok(_Backup::of(
            waiting::run_detached(py, |wait| namespace.backup(wait))?.or_raise()?,
        ))
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let namespace = self.namespace.get()?;
        let queues = namespace.list_entities().or_raise()?;
        let total = |queue: &Arc<Entity>| Ok(queue.counts(&Wait::FOREVER)?.total);
        let counts: oxbus_model::Result<Vec<_>> = py.detach(|| queues.iter().map(total).collect());
        let counts = counts.or_raise()?;
        let dict = PyDict::new(py);
        dict.set_item("partitions", namespace.partitions())?;
        let count = |kind| queues.iter().filter(|entity| entity.kind() == kind).count();
        dict.set_item("queues", count(EntityKind::Queue))?;
        dict.set_item("topics", count(EntityKind::Topic))?;
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
        if let Some(stores) = namespace.stores() {
            dict.set_item("path", stores.dir())?;
            dict.set_item("disk_bytes", stores.disk_bytes())?;
        }
        Ok(dict)
    }

    /// All metrics at this time; the first call switches them on.
    fn metrics(&self, py: Python<'_>) -> PyResult<Vec<MetricFamily>> {
        let namespace = self.namespace.get()?;
        let found = py.detach(|| namespace.metrics(&Wait::FOREVER)).or_raise()?;
        metrics::families(py, found)
    }

    fn _inject_fault(&self, py: Python<'_>, partition_id: Option<i64>, fault: &str, after: u64) -> PyResult<()> {
        let namespace = self.namespace.get()?;
        let fault = InjectedFault::parse(fault).or_raise()?;
        logging::refresh_levels(py)?;
        match partition_id {
            Some(id) => namespace.inject_fault(partition(id), fault, after),
            None => namespace.inject_fault_into_files(fault, after),
        }
        .or_raise()
    }

    fn _heal(&self, py: Python<'_>, partition_id: Option<i64>) -> PyResult<()> {
        let namespace = self.namespace.get()?;
        logging::refresh_levels(py)?;
        let heal = |wait: &Wait<'_>| match partition_id {
            Some(id) => namespace.heal(partition(id), wait),
            None => namespace.heal_files(wait),
        };
        waiting::run_detached(py, heal)?.or_raise()
    }

    #[pyo3(signature = (entity_path, client_identifier=None))]
    fn _sender(&self, entity_path: String, client_identifier: Option<String>) -> PyResult<ServiceBusSender> {
        self.handles.sender(entity_path, client_identifier)
    }

    /// The options are those of `Handles::receiver`.
    #[pyo3(signature = (entity_path, **options))]
    fn _receiver(
        &self,
        py: Python<'_>,
        entity_path: String,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ServiceBusReceiver> {
        self.handles.receiver(py, entity_path, options)
    }

    fn _transaction(&self, cross_entity: bool) -> PyResult<Transaction> {
        let inner = self.namespace.get()?.transaction(cross_entity).or_raise()?;
        Ok(Transaction::new(
            self.namespace.sibling(TransactionTransport::Local(inner)),
        ))
    }

    /// See the stub.
    #[pyo3(signature = (*arguments, **options))]
    fn serve_bulk(&self, arguments: &Bound<'_, PyTuple>, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let _ = (arguments, options);
        let detail = "serve_bulk was removed; call oxbus.server.serve(namespace) and pass its connection_string \
                      to BulkClient, Spark and SDKs (docs/guide/one-server.md)";
        Err(Error::new(ErrorKind::NotSupported, detail)).or_raise()
    }

    /// The reservations of an entity, for tests and the administration client.
    fn _reservations(&self, entity_path: &str) -> PyResult<Reservations> {
        let reservations = self.namespace.get()?.reservations(entity_path).or_raise()?;
        Ok(Reservations::new(self.namespace.sibling(reservations)))
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
