//! See `strait_tests::fuzz::locks`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| strait_tests::fuzz::locks(input));
