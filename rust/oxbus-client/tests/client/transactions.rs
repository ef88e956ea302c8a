// SPDX-License-Identifier: Apache-2.0
//! Transactions: commit, rollback, loss.

use oxbus_client::{ClientErrorKind, Received, Settlement, Transaction, block_on};
use oxbus_model::ErrorKind;

use super::server::{Server, bodies, error, message, none, receive, receiver, send, soon};

fn begin(client: &oxbus_client::Client) -> Transaction {
    block_on(client.transaction(soon())).expect("a transaction")
}

#[test]
fn a_commit_makes_all_effective() {
    let server = Server::start();
    let client = server.client();
    send(&client.sender("orders"), "order");
    let orders = receiver(&client, "orders");
    let received = receive(&orders, 1);
    let transaction = begin(&client);
    let sender = client.sender("orders");
    block_on(sender.send(&message("invoice"), Some(&transaction), soon())).expect("sends");
    let handles: Vec<_> = received.iter().map(Received::handle).collect();
    let settled = block_on(orders.settle(&handles, &Settlement::Complete, Some(&transaction), soon()));
    assert!(settled.expect("answers")[0].is_ok());
    none(&orders);
    block_on(transaction.commit(soon())).expect("commits");
    assert_eq!(bodies(&receive(&orders, 1)), ["invoice"]);
    assert_eq!(server.active("orders"), 1, "the order is completed");
}

#[test]
fn a_rollback_undoes_all() {
    let server = Server::start();
    let client = server.client();
    let transaction = begin(&client);
    block_on(
        client
            .sender("orders")
            .send(&message("never"), Some(&transaction), soon()),
    )
    .expect("sends");
    block_on(transaction.rollback(soon())).expect("rolls back");
    none(&receiver(&client, "orders"));
    assert_eq!(server.active("orders"), 0);
}

#[test]
fn a_dropped_transaction_is_rolled_back() {
    let server = Server::start();
    let client = server.client();
    let transaction = begin(&client);
    block_on(
        client
            .sender("orders")
            .send(&message("never"), Some(&transaction), soon()),
    )
    .expect("sends");
    drop(transaction);
    // The next transaction finds the first one ended.
    block_on(begin(&client).rollback(soon())).expect("rolls back");
    assert_eq!(server.active("orders"), 0);
}

#[test]
fn a_transaction_ends_once() {
    let server = Server::start();
    let client = server.client();
    let transaction = begin(&client);
    block_on(transaction.commit(soon())).expect("commits");
    for failed in [
        error(block_on(transaction.commit(soon()))),
        error(block_on(client.sender("orders").send(
            &message("late"),
            Some(&transaction),
            soon(),
        ))),
    ] {
        assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::TransactionOver));
    }
    assert_eq!(server.active("orders"), 0);
}
