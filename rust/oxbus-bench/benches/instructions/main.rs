// SPDX-License-Identifier: Apache-2.0
//! A program that repeats one hot path, for counting instructions.
//!
//! `bench/instructions.py` runs it under callgrind with two numbers of rounds; the difference excludes the start of the
//! program. `instructions` lists the cases, `instructions CASE ROUNDS` runs one.

#![expect(clippy::print_stdout, reason = "the program prints its cases")]

mod bus;
mod columns;
mod durable;
mod entities;
mod memory;

/// The allocator of the wheel.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The name of a case, and a function that runs it for a number of rounds.
type Case = (&'static str, fn(usize));

const CASES: [Case; 19] = [
    ("store/single", |rounds| memory::store(rounds, 1)),
    ("store/batch_32", |rounds| memory::store(rounds, 32)),
    ("queue/single", |rounds| {
        memory::queue(&bus::in_memory(), 1, rounds, None)
    }),
    ("queue/single_at_once", |rounds| {
        memory::queue(&bus::in_memory(), rounds, 1, None)
    }),
    ("queue/single_keyed", |rounds| {
        memory::queue(&bus::in_memory(), 1, rounds, Some("customer-4711"))
    }),
    ("queue/single_metered", |rounds| {
        memory::queue(&memory::metered(), 1, rounds, None)
    }),
    ("queue/batch_100", |rounds| {
        memory::queue_by_100(&bus::in_memory(), rounds)
    }),
    ("queue/batch_100_metered", |rounds| {
        memory::queue_by_100(&memory::metered(), rounds)
    }),
    ("queue/complete_16_cells", |rounds| {
        memory::complete_16_cells(&bus::in_memory(), rounds)
    }),
    ("columns/send_128", columns::send),
    ("columns/receive_128", |rounds| columns::receive(rounds, None)),
    ("columns/receive_body_128", |rounds| {
        columns::receive(rounds, Some(["body", "lock_token"]))
    }),
    ("filter/parse", entities::parse),
    ("durable/send", durable::send),
    ("durable/complete_16_cells", |rounds| {
        memory::complete_16_cells(&bus::durable(), rounds)
    }),
    ("durable/transaction", durable::transaction),
    ("topic/send", entities::topic),
    ("session/cycle", entities::session),
    ("forward/send", entities::forward),
];

fn main() {
    // Cargo passes `--bench`.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let [name, rounds] = arguments.as_slice() else {
        for (name, _) in CASES {
            println!("{name}");
        }
        return;
    };
    let (_, run) = CASES
        .iter()
        .find(|(known, _)| known == name)
        .expect("the first argument is the name of a case");
    run(rounds.parse().expect("the second argument is a number of rounds"));
}
