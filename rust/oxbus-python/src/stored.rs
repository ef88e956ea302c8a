// SPDX-License-Identifier: Apache-2.0
//! Namespaces whose files are in a store: object storage, PostgreSQL, or a directory of objects.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oxbus_broker::durable::StoreOptions;
use oxbus_model::options::Durability;
use oxbus_model::store_url::is_store_url;
use oxbus_model::{Error, ErrorKind};
use oxbus_object::{LaneDisk, LaneDiskOptions, OpenError, Takeover, has_namespace};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::waiting;

/// Bytes of an option, at most: more than any cache has.
const BYTES_MAX: u64 = 1 << 40;
/// Creations per second, at most.
const RATE_MAX: f64 = 1e6;

/// The URL of a store, if a path is one.
pub(crate) fn url_of(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| is_store_url(text))
}

/// See the stub.
#[pyfunction]
pub(crate) fn _is_store_url(text: &str) -> bool {
    is_store_url(text)
}

/// See the stub.
#[pyfunction]
pub(crate) fn _shown_store_url(url: &str) -> String {
    oxbus_blob::shown_url(url)
}

/// See the stub.
#[pyfunction]
#[pyo3(signature = (url, storage_options=None))]
pub(crate) fn _has_namespace(py: Python<'_>, url: &str, storage_options: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
    let options = StorageOptions::of(storage_options, Takeover::IfGone)?;
    let found = py.detach(|| has_namespace(url, &options.store));
    found.map_err(|error| raised(url, error)).or_raise()
}

/// The options of a namespace in a store, from `storage_options`.
pub(crate) struct StorageOptions {
    /// Options of this package.
    lane: LaneDiskOptions,
    /// Options of the store.
    store: Vec<(String, String)>,
}

impl StorageOptions {
    /// Reads the options.
    pub(crate) fn of(given: Option<&Bound<'_, PyAny>>, takeover: Takeover) -> PyResult<Self> {
        let given: HashMap<String, String> = match given {
            None => HashMap::new(),
            Some(given) => given
                .extract()
                .map_err(|_| PyTypeError::new_err("storage_options must be a mapping of str to str"))?,
        };
        let mut options = Self {
            lane: LaneDiskOptions {
                takeover,
                ..LaneDiskOptions::default()
            },
            store: Vec::new(),
        };
        for (name, value) in given {
            match name.as_str() {
                "cache_bytes" => {
                    let bytes = value.parse::<u64>().ok().filter(|bytes| *bytes <= BYTES_MAX);
                    options.lane.cache_bytes = bytes.ok_or_else(|| {
                        PyValueError::new_err(format!(
                            "storage_options `cache_bytes` must be a number of bytes from 0 to {BYTES_MAX}"
                        ))
                    })? as usize;
                }
                "max_puts_per_second" => {
                    let rate = value.parse::<f64>().ok().filter(|rate| (0.1..=RATE_MAX).contains(rate));
                    let rate = rate.ok_or_else(|| {
                        PyValueError::new_err(
                            "storage_options `max_puts_per_second` must be a number from 0.1 to 1000000",
                        )
                    });
                    options.lane.creates_per_second_max = Some(rate?);
                }
                _ => options.store.push((name, value)),
            }
        }
        options.store.sort_unstable();
        Ok(options)
    }

    /// Opens the disk of a namespace.
    pub(crate) fn open(self, py: Python<'_>, url: &str) -> PyResult<Arc<LaneDisk>> {
        let mut opening = LaneDisk::begin_open(url, self.store, self.lane)
            .map_err(|error| raised(url, error))
            .or_raise()?;
        let (opened, signal) = waiting::run_network_call(py, |slice, is_cancelled| {
            while !is_cancelled() {
                if let Some(opened) = opening.wait(slice) {
                    return Some(opened);
                }
            }
            None
        })?;
        if let Some(signal) = signal {
            return Err(signal);
        }
        let opened = opened.unwrap_or_else(|| Err(OpenError::Io(std::io::ErrorKind::Interrupted.into())));
        let (disk, _) = opened.map_err(|error| raised(url, error)).or_raise()?;
        Ok(Arc::new(disk))
    }
}

/// What to do if another process owns the namespace.
pub(crate) fn takeover(standby: bool, take_over: bool) -> PyResult<Takeover> {
    match (standby, take_over) {
        (false, false) => Ok(Takeover::IfGone),
        (true, false) => Ok(Takeover::WhenGone),
        (false, true) => Ok(Takeover::AtOnce),
        (true, true) => Err(PyValueError::new_err(
            "standby waits until the owner is gone, and take_over does not wait; choose one of them",
        )),
    }
}

/// The options of the broker for a disk.
pub(crate) fn store_options(disk: &Arc<LaneDisk>) -> StoreOptions {
    StoreOptions {
        path: PathBuf::from(disk.root()),
        durability: Durability::Fsync,
        owned: None,
        disk: Some(Arc::<LaneDisk>::clone(disk)),
        segment_bytes: None,
    }
}

/// Fails if an option does not fit a namespace in a store.
pub(crate) fn check(durability: Option<&str>, partitions_owned: bool) -> PyResult<()> {
    let detail = if durability.is_some_and(|level| level != "fsync") {
        "a namespace in a store has durability `fsync`: what the store does not have is lost with the process; \
         leave durability out"
    } else if partitions_owned {
        "a namespace in a store is owned as a whole; leave partitions_owned out"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::InvalidOperation, detail)).or_raise()
}

/// The error for a namespace that could not be opened. The URL is given without what may be a credential.
fn raised(url: &str, error: OpenError) -> Error {
    let place = oxbus_blob::shown_url(url);
    let (kind, advice) = match &error {
        OpenError::InUse(_) => (
            ErrorKind::NamespaceInUse,
            "close it there, or wait until its owner is gone with standby",
        ),
        OpenError::Damaged(_) => (ErrorKind::Corrupt, "the other objects may be intact; keep them"),
        OpenError::Options(_) | OpenError::Unfit(_) => {
            (ErrorKind::InvalidOperation, "change the URL or storage_options")
        }
        OpenError::Store(_) | OpenError::Io(_) => (
            ErrorKind::Storage,
            "check the URL, the credentials and the network, and open it again",
        ),
    };
    Error::new(kind, format!("{error}; {advice}: `{place}`")).with_source(error)
}
