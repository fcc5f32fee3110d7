#![no_main]

#[path = "../../route-contract/tests/fuzz/bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::contract(data));
