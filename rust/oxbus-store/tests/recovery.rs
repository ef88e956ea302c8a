// SPDX-License-Identifier: Apache-2.0
//! Runs the checks of the fuzz targets on some thousand seeded inputs.

#[path = "support/recovery.rs"]
pub mod recovery;

/// Inputs of useful lengths; the same in each run.
fn inputs(count: u64, seed: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut state = seed;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    (0..count).map(move |number| {
        let len = 1 + next() % if number % 8 == 0 { 300 } else { 30 };
        let mut bytes: Vec<u8> = (0..len).map(|_| next() as u8).collect();
        // Each kind in turn.
        bytes[0] = (number % 12) as u8;
        bytes
    })
}

#[test]
fn a_log_that_opens_shows_only_what_was_written() {
    inputs(4_000, 1).for_each(|input| recovery::recover(&input));
}

#[test]
fn a_catalog_is_read_or_refused() {
    inputs(6_000, 2).for_each(|input| recovery::catalog(&input));
}

#[test]
fn inputs_found_by_fuzzing_do_no_harm() {
    // A forged catalog with the highest change number: its next change had a number that no build reads.
    for version in [1, 2] {
        let mut highest = vec![2, version, 0, 0, 0];
        highest.extend([255; 12]);
        highest.extend([174, 255, 255, 255, 10, 255, 126, 10, 0, 0, 0, 0, 0, 0, 0, 16, 1]);
        highest.extend([0; 8]);
        recovery::catalog(&highest);
    }
}
