// SPDX-License-Identifier: Apache-2.0
//! `Server`: serves a namespace to SDKs and bulk clients over the network.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use oxbus_broker::clock::{Randomness, SystemClock};
use oxbus_model::Clock;
use oxbus_model::authorization::AuthorizationRule;
use oxbus_server::{BulkLimits, BusOptions, BusServer, BusTls, ConsoleOptions, FinishedSpan, Ports, TlsFiles};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::admin::{authorization_rule, authorization_rules};
use crate::error::OrRaise;
use crate::fork::ProcessLocal;
use crate::ids;
use crate::logging;
use crate::namespace::Namespace;

/// A span as Python takes it.
type TakenSpan = (
    &'static str,
    String,
    Vec<String>,
    usize,
    Option<String>,
    u64,
    u64,
    Option<TakenExchange>,
);
/// What a span of HTTP has more: its route, its scheme and its status.
type TakenExchange = (Option<String>, &'static str, u16);

/// A server of a namespace.
#[pyclass(frozen, module = "oxbus.server", weakref)]
pub(crate) struct Server {
    server: ProcessLocal<BusServer>,
}

fn port(name: &str, port: Option<i64>) -> PyResult<Option<u16>> {
    port.map(|port| {
        u16::try_from(port).map_err(|_| {
            PyValueError::new_err(format!(
                "{name} is out of range; use 0 to 65535, 0 for any free port: {port}"
            ))
        })
    })
    .transpose()
}

/// Lowers the default bulk limits. A negative limit is rejected, as is 0.
fn limits(lower: &BTreeMap<String, i64>) -> PyResult<BulkLimits> {
    let mut limits = BulkLimits::default();
    for (name, value) in lower {
        limits.lower(name, u64::try_from(*value).unwrap_or(0)).or_raise()?;
    }
    Ok(limits)
}

fn rules(list: &Bound<'_, PyAny>, current: &[AuthorizationRule]) -> PyResult<Vec<AuthorizationRule>> {
    let now = SystemClock::new().now();
    let updates = authorization_rules(list)?;
    let granted: oxbus_model::Result<Vec<_>> = updates
        .into_iter()
        .map(|update| update.apply_to(current, now, &Randomness::System))
        .collect();
    granted.or_raise()
}

#[pymethods]
impl Namespace {
    /// Serves the namespace. `oxbus.server.serve` calls it.
    #[expect(clippy::too_many_arguments, reason = "each is an option of the call")]
    fn _serve(
        &self,
        py: Python<'_>,
        host: String,
        amqp_port: Option<i64>,
        amqps_port: Option<i64>,
        http_port: Option<i64>,
        https_port: Option<i64>,
        rules: &Bound<'_, PyAny>,
        certificate: Option<PathBuf>,
        private_key: Option<PathBuf>,
        certificate_out: Option<PathBuf>,
        bulk_limits: BTreeMap<String, i64>,
        console: Option<Vec<String>>,
        console_is_read_only: bool,
    ) -> PyResult<Server> {
        let tls = match (certificate, private_key) {
            (None, None) => BusTls::Development {
                issuer_out: certificate_out,
            },
            (Some(certificate), Some(private_key)) if certificate_out.is_none() => BusTls::Files(TlsFiles {
                certificate,
                private_key,
            }),
            (Some(_), Some(_)) => {
                return Err(PyValueError::new_err(
                    "certificate_out is for a generated certificate; leave it out, or leave out certificate and \
                     private_key",
                ));
            }
            _ => {
                return Err(PyValueError::new_err(
                    "certificate and private_key belong together; pass both, or neither",
                ));
            }
        };
        let options = BusOptions {
            host,
            ports: Ports {
                amqp: port("amqp_port", amqp_port)?,
                amqps: port("amqps_port", amqps_port)?,
                http: port("http_port", http_port)?,
                https: port("https_port", https_port)?,
            },
            rules: self::rules(rules, &[])?,
            tls,
            new_id: ids::first_of,
            bulk: limits(&bulk_limits)?,
            console: console.map(|hosts| ConsoleOptions {
                hosts,
                is_read_only: console_is_read_only,
            }),
        };
        logging::start_and_refresh_levels(py)?;
        let shared = self.namespace.get()?.clone();
        let server = py.detach(|| BusServer::start(shared, options)).or_raise()?;
        Ok(Server {
            server: self.namespace.sibling(server),
        })
    }
}

#[pymethods]
impl Server {
    #[getter]
    fn host(&self) -> PyResult<String> {
        Ok(self.server.get()?.host().to_owned())
    }

    #[getter]
    fn amqp_port(&self) -> PyResult<Option<u16>> {
        Ok(self.server.get()?.ports().amqp)
    }

    #[getter]
    fn amqps_port(&self) -> PyResult<Option<u16>> {
        Ok(self.server.get()?.ports().amqps)
    }

    #[getter]
    fn http_port(&self) -> PyResult<Option<u16>> {
        Ok(self.server.get()?.ports().http)
    }

    #[getter]
    fn https_port(&self) -> PyResult<Option<u16>> {
        Ok(self.server.get()?.ports().https)
    }

    #[getter]
    fn port(&self) -> PyResult<u16> {
        Ok(self.server.get()?.ports().first())
    }

    #[getter]
    fn certificate(&self) -> PyResult<Option<String>> {
        Ok(self.server.get()?.issuer().map(str::to_owned))
    }

    #[getter]
    fn connection_string(&self) -> PyResult<String> {
        Ok(self.server.get()?.connection_string())
    }

    /// The rules of the namespace, as dicts.
    fn _rules<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rules = self.server.get()?.rules();
        let dicts = rules.iter().map(|rule| authorization_rule(py, rule));
        PyList::new(py, dicts.collect::<PyResult<Vec<_>>>()?)
    }

    /// Replaces the rules of the namespace.
    fn _replace_rules(&self, rules: &Bound<'_, PyAny>) -> PyResult<()> {
        let server = self.server.get()?;
        let rules = self::rules(rules, &server.rules())?;
        server.replace_rules(rules).or_raise()
    }

    /// What the server did for its clients, after a wait of at most some seconds for the first of it: operation, target,
    /// contexts, messages, error, nanoseconds since its begin, nanoseconds that it took, and for HTTP its route, scheme and
    /// status.
    fn _take_spans(&self, py: Python<'_>, limit: f64) -> PyResult<Vec<TakenSpan>> {
        let server = self.server.get()?;
        let taken = py.detach(|| server.take_spans(Duration::from_secs_f64(limit)));
        let describe = |span: FinishedSpan| {
            let (age, took) = (span.begun.elapsed().as_nanos() as u64, span.took.as_nanos() as u64);
            (
                span.operation,
                span.target,
                span.contexts,
                span.messages,
                span.error,
                age,
                took,
                span.http.map(|it| (it.route, it.scheme, it.status)),
            )
        };
        Ok(taken.into_iter().map(describe).collect())
    }

    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(!self.server.get()?.is_open())
    }

    #[pyo3(signature = (*, drain_timeout=0.0))]
    fn close(&self, py: Python<'_>, drain_timeout: f64) -> PyResult<()> {
        let limit = Duration::try_from_secs_f64(drain_timeout).map_err(|_| {
            PyValueError::new_err(format!(
                "drain_timeout must be a number of seconds from 0 on: {drain_timeout}"
            ))
        })?;
        let server = self.server.get()?;
        py.detach(|| {
            server.drain(limit);
            server.close();
        });
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
        self.close(py, 0.0)
    }

    fn __repr__(&self) -> PyResult<String> {
        let server = self.server.get()?;
        Ok(format!(
            "Server(host={:?}, port={}, closed={})",
            server.host(),
            server.ports().first(),
            !server.is_open()
        ))
    }
}
