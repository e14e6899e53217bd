//! Credentials of strangers: whatever they show, unless the server made it, they are told 401.
#![no_main]

use bellwether_fuzz::{Who, choose, request, run};
use libfuzzer_sys::fuzz_target;

const TARGETS: [&str; 4] = [
    "/api/v1/namespaces",
    "/version",
    "/clusters/elsewhere/api",
    "/api/v1/namespaces/default/serviceaccounts/x/token",
];

/// What the rest of an input is.
enum Shown {
    Header,
    Token,
    /// Changes of a real token.
    Changed,
}

fuzz_target!(|data: &[u8]| {
    let [target, way, shown @ ..] = data else { return };
    run(|server| {
        let header = match choose(*way, &[Shown::Header, Shown::Token, Shown::Changed]) {
            Shown::Header => shown.to_vec(),
            Shown::Token => [b"Bearer ", shown].concat(),
            Shown::Changed => [b"bearer ", changed(&server.token, shown).as_slice()].concat(),
        };
        let target = choose(*target, &TARGETS);
        let method = if target.ends_with("/token") { "POST" } else { "GET" };
        let Some(asked) = request(method, target, &[("authorization", &header)], "{}") else { return };
        let good = header.windows(server.token.len()).any(|part| part == server.token.as_bytes());
        let code = server.send_by(Who::Stranger, asked).code;
        assert!(code == 401 || good, "{target}: {code} for {}", String::from_utf8_lossy(&header));
    });
});

/// A real token with characters put over others, then perhaps more of them: triples of where (two bytes) and what.
fn changed(token: &str, changes: &[u8]) -> Vec<u8> {
    let mut bytes = token.as_bytes().to_vec();
    for change in changes.chunks(3) {
        match change {
            [high, low, what] => {
                let at = usize::from(u16::from_be_bytes([*high, *low])) % bytes.len();
                bytes[at] = *what;
            }
            rest => bytes.extend(rest),
        }
    }
    bytes
}
