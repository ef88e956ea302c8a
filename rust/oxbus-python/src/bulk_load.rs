// SPDX-License-Identifier: Apache-2.0
//! `_BulkLoad`: loads the rows of one task into a namespace that is not open.

use std::sync::Mutex;

use oxbus_broker::shard::InjectedFault;
use oxbus_broker::{BulkLoad, Namespace};
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Error, ErrorKind, PartitionId};
use oxbus_store::Wait;
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::fork::ProcessLocal;
use crate::{arrow, blocking, convert, ids, options, waiting};

/// A running load and the number of its rows.
struct ActiveLoad {
    load: BulkLoad,
    rows: u64,
}

/// See `oxbus.spark.bulk_load`.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct _BulkLoad {
    keyless: PartitionId,
    /// `None` once the load has ended. A panic leaves it consistent: a call that works on the load takes it out.
    active: ProcessLocal<Mutex<Option<ActiveLoad>>>,
}

impl _BulkLoad {
    fn take(&self) -> PyResult<ActiveLoad> {
        let mut active = ignore_poison(self.active.get()?.lock());
        let ended = || Error::new(ErrorKind::InvalidOperation, "the load has ended; begin another");
        active.take().ok_or_else(ended).or_raise()
    }
}

#[pymethods]
impl _BulkLoad {
    /// Begins a load into a queue of a namespace in a directory. `keyless` selects the partition of rows without a
    /// key.
    #[new]
    #[pyo3(signature = (path, queue, name, *, keyless=0, durability=None))]
    fn new(
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        queue: &str,
        name: &str,
        keyless: u16,
        durability: Option<&str>,
    ) -> PyResult<Self> {
        let options = options::unowned(path, durability)?;
        let durability = options.store.as_ref().map(|store| store.durability);
        let begin = |_: &Wait<'_>| {
            let namespace = Namespace::open(options)?;
            let load = BulkLoad::begin(&namespace, queue, name, durability)?;
            Ok((namespace.partitions(), load))
        };
        let (partitions, load) = waiting::run_detached(py, begin)?.or_raise()?;
        Ok(Self {
            keyless: PartitionId(keyless % partitions),
            active: ProcessLocal::new(Mutex::new(Some(ActiveLoad { load, rows: 0 }))),
        })
    }

    /// Injects a fault into the files of the load. See `oxbus.testing.inject_fault`.
    fn _inject_fault(&self, partition_id: Option<i64>, fault: &str, after: u64) -> PyResult<()> {
        if partition_id.is_some() {
            let detail = "the files of a load belong to no partition yet; pass None as partition_id";
            return Err(Error::new(ErrorKind::InvalidArgument, detail)).or_raise();
        }
        let fault = InjectedFault::parse(fault).or_raise()?;
        let active = ignore_poison(self.active.get()?.lock());
        active
            .as_ref()
            .map_or(Ok(()), |it| it.load.inject_fault(fault, after))
            .or_raise()
    }

    /// Waits up to `wait_time` seconds until at least one partition is free.
    fn check_free(&self, py: Python<'_>, wait_time: f64) -> PyResult<()> {
        let wait = convert::duration("wait_time", wait_time)?;
        let active = self.take()?;
        let checked = blocking::run_for(py, true, None, |cancellation| {
            active.load.check_free(wait, cancellation)
        })?;
        *ignore_poison(self.active.get()?.lock()) = Some(active);
        checked.or_raise()
    }

    /// Adds the rows of an Arrow object. After an error, the load has ended and none of its rows are stored.
    fn push(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let chunks = arrow::read(data)?;
        let mut active = self.take()?;
        let pushed = blocking::run_for(data.py(), true, None, |_| {
            for chunk in &chunks {
                oxbus_arrow::load_rows(&mut active.load, chunk, active.rows, ids::first_of, self.keyless)?;
                active.rows += chunk.rows() as u64;
            }
            Ok(active)
        });
        let active = pushed?.or_raise()?;
        *ignore_poison(self.active.get()?.lock()) = Some(active);
        Ok(())
    }

    /// Attaches the rows. Returns, for each partition, its id, its number of rows, and whether this call attached
    /// them.
    fn finish(&self, py: Python<'_>, wait_time: f64) -> PyResult<Vec<(u16, u64, bool)>> {
        let wait = convert::duration("wait_time", wait_time)?;
        let active = self.take()?;
        let loaded =
            blocking::run_for(py, true, None, |cancellation| active.load.finish(wait, cancellation))?.or_raise()?;
        Ok(loaded
            .into_iter()
            .map(|it| (it.partition.0, it.rows, it.is_attached))
            .collect())
    }
}
