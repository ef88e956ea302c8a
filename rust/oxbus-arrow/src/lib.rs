// SPDX-License-Identifier: Apache-2.0
//! Converts rows of Arrow tables to messages and back, in the process and as Arrow IPC streams.
//!
//! Depends on neither Python nor sockets. An error in a table is of kind `InvalidArgument` and names the column.

mod bytes_column;
mod column;
mod column_selection;
mod json_properties;
mod load;
mod message_row;
mod number_column;
mod properties;
mod received;
mod record_columns;
mod remote;
mod rows;
mod send;
mod sparse;
mod stage;
mod state_column;
pub mod stream;
mod table;
mod tokens;
mod variant;

use arrow_schema::ArrowError;
use oxbus_model::{Error, ErrorKind};

pub use column::{BytesColumn, ColumnContent};
pub use column_selection::ColumnSelection;
pub use load::load_rows;
pub use properties::PropertiesFormat;
pub use received::{reserved_table, table};
pub use remote::{RemoteRow, each_row, remote_table};
pub use rows::InputColumns;
pub use send::{RowSendError, RowSender, SendReport};
pub use stage::StageBuilder;
pub use table::TableBuilder;
pub use tokens::{LockTokens, lock_tokens};

/// The error of Arrow data that cannot be read.
pub fn unreadable(error: ArrowError) -> Error {
    let detail = format!("the Arrow data cannot be read; check the program that wrote it: {error}");
    Error::new(ErrorKind::InvalidArgument, detail).with_source(error)
}
