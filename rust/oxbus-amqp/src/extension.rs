// SPDX-License-Identifier: Apache-2.0
//! Extensions of our server. It offers each as a capability of the connection, because other servers would misread it.

/// Abandon with a delay. The capability, and the key of the delay in milliseconds: in the annotations of `modified`, and
/// in the arguments of `update-disposition`.
pub const ABANDON_DELAY: &str = "com.oxbus:abandon-delay";
