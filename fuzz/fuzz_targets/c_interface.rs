//! Fuzzes the C interface; see `ffi/c/src/fuzz.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| strait_ffi_fuzzed::fuzz::c_interface(input));
