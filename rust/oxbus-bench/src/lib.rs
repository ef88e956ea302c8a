// SPDX-License-Identifier: Apache-2.0
//! Nothing but a place for `benches/`.
