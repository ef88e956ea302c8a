// SPDX-License-Identifier: Apache-2.0
//! `BulkServer`.

use std::path::PathBuf;

use oxbus_broker::Namespace;
use oxbus_server::{Key, Limits, ServerOptions, TlsFiles};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::fork::Owned;
use crate::ids;

/// The name of a key whose owner gave it none.
const KEY_NAME: &str = "bulk";

/// A server of the bulk plane.
#[pyclass(frozen, module = "oxbus.bulk", weakref)]
pub(crate) struct BulkServer {
    server: Owned<oxbus_server::BulkServer>,
    /// Name and secret.
    key: Option<(String, String)>,
}

/// What `serve_bulk` was given.
pub(crate) struct Wishes {
    pub(crate) host: String,
    pub(crate) port: i64,
    pub(crate) key: Option<String>,
    pub(crate) key_name: Option<String>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) private_key: Option<PathBuf>,
    /// By name.
    pub(crate) limits: Vec<(String, u64)>,
}

impl BulkServer {
    /// Serves a namespace.
    pub(crate) fn start(py: Python<'_>, namespace: &Owned<Namespace>, wishes: Wishes) -> PyResult<Self> {
        let port = u16::try_from(wishes.port).map_err(|_| {
            PyValueError::new_err(format!(
                "port is out of range; use 0 to 65535, 0 for any that is free: {}",
                wishes.port
            ))
        })?;
        let tls = match (wishes.certificate, wishes.private_key) {
            (None, None) => None,
            (Some(certificate), Some(private_key)) => Some(TlsFiles {
                certificate,
                private_key,
            }),
            _ => {
                return Err(PyValueError::new_err(
                    "certificate and private_key belong together; pass both, or neither",
                ));
            }
        };
        let key = wishes
            .key
            .map(|secret| (wishes.key_name.unwrap_or_else(|| KEY_NAME.to_owned()), secret));
        if let Some((name, secret)) = &key
            && [name, secret]
                .iter()
                .any(|text| text.contains(';') || text.trim() != text.as_str())
        {
            return Err(PyValueError::new_err(
                "key and key_name must have no semicolon and no space at their ends, to fit into a connection string",
            ));
        }
        let mut limits = Limits::default();
        for (name, value) in &wishes.limits {
            limits.lower(name, *value).or_raise()?;
        }
        let options = ServerOptions {
            host: wishes.host,
            port,
            key: key
                .as_ref()
                .map(|(name, secret)| Key::new(name, secret))
                .transpose()
                .or_raise()?,
            tls,
            new_id: ids::first_of,
            limits,
        };
        let shared = namespace.get()?.clone();
        let server = py
            .detach(|| oxbus_server::BulkServer::start(shared, options))
            .or_raise()?;
        Ok(Self {
            server: namespace.sibling(server),
            key,
        })
    }
}

#[pymethods]
impl BulkServer {
    #[getter]
    fn endpoint(&self) -> PyResult<String> {
        Ok(self.server.get()?.endpoint())
    }

    #[getter]
    fn host(&self) -> PyResult<String> {
        Ok(self.server.get()?.host().to_owned())
    }

    #[getter]
    fn port(&self) -> PyResult<u16> {
        Ok(self.server.get()?.address().port())
    }

    #[getter]
    fn connection_string(&self) -> PyResult<String> {
        let endpoint = self.server.get()?.endpoint();
        Ok(match &self.key {
            None => format!("Endpoint={endpoint}"),
            Some((name, secret)) => format!("Endpoint={endpoint};SharedAccessKeyName={name};SharedAccessKey={secret}"),
        })
    }

    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(!self.server.get()?.is_open())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let server = self.server.get()?;
        py.detach(|| server.close());
        Ok(())
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
        let server = self.server.get()?;
        Ok(format!(
            "BulkServer(endpoint={:?}, closed={})",
            server.endpoint(),
            !server.is_open()
        ))
    }
}
