// SPDX-License-Identifier: Apache-2.0
//! The hot paths as a program that does one of them so many times: something to count instructions of.
//!
//! `bench/instructions.py` runs it under callgrind with two numbers of rounds; the difference leaves out the start.
//! `instructions` lists the cases, `instructions CASE ROUNDS` runs one.

#![expect(clippy::print_stdout, reason = "it prints its cases")]

mod bus;
mod durable;
mod entities;
mod memory;

/// The allocator of the wheel.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A name, and what does it so many times.
type Case = (&'static str, fn(usize));

const CASES: [Case; 14] = [
    ("store/single", |rounds| memory::store(rounds, 1)),
    ("store/batch_32", |rounds| memory::store(rounds, 32)),
    ("queue/single", |rounds| memory::queue(1, rounds, None)),
    ("queue/single_at_once", |rounds| memory::queue(rounds, 1, None)),
    ("queue/single_keyed", |rounds| {
        memory::queue(1, rounds, Some("customer-4711"))
    }),
    ("queue/batch_100", memory::queue_by_100),
    ("queue/complete_16_cells", |rounds| {
        memory::complete_16_cells(&bus::in_memory(), rounds)
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
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let [name, rounds] = words.as_slice() else {
        for (name, _) in CASES {
            println!("{name}");
        }
        return;
    };
    let (_, run) = CASES
        .iter()
        .find(|(known, _)| known == name)
        .expect("a case that the list names");
    run(rounds.parse().expect("a number of rounds"));
}
