//! See `strait_tests::fuzz::pmi`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| strait_tests::fuzz::pmi(input));
