// SPDX-License-Identifier: Apache-2.0
//! The arguments of a settlement call, and what follows from its result.

use oxbus_broker::client::Settlement;
use oxbus_model::message::Value;
use oxbus_model::{Effect, Error, ErrorKind, SequenceNumber};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::raise;
use crate::properties;
use crate::received::ServiceBusReceivedMessage;

type BoundMessage<'py> = Bound<'py, ServiceBusReceivedMessage>;

/// The arguments of a settlement call.
pub(crate) enum SettleCall<'a> {
    Complete,
    /// Properties to modify, and the delay.
    Abandon(Option<&'a Bound<'a, PyAny>>, u64),
    Defer(Option<&'a Bound<'a, PyAny>>),
    DeadLetter {
        reason: Option<&'a str>,
        description: Option<&'a str>,
    },
}

impl SettleCall<'_> {
    /// Encodes the properties to modify and runs `run` with the settlement.
    pub(crate) fn with<R>(&self, run: impl FnOnce(Settlement<'_>) -> PyResult<R>) -> PyResult<R> {
        let changes = |mapping: Option<&Bound<'_, PyAny>>| mapping.map(properties::encode).transpose();
        match self {
            Self::Complete => run(Settlement::Complete),
            Self::DeadLetter { reason, description } => run(Settlement::DeadLetter {
                reason: *reason,
                description: *description,
                changes: &[],
            }),
            Self::Abandon(mapping, _) | Self::Defer(mapping) => {
                let encoded = changes(*mapping)?;
                let entries: Vec<(&str, Value<'_>)> = encoded.iter().flat_map(|it| it.properties().iter()).collect();
                run(match *self {
                    Self::Abandon(_, 0) => Settlement::Abandon(&entries),
                    Self::Abandon(_, delay_ms) => Settlement::AbandonFor {
                        changes: &entries,
                        delay_ms,
                    },
                    _ => Settlement::Defer(&entries),
                })
            }
        }
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
