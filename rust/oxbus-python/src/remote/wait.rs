// SPDX-License-Identifier: Apache-2.0
//! A call that an event loop polls instead of waiting for it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use oxbus_client::{Polled, Result, enter, polled};
use pyo3::prelude::*;

use super::error::raise;

/// A call in an event loop. Dropping it cancels the call.
pub(crate) struct RemoteWait<T> {
    call: Pin<Box<dyn Future<Output = Result<T>> + Send>>,
    /// An error says that the process was forked: polling says so too.
    _polled: Result<Polled>,
}

impl<T: Send> RemoteWait<T> {
    pub(crate) fn new(call: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self {
            call: Box::pin(call),
            _polled: polled(),
        }
    }

    /// The result, or `None` until the waker is woken.
    pub(crate) fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<T>> {
        let polled = py.detach(|| {
            let _inside = enter()?;
            match self.call.as_mut().poll(&mut Context::from_waker(waker)) {
                Poll::Ready(result) => result.map(Some),
                Poll::Pending => Ok(None),
            }
        });
        polled.map_err(|error| raise(&error))
    }
}
