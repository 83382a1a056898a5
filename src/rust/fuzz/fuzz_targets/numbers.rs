#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gmhclust_fuzz::numbers::check(input));
