//! Runs `strait_tests::fuzz::observers` on fuzzed input.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| strait_tests::fuzz::observers(input));
