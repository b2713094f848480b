//! See `strait::parsers::pmi`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| strait::parsers::pmi(input));
