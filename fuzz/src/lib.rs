// SPDX-License-Identifier: Apache-2.0
//! The checks of the targets: the same functions that `cargo test` runs on seeded inputs.

#[path = "../../rust/oxbus-amqp/tests/support/application.rs"]
pub mod application;
#[path = "../../rust/oxbus-amqp/tests/support/caller.rs"]
pub mod caller;
#[path = "../../rust/oxbus-server/tests/support/untrusted_requests.rs"]
pub mod untrusted_requests;
#[path = "../../rust/oxbus-store/tests/support/recovery.rs"]
pub mod recovery;
#[path = "../../rust/oxbus-broker/tests/support/rules.rs"]
pub mod rules;
#[path = "../../rust/oxbus-amqp/tests/support/untrusted_input.rs"]
pub mod untrusted_input;
