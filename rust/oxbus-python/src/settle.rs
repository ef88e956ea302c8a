// SPDX-License-Identifier: Apache-2.0
//! The settlement methods of `ServiceBusReceiver`. Those of messages of a server continue in `settle_remote`.

use oxbus_broker::client::{SettleKey, SettleListError};
use oxbus_model::{LockToken, SequenceNumber};
use oxbus_store::Wait;
use oxbus_store::suspended::run_now;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::{OrRaise, raise};
use crate::received::ServiceBusReceivedMessage;
use crate::receiver::ServiceBusReceiver;
use crate::settle_call::{LoopSettlement, SettleCall, finish_list, message, some_lost};
use crate::settle_remote::settle_remote;
use crate::settle_rows::{finish_rows, settle_rows, settlement_of_rows};
use crate::transport::ReceiverTransport;
use crate::{arrow, blocking, convert, transaction, waiting};

impl ServiceBusReceiver {
    pub(crate) fn settle(
        &self,
        value: &Bound<'_, PyAny>,
        call: &SettleCall,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let py = value.py();
        let receiver = match self.open(py)?.get().receiver()? {
            ReceiverTransport::Local(receiver) => receiver,
            ReceiverTransport::Remote(remote) => {
                return settle_remote(remote, std::slice::from_ref(value), call, transaction);
            }
        };
        let message = message(value)?.get();
        let key = message.settle_key(receiver)?;
        let (changes, may_wait) = (call.changes(), receiver.entity().may_wait());
        let settlement = call.settlement(&changes);
        if let Some(transaction) = transaction::of_call(py, transaction)? {
            let transaction = transaction.get();
            let inner = transaction.local()?;
            blocking::run(py, may_wait, |wait| inner.settle(receiver, &[key], settlement, wait))?.or_raise()?;
            transaction.settle_on_commit(self::message(value)?);
            return Ok(());
        }
        blocking::run(py, may_wait, |wait| receiver.settle(key, settlement, wait))?.or_raise()?;
        message.set_settled();
        Ok(())
    }

    /// Settles all messages that can be settled. The error names the others.
    pub(crate) fn settle_all(
        &self,
        messages: &Bound<'_, PyAny>,
        call: &SettleCall,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let py = messages.py();
        let messages: Vec<Bound<'_, PyAny>> = messages.try_iter()?.collect::<PyResult<_>>()?;
        let receiver = match self.open(py)?.get().receiver()? {
            ReceiverTransport::Local(receiver) => receiver,
            ReceiverTransport::Remote(remote) => return settle_remote(remote, &messages, call, transaction),
        };
        // All arguments are checked before the first message is settled.
        let mut keys = Vec::with_capacity(messages.len());
        for value in &messages {
            keys.push(message(value)?.get().settle_key(receiver)?);
        }
        let (changes, may_wait) = (call.changes(), receiver.entity().may_wait());
        let settlement = call.settlement(&changes);
        if let Some(transaction) = transaction::of_call(py, transaction)? {
            let transaction = transaction.get();
            let inner = transaction.local()?;
            blocking::run(py, may_wait, |wait| inner.settle(receiver, &keys, settlement, wait))?.or_raise()?;
            for value in &messages {
                transaction.settle_on_commit(message(value)?);
            }
            return Ok(());
        }
        match blocking::run(py, may_wait, |wait| receiver.settle_many(&keys, settlement, wait))? {
            Ok(lost) => finish_list(&messages, &lost, None),
            Err(SettleListError { error, positions, .. }) => finish_list(&messages, &positions, Some(raise(&error))),
        }
    }
}

#[pymethods]
impl ServiceBusReceiver {
    #[pyo3(signature = (message, *, transaction=None))]
    fn complete_message(&self, message: &Bound<'_, PyAny>, transaction: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.settle(message, &SettleCall::Complete, transaction)
    }

    #[pyo3(signature = (message, *, properties_to_modify=None, delay=None, transaction=None))]
    fn abandon_message(
        &self,
        message: &Bound<'_, PyAny>,
        properties_to_modify: Option<&Bound<'_, PyAny>>,
        delay: Option<&Bound<'_, PyAny>>,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.settle(message, &SettleCall::abandon(properties_to_modify, delay)?, transaction)
    }

    #[pyo3(signature = (message, *, properties_to_modify=None, transaction=None))]
    fn defer_message(
        &self,
        message: &Bound<'_, PyAny>,
        properties_to_modify: Option<&Bound<'_, PyAny>>,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.settle(message, &SettleCall::defer(properties_to_modify)?, transaction)
    }

    #[pyo3(signature = (message, reason=None, error_description=None, *, transaction=None))]
    fn dead_letter_message(
        &self,
        message: &Bound<'_, PyAny>,
        reason: Option<&str>,
        error_description: Option<&str>,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.settle(
            message,
            &SettleCall::dead_letter(reason, error_description),
            transaction,
        )
    }

    #[pyo3(signature = (messages, *, transaction=None))]
    fn complete_messages(&self, messages: &Bound<'_, PyAny>, transaction: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.settle_all(messages, &SettleCall::Complete, transaction)
    }

    #[pyo3(signature = (messages, *, properties_to_modify=None, delay=None, transaction=None))]
    fn abandon_messages(
        &self,
        messages: &Bound<'_, PyAny>,
        properties_to_modify: Option<&Bound<'_, PyAny>>,
        delay: Option<&Bound<'_, PyAny>>,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.settle_all(
            messages,
            &SettleCall::abandon(properties_to_modify, delay)?,
            transaction,
        )
    }

    #[pyo3(signature = (messages, *, properties_to_modify=None, transaction=None))]
    fn defer_messages(
        &self,
        messages: &Bound<'_, PyAny>,
        properties_to_modify: Option<&Bound<'_, PyAny>>,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.settle_all(messages, &SettleCall::defer(properties_to_modify)?, transaction)
    }

    #[pyo3(signature = (messages, reason=None, error_description=None, *, transaction=None))]
    fn dead_letter_messages(
        &self,
        messages: &Bound<'_, PyAny>,
        reason: Option<&str>,
        error_description: Option<&str>,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.settle_all(
            messages,
            &SettleCall::dead_letter(reason, error_description),
            transaction,
        )
    }

    /// See the stub.
    fn _settle(
        &self,
        message: &Bound<'_, PyAny>,
        settlement: &LoopSettlement,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.settle(message, &settlement.0, transaction)
    }

    /// See the stub.
    fn _settle_all(
        &self,
        messages: &Bound<'_, PyAny>,
        settlement: &LoopSettlement,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.settle_all(messages, &settlement.0, transaction)
    }

    /// Releases unused received messages. The delivery count does not increase.
    fn _release(&self, py: Python<'_>, messages: Vec<Bound<'_, ServiceBusReceivedMessage>>) -> PyResult<()> {
        let locked = messages.iter().map(Bound::get);
        match self.open(py)?.get().receiver()? {
            ReceiverTransport::Local(receiver) => {
                let keys: Vec<SettleKey> = locked
                    .filter_map(ServiceBusReceivedMessage::settle_key_if_locked)
                    .collect();
                py.detach(|| receiver.release(&keys, &Wait::FOREVER));
            }
            ReceiverTransport::Remote(remote) => {
                let handles: Vec<_> = locked
                    .filter_map(ServiceBusReceivedMessage::settle_handle_if_locked)
                    .collect();
                remote.release(py, &handles)?;
            }
        }
        for message in &messages {
            message.get().set_settled();
        }
        Ok(())
    }

    #[pyo3(signature = (message, *, timeout=60.0))]
    fn renew_message_lock<'py>(
        &self,
        py: Python<'py>,
        message: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.is_session_receiver() {
            return Err(PyTypeError::new_err(
                "Renewing message lock is an invalid operation when working with sessions. Use receiver.session.renew_lock().",
            ));
        }
        convert::check_timeout(timeout)?;
        let receiver = self.open(py)?.get().receiver()?;
        let message = self::message(message)?.get();
        let until = match receiver {
            ReceiverTransport::Local(receiver) => {
                let key = message.settle_key(receiver)?;
                let may_wait = receiver.entity().may_wait();
                blocking::run_for(py, may_wait, timeout, |wait| receiver.renew(key, wait))?.or_raise()?
            }
            ReceiverTransport::Remote(remote) => remote.renew(py, message.settle_handle(remote)?, timeout)?,
        };
        message.set_locked_until(until);
        convert::datetime(py, until)
    }

    /// See the stub.
    fn settle_arrow(&self, py: Python<'_>, batch: &Bound<'_, PyAny>, outcome: &str) -> PyResult<()> {
        let settlement = settlement_of_rows(outcome)?;
        let receiver = self.open(py)?.get().receiver()?;
        let tokens = arrow::lock_tokens(batch)?;
        let receiver = match receiver {
            ReceiverTransport::Local(receiver) => receiver,
            ReceiverTransport::Remote(remote) => {
                let handles: Vec<_> = tokens
                    .tokens
                    .iter()
                    .map(|token| remote.handle_of(LockToken(*token)))
                    .collect();
                let (unsettled, other) = remote.settle(py, handles, settlement, None)?.unsettled();
                return match other {
                    Some(other) => Err(other),
                    None if unsettled.is_empty() => Ok(()),
                    None => {
                        let numbers = unsettled
                            .iter()
                            .filter_map(|&row| tokens.number(row).map(SequenceNumber));
                        let numbers: Vec<_> = numbers.collect();
                        Err(some_lost(unsettled.len(), &numbers, tokens.tokens.len()))
                    }
                };
            }
        };
        let settled = waiting::run_detached(py, |wait| run_now(settle_rows(receiver, &tokens, settlement, wait)))?;
        finish_rows(settled, tokens.tokens.len())
    }
}
