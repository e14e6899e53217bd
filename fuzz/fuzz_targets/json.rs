//! Bodies in JSON, of built-in kinds, of a custom one and of definitions.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bellwether_fuzz::bodies("application/json", data));
