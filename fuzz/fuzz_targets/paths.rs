//! Any request: a line with method and target, lines of headers, an empty line, and a body.
#![no_main]

use bellwether_fuzz::{Who, request, run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (head, body) = match data.windows(2).position(|two| two == b"\n\n") {
        Some(end) => (&data[..end], &data[end + 2..]),
        None => (data, &[][..]),
    };
    let Ok(head) = std::str::from_utf8(head) else { return };
    let mut lines = head.split('\n');
    let Some((method, target)) = lines.next().and_then(|line| line.split_once(' ')) else { return };
    let headers: Vec<(&str, &[u8])> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name, value.as_bytes()))
        .collect();
    let Some(request) = request(method, target, &headers, body.to_vec()) else { return };
    run(|server| {
        let reads = matches!(method, "GET" | "HEAD" | "OPTIONS");
        let said = server.send_by(Who::Admin, request);
        if !reads && said.code < 300 {
            server.spoil();
        }
    });
});
