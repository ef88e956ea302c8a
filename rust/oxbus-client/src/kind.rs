// SPDX-License-Identifier: Apache-2.0
//! Kinds of errors, by what the caller can do.

use oxbus_model::ErrorKind;

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientErrorKind {
    /// An error that an entity in this process would give too.
    Broker(ErrorKind),
    /// The server does not accept the token.
    Unauthenticated,
    /// The token lacks the right.
    Unauthorized,
    /// The connection or the link is lost, or was never there.
    Connection,
    /// The server closed the connection with an error.
    Communication,
    /// Any other error of the server.
    Service,
}
