// SPDX-License-Identifier: Apache-2.0
//! The options of the console.

/// The options of the console.
#[derive(Debug, Clone, Default)]
pub struct ConsoleOptions {
    /// Further host names under which browsers reach the server. The host of the server, `localhost` and addresses are
    /// always accepted.
    pub hosts: Vec<String>,
    /// True to refuse every change: the namespace is a view of a directory.
    pub is_read_only: bool,
}
