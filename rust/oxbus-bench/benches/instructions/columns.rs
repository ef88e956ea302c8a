// SPDX-License-Identifier: Apache-2.0
//! Cases with columns: rows sent from a table, and received as one.

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StructArray};
use arrow_schema::{DataType, Field};
use oxbus_arrow::{ColumnSelection, InputColumns, LockTokens, RowSender};
use oxbus_broker::client::{Deliveries, Receiver, Settlement};
use oxbus_model::LockToken;
use oxbus_model::message::AssignedId;

use crate::bus::{BODY, WAIT, in_memory, sender_and_receiver};

/// Rows of a table.
const ROWS: usize = 128;

fn new_id(_: u64) -> AssignedId {
    AssignedId::new(1, 2)
}

fn bodies() -> InputColumns {
    let column: ArrayRef = Arc::new(BinaryArray::from_iter_values([BODY; ROWS]));
    let field = Arc::new(Field::new("body", DataType::Binary, true));
    InputColumns::read(&StructArray::from(vec![(field, column)])).expect("a column of bodies")
}

/// Each round sends a table, receives its messages as lists, and completes them.
pub(crate) fn send(rounds: usize) {
    run(rounds, |receiver, deliveries| {
        let keys: Vec<_> = deliveries.iter().map(crate::bus::key_of).collect();
        receiver
            .settle_many(&keys, Settlement::Complete, WAIT)
            .expect("the locks are valid");
    });
}

/// Each round sends a table, receives the selected columns, and completes the messages by their tokens.
pub(crate) fn receive(rounds: usize, names: Option<[&str; 2]>) {
    let columns = ColumnSelection::of(names).expect("columns of messages");
    run(rounds, |receiver, deliveries| {
        let table = oxbus_arrow::table(columns, receiver, deliveries).expect("the messages are readable");
        let mut tokens = LockTokens::default();
        let column = table.column_by_name("lock_token").expect("it is selected");
        tokens.push_column(column).expect("a column of tokens");
        black_box(&table);
        let open = |token: &[u8; 16]| receiver.open_token(LockToken(*token)).expect("the token is valid");
        let keys: Vec<_> = tokens.tokens.iter().map(open).collect();
        receiver
            .settle_many(&keys, Settlement::Complete, WAIT)
            .expect("the locks are valid");
    });
}

fn run(rounds: usize, mut settle: impl FnMut(&Receiver, &Deliveries)) {
    let namespace = in_memory();
    let (sender, receiver) = sender_and_receiver(&namespace, "orders");
    let bodies = bodies();
    for _ in 0..rounds {
        let mut rows = RowSender::new(&sender, new_id).expect("the queue accepts rows");
        rows.push(&bodies).expect("the rows are valid");
        rows.send(WAIT).outcome().expect("all rows are stored");
        let mut deliveries = Deliveries::new();
        receiver.receive_into(ROWS, &mut deliveries, WAIT).expect("receives");
        assert_eq!(deliveries.len(), ROWS);
        settle(&receiver, &deliveries);
    }
}
