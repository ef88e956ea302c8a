// SPDX-License-Identifier: Apache-2.0
//! `memoryview(message)` shows the body of a received message without a copy.
#![expect(unsafe_code, reason = "the buffer protocol uses raw pointers")]

use std::ffi::{c_int, c_void};

use oxbus_model::message::{Body, Fields};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::received::ServiceBusReceivedMessage;

#[pymethods]
impl ServiceBusReceivedMessage {
    /// # Safety
    /// Only the interpreter may call it, with a `view` that it owns.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let message = slf.as_super().get();
        let record = message.record().expect("a received message is stored");
        let Body::Data(body) = Fields::body_of(record).or_raise()? else {
            return Err(PyBufferError::new_err(
                "the message has no body, or a body that is not one data section; check its body_type, or use bytes(message)",
            ));
        };
        let len = ffi::Py_ssize_t::try_from(body.len()).expect("a record has at most 4 GiB");
        // SAFETY: the interpreter owns `view`. The view keeps a reference to the message, whose record is never
        // replaced or written to, so the bytes live as long as the view; 1 makes it read-only.
        let status = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                body.as_ptr().cast_mut().cast::<c_void>(),
                len,
                1,
                flags,
            )
        };
        if status == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }
}
