// SPDX-License-Identifier: Apache-2.0
//! Arrow data in and out through the `PyCapsule` interface, without a copy at the boundary.

mod batches;
mod capsule;
mod columns;
mod ids;
mod pages;
mod received_rows;
mod remote;
mod send;
mod table;

pub(crate) use batches::Batches;
pub(crate) use capsule::{ArrowArray, ArrowTable, import};
pub(crate) use columns::{_Columns, _browsed_columns, ColumnNames, selection};
pub(crate) use ids::{keys, partition_ids};
pub(crate) use pages::_page_stream;
pub(crate) use received_rows::_ReceivedRows;
pub(crate) use remote::{send_to_remote, table_of_remote};
pub(crate) use send::{encode, finish_send, read, send, stage};
pub(crate) use table::{lock_tokens, reserved_table, table};
