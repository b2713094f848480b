//! See `strait::parsers::greeting`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| strait::parsers::greeting(input));
