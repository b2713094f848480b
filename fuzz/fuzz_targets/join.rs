//! See `strait::parsers::join`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| strait::parsers::join(input));
