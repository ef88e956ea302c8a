// SPDX-License-Identifier: Apache-2.0
//! Message objects that the garbage collector of Python does not visit.
//!
//! `PyO3` makes every class a collected one. The collector visits the objects made since its last run after each 700
//! more, so a list of thousands of messages was visited while it was made, and receiving by 1,000 took half as long
//! again per message as by 100. Visits find nothing: messages do not report what they refer to.
//!
//! Objects of Python subclasses stay tracked: Python gives subclasses its own allocator, and their attributes may form
//! cycles.

#![expect(unsafe_code, reason = "PyO3 has no safe form of an allocator of objects")]

use pyo3::ffi;

/// The allocator of a class (`tp_alloc`): that of `object`, but the collector does not track the object.
pub(crate) unsafe extern "C" fn allocate(class: *mut ffi::PyTypeObject, items: ffi::Py_ssize_t) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls this with one of its classes, attached, which is what `PyType_GenericAlloc` needs.
    let object = unsafe { ffi::PyType_GenericAlloc(class, items) };
    if !object.is_null() {
        // SAFETY: it is a new object of a collected class.
        unsafe { ffi::PyObject_GC_UnTrack(object.cast()) };
    }
    object
}

/// Makes the collector ignore the objects of a class and of the classes in Rust that extend it.
macro_rules! untracked {
    ($class:ty) => {
        pyo3::inventory::submit! {
            type Inventory = <$class as pyo3::impl_::pyclass::PyClassImpl>::Inventory;
            Inventory::new(pyo3::impl_::pyclass::PyClassItems {
                methods: &[],
                slots: &[pyo3::ffi::PyType_Slot {
                    slot: pyo3::ffi::Py_tp_alloc,
                    pfunc: $crate::untracked::allocate as *mut std::ffi::c_void,
                }],
            })
        }
    };
}
pub(crate) use untracked;
