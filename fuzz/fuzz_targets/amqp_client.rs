// SPDX-License-Identifier: Apache-2.0
//! Inputs of `untrusted_input::client`, which says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| oxbus_fuzz::untrusted_input::client(input));
