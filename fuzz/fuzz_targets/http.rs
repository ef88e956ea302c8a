// SPDX-License-Identifier: Apache-2.0
//! Fuzzes `untrusted_requests::http`, which states the invariant, with requests, tokens and XML descriptions.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| oxbus_fuzz::untrusted_requests::http(input));
