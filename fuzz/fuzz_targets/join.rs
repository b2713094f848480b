//! See `strait_tests::fuzz::join`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| strait_tests::fuzz::join(input));
