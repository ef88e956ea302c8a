// SPDX-License-Identifier: Apache-2.0
//! The parser of connection strings.

use oxbus_wire::{ConnectionParts, Credential, Endpoint};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::OrRaise;

/// See the stub.
#[pyfunction]
pub(crate) fn _parse_connection_string<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyDict>> {
    let ConnectionParts {
        endpoint,
        credential,
        entity,
    } = ConnectionParts::parse(text).or_raise()?;
    let parts = PyDict::new(py);
    let (scheme, address) = match &endpoint {
        Endpoint::Memory(name) => ("memory", name),
        Endpoint::Directory(path) => ("file", path),
        Endpoint::Store(url) => ("store", url),
        Endpoint::Server(server) => {
            parts.set_item("host", &server.host)?;
            parts.set_item("port", server.port)?;
            parts.set_item("tls", server.tls)?;
            ("sb", &server.address)
        }
    };
    parts.set_item("scheme", scheme)?;
    parts.set_item("address", address)?;
    parts.set_item("entity_path", entity)?;
    let (key, signature) = match credential {
        Some(Credential::Key { name, key }) => (Some((name, key)), None),
        Some(Credential::Signature(signature)) => (None, Some(signature)),
        None => (None, None),
    };
    let (name, key) = key.unzip();
    parts.set_item("shared_access_key_name", name)?;
    parts.set_item("shared_access_key", key)?;
    parts.set_item("shared_access_signature", signature)?;
    Ok(parts)
}
