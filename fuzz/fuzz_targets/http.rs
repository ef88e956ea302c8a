// SPDX-License-Identifier: Apache-2.0
//! Inputs of `http_strangers::http`, which says what must hold: requests, tokens, descriptions in XML.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| oxbus_fuzz::http_strangers::http(input));
