//! Bodies in protobuf, of built-in kinds and of definitions.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bellwether_fuzz::envelopes("application/vnd.kubernetes.protobuf", data));
