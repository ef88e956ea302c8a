// SPDX-License-Identifier: Apache-2.0
//! Shared access signatures: checks which operations a client may perform, on which entity, and until when (B-408 …
//! B-419, B-455).
//!
//! An HTTP request carries a token. An AMQP client puts one to `$cbs` for each entity. Both front ends call
//! [`Authority::authorize`] with the token and the address that it is used for, and use the returned [`Claims`].
//!
//! Read in this order: `scope` (the part of a namespace that an address names), `token` (the parts of a signature),
//! `authority` (the rules, and checking a token against them), `denied` (the errors).

mod authority;
mod denied;
mod scope;
mod token;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub use tests::token as signed_token;

pub use authority::{Authority, Claims, EntityRules, development_rule};
pub use denied::{AccessDenied, DenialReason, log_missing_entity};
pub use scope::Scope;
