// SPDX-License-Identifier: Apache-2.0
//! What the tests of the stores share: a naive model, and the ordered map behind the trait.

pub(crate) mod model;
pub(crate) mod shared_map;
