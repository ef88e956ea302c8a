// SPDX-License-Identifier: Apache-2.0
//! Shared by the tests of the stores: a naive model, and the ordered map as a store.

pub(crate) mod model;
pub(crate) mod shared_map;
