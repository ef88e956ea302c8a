// SPDX-License-Identifier: Apache-2.0
//! Inputs of `untrusted_requests::http`, which says what must hold: requests, tokens, descriptions in XML.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| oxbus_fuzz::untrusted_requests::http(input));
