// SPDX-License-Identifier: Apache-2.0
//! What `message.body` returns: an iterator over one `bytes`.
//!
//! Every program reads bodies, most with `b"".join(message.body)`. A list and its iterator, or a class of `PyO3`, take part
//! in garbage collection and cost several times as much as this type, which refers only to a `bytes`.
#![expect(
    unsafe_code,
    reason = "a type outside garbage collection needs the interpreter's own functions"
)]

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyType};

#[repr(C)]
struct BodyIterator {
    base: ffi::PyObject,
    /// A reference to the `bytes`, and null after it was returned.
    section: AtomicPtr<ffi::PyObject>,
}

static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// An iterator over `section` alone.
#[inline]
pub(crate) fn new(section: Bound<'_, PyBytes>) -> PyResult<Bound<'_, PyAny>> {
    let py = section.py();
    let class = TYPE.get_or_try_init(py, || make_type(py))?.as_ptr();
    // SAFETY: `class` is the type of `BodyIterator`, which the interpreter allocates with the size of its `spec`. The new
    // object has no other reference, so its field may be written.
    unsafe {
        let iterator = ffi::PyObject_New::<ffi::PyObject>(class.cast());
        let iterator = Bound::from_owned_ptr_or_err(py, iterator)?;
        let section = AtomicPtr::new(section.into_ptr());
        ptr::write(&raw mut (*iterator.as_ptr().cast::<BodyIterator>()).section, section);
        Ok(iterator)
    }
}

fn make_type(py: Python<'_>) -> PyResult<Py<PyType>> {
    let slot = |slot: c_int, function: *mut c_void| ffi::PyType_Slot { slot, pfunc: function };
    let mut slots = [
        slot(ffi::Py_tp_iter, ffi::PyObject_SelfIter as *mut c_void),
        slot(ffi::Py_tp_iternext, next as *mut c_void),
        slot(ffi::Py_tp_dealloc, free as *mut c_void),
        slot(0, ptr::null_mut()),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"oxbus.MessageBody".as_ptr(),
        basicsize: size_of::<BodyIterator>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION) as c_uint,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: `spec` and its slots live during the call, which copies them; the functions have the types of their slots.
    let class = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec)) }?;
    Ok(class.cast_into::<PyType>()?.unbind())
}

/// Returns the section, then null, which ends the iteration.
///
/// # Safety
/// `iterator` is a [`BodyIterator`].
unsafe extern "C" fn next(iterator: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: by the contract above.
    let section = unsafe { &(*iterator.cast::<BodyIterator>()).section };
    // The check saves the swap, a locked instruction, at the end.
    if section.load(Ordering::Relaxed).is_null() {
        return ptr::null_mut();
    }
    // The reference moves from the iterator to the caller.
    section.swap(ptr::null_mut(), Ordering::AcqRel)
}

/// Frees the iterator.
///
/// # Safety
/// `iterator` is a [`BodyIterator`] without references.
unsafe extern "C" fn free(iterator: *mut ffi::PyObject) {
    // SAFETY: by the contract above. An object of a type made at run time holds a reference to it.
    unsafe {
        let class = ffi::Py_TYPE(iterator);
        ffi::Py_XDECREF(*(*iterator.cast::<BodyIterator>()).section.get_mut());
        ffi::PyObject_Free(iterator.cast());
        ffi::Py_DECREF(class.cast());
    }
}
