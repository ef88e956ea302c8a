// SPDX-License-Identifier: Apache-2.0
//! The native part of `Transaction`. A call belongs to the transaction in its argument, else to that of the enclosing
//! scope.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use oxbus_broker::client::{PendingNumbers, Transaction as BrokerTransaction};
use oxbus_model::Error;
use oxbus_model::ErrorKind;
use oxbus_model::sync::ignore_poison;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::error::{OrRaise, raise};
use crate::fork::ProcessLocal;
use crate::received::ServiceBusReceivedMessage;
use crate::remote::RemoteTransaction;
use crate::transport::TransactionTransport;
use crate::{imports, waiting};

/// The number of open transaction scopes in this process. While it is 0, calls skip the lookup.
static SCOPES: AtomicUsize = AtomicUsize::new(0);

/// The native part of a transaction.
#[pyclass(frozen, name = "_Transaction", module = "oxbus")]
pub(crate) struct Transaction {
    pub(crate) inner: ProcessLocal<TransactionTransport>,
    /// The lists that a commit fills with the sequence numbers of scheduled messages.
    /// A panic leaves it consistent: each push is one step.
    lists: Mutex<Vec<(PendingNumbers, Py<PyList>)>>,
    /// The messages that a commit settles.
    /// A panic leaves it consistent: at worst, a message that was not added does not show that it is settled.
    settled: Mutex<Vec<Py<ServiceBusReceivedMessage>>>,
}

impl Transaction {
    pub(crate) fn new(inner: ProcessLocal<TransactionTransport>) -> Self {
        Self {
            inner,
            lists: Mutex::default(),
            settled: Mutex::default(),
        }
    }

    /// The transaction of a call in this process, or `ForkedProcessError` in a forked child.
    pub(crate) fn local(&self) -> PyResult<&BrokerTransaction> {
        match self.inner.get()? {
            TransactionTransport::Local(transaction) => Ok(transaction),
            TransactionTransport::Remote(_) => Err(raise(&of_another_client())),
        }
    }

    /// The transaction of a call to a server, or `ForkedProcessError` in a forked child.
    pub(crate) fn remote(&self) -> PyResult<&RemoteTransaction> {
        match self.inner.get()? {
            TransactionTransport::Remote(transaction) => Ok(transaction),
            TransactionTransport::Local(_) => Err(raise(&of_another_client())),
        }
    }

    /// Fills a list with sequence numbers when the transaction is committed.
    pub(crate) fn fill_on_commit(&self, numbers: PendingNumbers, list: Py<PyList>) {
        let mut lists = ignore_poison(self.lists.lock());
        lists.push((numbers, list));
    }

    /// Marks a message as settled when the transaction is committed.
    pub(crate) fn settle_on_commit(&self, message: &Bound<'_, ServiceBusReceivedMessage>) {
        let mut settled = ignore_poison(self.settled.lock());
        settled.push(message.clone().unbind());
    }
}

fn of_another_client() -> Error {
    let detail = "the transaction belongs to another client; begin one with the client of this sender or receiver";
    Error::new(ErrorKind::InvalidOperation, detail)
}

/// The transaction of a call: the given one, else that of the enclosing scope.
#[inline]
pub(crate) fn of_call<'py>(
    py: Python<'py>,
    given: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, Transaction>>> {
    if is_outside(given) {
        return Ok(None);
    }
    find(py, given)
}

/// True if a call is certainly in no transaction.
#[inline]
pub(crate) fn is_outside(given: Option<&Bound<'_, PyAny>>) -> bool {
    given.is_none() && SCOPES.load(Ordering::Relaxed) == 0
}

#[cold]
fn find<'py>(py: Python<'py>, given: Option<&Bound<'py, PyAny>>) -> PyResult<Option<Bound<'py, Transaction>>> {
    let transaction = match given {
        Some(transaction) => transaction.clone(),
        None => imports::current_transaction(py)?.call0()?,
    };
    if transaction.is_none() {
        return Ok(None);
    }
    if !transaction.is_instance(imports::transaction_class(py)?)? {
        return Err(PyTypeError::new_err(format!(
            "transaction must be what client.transaction() returned: {}",
            transaction.get_type().name()?
        )));
    }
    let native = transaction.call_method0("_begun")?;
    Ok(Some(native.cast_into::<Transaction>().map_err(PyErr::from)?))
}

/// Rejects a call that cannot be part of a transaction (B-307).
pub(crate) fn refuse(py: Python<'_>, given: Option<&Bound<'_, PyAny>>, what: &str) -> PyResult<()> {
    if of_call(py, given)?.is_none() {
        return Ok(());
    }
    let detail = format!("{what} cannot be part of a transaction; make the call outside of it");
    Err(Error::new(ErrorKind::InvalidOperation, detail)).or_raise()
}

/// The messages that a commit in progress settles. Whatever becomes of it, they do not stay so.
pub(crate) struct CommittedMessages(Vec<Py<ServiceBusReceivedMessage>>);

impl CommittedMessages {
    fn begin(messages: Vec<Py<ServiceBusReceivedMessage>>) -> Self {
        for message in &messages {
            message.get().set_committing(true);
        }
        Self(messages)
    }

    fn set_settled(&self) {
        for message in &self.0 {
            message.get().set_settled();
        }
    }
}

impl Drop for CommittedMessages {
    fn drop(&mut self) {
        for message in &self.0 {
            message.get().set_committing(false);
        }
    }
}

impl Transaction {
    /// Begins a commit.
    pub(crate) fn begin_commit(&self) -> CommittedMessages {
        CommittedMessages::begin(std::mem::take(&mut *ignore_poison(self.settled.lock())))
    }

    /// Marks the messages as settled, and fills the lists with sequence numbers, if the transaction was committed.
    pub(crate) fn end_commit(
        &self,
        py: Python<'_>,
        messages: CommittedMessages,
        committed: PyResult<()>,
    ) -> PyResult<()> {
        committed?;
        messages.set_settled();
        let lists = std::mem::take(&mut *ignore_poison(self.lists.lock()));
        for (numbers, list) in lists {
            for number in &*ignore_poison(numbers.lock()) {
                list.bind(py).append(number.0)?;
            }
        }
        Ok(())
    }

    /// The transaction of this process, unless this is a forked child.
    pub(crate) fn if_same_process(&self) -> Option<&BrokerTransaction> {
        match self.inner.if_same_process()? {
            TransactionTransport::Local(inner) => Some(inner),
            TransactionTransport::Remote(_) => None,
        }
    }
}

#[pymethods]
impl Transaction {
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let inner = self.inner.get()?;
        let messages = self.begin_commit();
        let committed = match inner {
            TransactionTransport::Local(inner) => {
                waiting::run_detached(py, |wait| inner.commit(wait)).and_then(OrRaise::or_raise)
            }
            TransactionTransport::Remote(remote) => remote.commit(py),
        };
        self.end_commit(py, messages, committed)
    }

    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        match self.inner.get()? {
            TransactionTransport::Local(inner) => inner.rollback().or_raise(),
            TransactionTransport::Remote(remote) => remote.rollback(py),
        }
    }

    #[getter]
    fn is_open(&self) -> PyResult<bool> {
        Ok(match self.inner.get()? {
            TransactionTransport::Local(inner) => inner.is_open(),
            TransactionTransport::Remote(remote) => remote.is_open(),
        })
    }

    /// Counts a scope that was entered or left.
    #[staticmethod]
    fn count_scope(entered: bool) {
        if entered {
            SCOPES.fetch_add(1, Ordering::SeqCst);
        } else {
            SCOPES.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
