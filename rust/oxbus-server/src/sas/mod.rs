// SPDX-License-Identifier: Apache-2.0
//! Shared access signatures: who may do what where, until when (B-408 … B-419, B-455).
//!
//! HTTP asks for one with each request, `$cbs` once for each entity. Both call [`Authority::authorize`] with the token and
//! the address that it is shown for, and keep the [`Claims`].
//!
//! Read in this order: `scope` (what part of a namespace an address names), `token` (what a signature says), `authority`
//! (the rules, and whether a token agrees with one), `refused` (what is said when it does not).

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
