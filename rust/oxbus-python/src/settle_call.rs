// SPDX-License-Identifier: Apache-2.0
//! The arguments of a settlement call, and what follows from its result.

use std::sync::Arc;

use oxbus_broker::client::Settlement;
use oxbus_model::message::{PropertiesBuilder, Value};
use oxbus_model::{Effect, Error, ErrorKind, SequenceNumber};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::raise;
use crate::received::ServiceBusReceivedMessage;
use crate::{convert, properties};

type BoundMessage<'py> = Bound<'py, ServiceBusReceivedMessage>;

/// The arguments of a settlement call.
pub(crate) enum SettleCall {
    Complete,
    /// Properties to modify, and the delay.
    Abandon(Option<PropertiesBuilder>, u64),
    Defer(Option<PropertiesBuilder>),
    DeadLetter {
        reason: Option<String>,
        description: Option<String>,
    },
}

impl SettleCall {
    pub(crate) fn abandon(properties: Option<&Bound<'_, PyAny>>, delay: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let delay_ms = convert::delay_ms(delay)?;
        Ok(Self::Abandon(properties.map(properties::encode).transpose()?, delay_ms))
    }

    pub(crate) fn defer(properties: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self::Defer(properties.map(properties::encode).transpose()?))
    }

    pub(crate) fn dead_letter(reason: Option<&str>, description: Option<&str>) -> Self {
        Self::DeadLetter {
            reason: reason.map(str::to_owned),
            description: description.map(str::to_owned),
        }
    }

    /// The properties to modify.
    #[inline]
    pub(crate) fn changes(&self) -> Vec<(&str, Value<'_>)> {
        match self {
            Self::Abandon(Some(changes), _) | Self::Defer(Some(changes)) => changes.properties().iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The settlement with its `changes`.
    #[inline]
    pub(crate) fn settlement<'a>(&'a self, changes: &'a [(&'a str, Value<'a>)]) -> Settlement<'a> {
        match self {
            Self::Complete => Settlement::Complete,
            Self::Abandon(_, 0) => Settlement::Abandon(changes),
            Self::Abandon(_, delay_ms) => Settlement::AbandonFor {
                changes,
                delay_ms: *delay_ms,
            },
            Self::Defer(_) => Settlement::Defer(changes),
            Self::DeadLetter { reason, description } => Settlement::DeadLetter {
                reason: reason.as_deref(),
                description: description.as_deref(),
                changes,
            },
        }
    }
}

/// A settlement that an event loop starts.
#[pyclass(frozen, name = "_Settlement", module = "oxbus")]
pub(crate) struct LoopSettlement(pub(crate) Arc<SettleCall>);

#[pymethods]
impl LoopSettlement {
    #[staticmethod]
    fn complete() -> Self {
        Self(Arc::new(SettleCall::Complete))
    }

    #[staticmethod]
    fn abandon(properties: Option<&Bound<'_, PyAny>>, delay: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self(Arc::new(SettleCall::abandon(properties, delay)?)))
    }

    #[staticmethod]
    fn defer(properties: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self(Arc::new(SettleCall::defer(properties)?)))
    }

    #[staticmethod]
    fn dead_letter(reason: Option<&str>, description: Option<&str>) -> Self {
        Self(Arc::new(SettleCall::dead_letter(reason, description)))
    }
}

pub(crate) fn message<'a, 'py>(value: &'a Bound<'py, PyAny>) -> PyResult<&'a BoundMessage<'py>> {
    value.cast::<ServiceBusReceivedMessage>().map_err(|_| {
        let name = value
            .get_type()
            .name()
            .map_or_else(|_| "?".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!(
            "only a received message can be settled; pass what receive_messages returned: {name}"
        ))
    })
}

/// The error for a call that did not settle `lost` of `total` messages because their locks are lost. `numbers` are
/// those of their sequence numbers that are known.
pub(crate) fn some_lost(lost: usize, numbers: &[SequenceNumber], total: usize) -> PyErr {
    let shown: Vec<String> = numbers.iter().take(10).map(|number| number.0.to_string()).collect();
    let more = if numbers.len() > 10 { ", …" } else { "" };
    let detail = format!(
        "{lost} messages were not settled because their locks are lost; receive them again: sequence_numbers={}{more}",
        shown.join(", ")
    );
    let effect = if lost < total { Effect::Partial } else { Effect::None };
    let error = Error::new(ErrorKind::MessageLockLost, detail).with_effect(effect);
    raise(&error.with_numbers(numbers.iter().copied()))
}

/// Marks the messages as settled, except those at the positions. Raises `refused`, or the error of these.
pub(crate) fn finish_list(messages: &[Bound<'_, PyAny>], unsettled: &[usize], refused: Option<PyErr>) -> PyResult<()> {
    let mut next_unsettled = unsettled.iter().peekable();
    for (position, value) in messages.iter().enumerate() {
        if next_unsettled.next_if(|next| **next == position).is_none() {
            message(value)?.get().set_settled();
        }
    }
    if let Some(refused) = refused {
        return Err(refused);
    }
    if unsettled.is_empty() {
        return Ok(());
    }
    let numbers: Vec<SequenceNumber> = unsettled
        .iter()
        .map(|&position| Ok(message(&messages[position])?.get().number()))
        .collect::<PyResult<_>>()?;
    Err(some_lost(numbers.len(), &numbers, messages.len()))
}
