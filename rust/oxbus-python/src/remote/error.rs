// SPDX-License-Identifier: Apache-2.0
//! Errors of the client as exceptions. An error that a namespace in this process gives too has the same class.

use std::error::Error as _;

use oxbus_client::{ClientError, ClientErrorKind};
use oxbus_model::Error;
use pyo3::prelude::*;

use crate::error::{class_name, exception_with, raise as raise_broker, with_cause};

/// The exception for an error of a call.
pub(super) fn raise(error: &ClientError) -> PyErr {
    let class = match error.kind() {
        ClientErrorKind::Broker(kind) => match class_name(kind) {
            Some(class) => class,
            None => return raise_broker(&of_broker(error, kind)),
        },
        ClientErrorKind::Unauthenticated => "ServiceBusAuthenticationError",
        ClientErrorKind::Unauthorized => "ServiceBusAuthorizationError",
        ClientErrorKind::Connection => "ServiceBusConnectionError",
        ClientErrorKind::Communication => "ServiceBusCommunicationError",
        ClientErrorKind::Service => "ServiceBusError",
    };
    let exception = exception_with(class, error.detail(), error.effect(), &[], |keywords| {
        if let Some(condition) = error.condition() {
            keywords.set_item("condition", condition)?;
        }
        Ok(())
    });
    with_cause(exception, error.source())
}

fn of_broker(error: &ClientError, kind: oxbus_model::ErrorKind) -> Error {
    let broker = Error::new(kind, error.detail());
    match error.effect() {
        Some(effect) => broker.with_effect(effect),
        None => broker,
    }
}
