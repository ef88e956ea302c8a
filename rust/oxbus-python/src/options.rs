// SPDX-License-Identifier: Apache-2.0
//! Converts the options of namespaces and receivers from Python to broker types.

use std::num::NonZeroU64;
use std::path::PathBuf;

use oxbus_broker::NamespaceOptions;
use oxbus_broker::durable::StoreOptions;
use oxbus_model::caps::{PARTITIONS_MAX, PREFETCH_COUNT_MAX};
use oxbus_model::name::SubQueue;
use oxbus_model::options::{Durability, LockPolicy, PeekPolicy, ReceiveMode, in_range};
use oxbus_model::tier::{Profile, ServicePlan, Tier};
use oxbus_model::{Error, ErrorKind};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert;
use crate::error::OrRaise;

/// The error for an unsupported feature.
pub(crate) fn not_supported(what: &str, instead: &str) -> Error {
    Error::new(
        ErrorKind::NotSupported,
        format!("{what} is not in this version; {instead}"),
    )
}

pub(crate) fn lock_policy(name: &str) -> PyResult<LockPolicy> {
    match name {
        "fresh" => Ok(LockPolicy::Fresh),
        "faithful" => Ok(LockPolicy::Faithful),
        _ => Err(PyValueError::new_err(format!(
            "unknown lock_policy; use `fresh` or `faithful`: `{name}`"
        ))),
    }
}

/// Parses the tier and the profile.
pub(crate) fn plan(tier: Option<&str>, profile: &str) -> PyResult<ServicePlan> {
    let tier = match tier {
        None => None,
        Some("basic") => Some(Tier::Basic),
        Some("standard") => Some(Tier::Standard),
        Some("premium") => Some(Tier::Premium),
        Some(other) => {
            return Err(PyValueError::new_err(format!(
                "unknown tier; use `basic`, `standard` or `premium`, or leave it out for no quotas: `{other}`"
            )));
        }
    };
    let profile = match profile {
        "current" => Profile::Current,
        "2019" => Profile::Edition2019,
        "2017" => Profile::Edition2017,
        other => {
            return Err(PyValueError::new_err(format!(
                "unknown profile; use `current`, `2019` or `2017`: `{other}`"
            )));
        }
    };
    Ok(ServicePlan { tier, profile })
}

pub(crate) fn peek_policy(name: &str) -> PyResult<PeekPolicy> {
    match name {
        "merged" => Ok(PeekPolicy::Merged),
        "faithful" => Ok(PeekPolicy::Faithful),
        other => Err(PyValueError::new_err(format!(
            "unknown peek_policy; use `merged` or `faithful`: `{other}`"
        ))),
    }
}

/// Returns the store of a namespace, and `None` for a namespace in memory.
pub(crate) fn store(
    path: Option<&Bound<'_, PyAny>>,
    durability: Option<&str>,
    partitions_owned: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<StoreOptions>> {
    let durability = durability.map(|name| match name {
        "memory" => Ok(Durability::Memory),
        "os" => Ok(Durability::Os),
        "fsync" => Ok(Durability::Fsync),
        _ => Err(PyValueError::new_err(format!(
            "unknown durability; use `fsync` or `os` with a path, `memory` without: `{name}`"
        ))),
    });
    let durability = durability.transpose()?;
    let Some(path) = path else {
        if durability.is_some_and(|durability| durability != Durability::Memory) {
            let detail = "durability `os` and `fsync` need a directory; open the namespace with a path";
            return Err(Error::new(ErrorKind::InvalidOperation, detail)).or_raise();
        }
        if partitions_owned.is_some() {
            let detail =
                "a namespace in memory owns all its partitions; leave partitions_owned out, or open it with a path";
            return Err(Error::new(ErrorKind::InvalidOperation, detail)).or_raise();
        }
        return Ok(None);
    };
    if durability == Some(Durability::Memory) {
        let detail =
            "a namespace with a path keeps its messages; use durability `os` or `fsync`, or leave the path out";
        return Err(Error::new(ErrorKind::InvalidOperation, detail)).or_raise();
    }
    let path: PathBuf = path.extract()?;
    if path.as_os_str().is_empty() {
        return Err(PyValueError::new_err(
            "path cannot be empty; use `.` for the current directory",
        ));
    }
    if let Some(text) = path.to_str()
        && is_connection_string(text)
    {
        // The text may contain a key, so the error does not quote it.
        return Err(PyValueError::new_err(
            "path must be a directory, and this is a connection string; pass it to from_connection_string of a client, \
             or leave path out for a namespace in memory",
        ));
    }
    Ok(Some(StoreOptions {
        // The path is absolute, because the process may change its directory while the namespace is open.
        path: std::path::absolute(&path)?,
        durability: durability.unwrap_or(Durability::Fsync),
        owned: partitions_owned.map(owned_mask).transpose()?,
        disk: None,
        segment_bytes: None,
    }))
}

/// Whether a text is meant for `from_connection_string`: as a path, `memory://shop` would be a directory `memory:`.
fn is_connection_string(text: &str) -> bool {
    ["memory://", "file://", "sb://", "Endpoint="].iter().any(|start| {
        text.get(..start.len())
            .is_some_and(|begin| begin.eq_ignore_ascii_case(start))
    })
}

/// Options that open a directory without owning partitions, to read only its entities.
pub(crate) fn unowned(path: &Bound<'_, PyAny>, durability: Option<&str>) -> PyResult<NamespaceOptions> {
    let store = store(Some(path), durability, None)?.map(|store| StoreOptions {
        owned: Some(0),
        ..store
    });
    Ok(NamespaceOptions {
        store,
        ..NamespaceOptions::default()
    })
}

/// Converts partition ids to a bit mask.
fn owned_mask(ids: &Bound<'_, PyAny>) -> PyResult<u64> {
    let mut mask = 0;
    for id in ids.try_iter()? {
        let id: i64 = id?.extract()?;
        let bit = u32::try_from(id).ok().filter(|id| *id < PARTITIONS_MAX.into());
        let bit = bit.ok_or_else(|| {
            PyValueError::new_err(format!(
                "partitions_owned is out of range; use 0 to {}: {id}",
                PARTITIONS_MAX - 1
            ))
        })?;
        mask |= 1u64 << bit;
    }
    if mask == 0 {
        return Err(PyValueError::new_err(
            "partitions_owned is empty; name partitions, or leave it out to own all",
        ));
    }
    Ok(mask)
}

pub(crate) fn partitions(count: Option<i64>) -> PyResult<Option<u16>> {
    let Some(count) = count else { return Ok(None) };
    let count = u64::try_from(count).unwrap_or(0);
    in_range("partitions", count, 1, PARTITIONS_MAX.into(), "partitions").or_raise()?;
    Ok(Some(count as u16))
}

pub(crate) fn memory_limit_bytes(limit: Option<i64>) -> PyResult<Option<u64>> {
    let Some(limit) = limit else { return Ok(None) };
    let bytes = u64::try_from(limit).ok().and_then(NonZeroU64::new).ok_or_else(|| {
        PyValueError::new_err(format!(
            "memory_limit_bytes must be greater than 0; leave it out for no limit: {limit}"
        ))
    })?;
    Ok(Some(bytes.get()))
}

/// The duration in milliseconds from which a call counts as slow. 0 disables the check.
pub(crate) fn slow_call_ms(seconds: f64) -> PyResult<u64> {
    let wait = convert::duration("slow_call_seconds", seconds)?;
    // A duration below 1 ms becomes 1 ms, because 0 would disable the check.
    Ok(u64::try_from(wait.as_millis())
        .unwrap_or(u64::MAX)
        .max(u64::from(!wait.is_zero())))
}

pub(crate) fn sub_queue(name: Option<&str>) -> PyResult<SubQueue> {
    match name.map(str::to_ascii_lowercase).as_deref() {
        None => Ok(SubQueue::Main),
        Some("deadletter") => Ok(SubQueue::DeadLetter),
        Some(other) => Err(PyValueError::new_err(format!(
            "unknown sub_queue; use `deadletter`: `{other}`"
        ))),
    }
}

/// The sub-queue of a receiver, and whether it is the transfer dead-letter queue.
pub(crate) fn received_sub_queue(name: Option<&str>) -> PyResult<(SubQueue, bool)> {
    match name {
        Some(name) if name.eq_ignore_ascii_case("transferdeadletter") => Ok((SubQueue::DeadLetter, true)),
        name => Ok((sub_queue(name)?, false)),
    }
}

pub(crate) fn receive_mode(name: &str) -> PyResult<ReceiveMode> {
    match name.to_ascii_lowercase().as_str() {
        "peeklock" => Ok(ReceiveMode::PeekLock),
        "receiveanddelete" => Ok(ReceiveMode::ReceiveAndDelete),
        other => Err(PyValueError::new_err(format!(
            "unknown receive_mode; use `peeklock` or `receiveanddelete`: `{other}`"
        ))),
    }
}

pub(crate) fn prefetch(count: i64) -> PyResult<usize> {
    usize::try_from(count)
        .ok()
        .filter(|count| *count <= PREFETCH_COUNT_MAX)
        .ok_or_else(|| {
            PyValueError::new_err(format!(
                "prefetch_count is out of range; use 0 for none, or up to {PREFETCH_COUNT_MAX} messages: {count}"
            ))
        })
}
