// SPDX-License-Identifier: Apache-2.0
//! The console: pages for people under `/$console`.
//!
//! Read in this order: `answer` (the dispatch), `guard` (who may speak to it), `session` and `sign_in` (who a caller
//! is), `api` (one file for each resource), `live` (resources as server-sent events), `history` (rates), `assets` (the
//! pages, built from `console/` of the project).
//!
//! Invariants
//! - a page never contains data: data comes as JSON, and the pages show it as text;
//! - looking locks nothing and changes nothing; a change needs a right, a token against forgery, and writes a log line;
//! - memory is bounded: sign-ins, attempts, samples, refusals, jobs and streams have limits.

mod answer;
mod api;
mod assets;
mod attempts;
mod connections;
mod error;
mod guard;
mod history;
mod jobs;
mod json;
mod live;
mod options;
mod overview_row;
mod refusals;
mod resubmission;
mod sampling;
mod session;
mod sign_in;
mod state;

pub(crate) use answer::answer;
pub(crate) use connections::{Card, Connections, LinkCard, Probe};
pub use options::ConsoleOptions;
pub(crate) use refusals::Refusals;
pub(crate) use sampling::sample;
pub(crate) use state::Console;
