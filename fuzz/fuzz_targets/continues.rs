//! Continue tokens: real ones that somebody changed, and anything else.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bellwether_fuzz::{JSON, choose, encoded, run};
use libfuzzer_sys::fuzz_target;

const LISTS: [&str; 4] = [
    "/api/v1/namespaces?limit=1",
    "/api/v1/namespaces/default/configmaps?limit=1",
    "/apis/fuzz.example.com/v1/widgets?limit=1",
    "/api/v1/secrets?limit=1&watch=1&timeoutSeconds=1",
];

/// What the rest of an input is.
enum Token {
    Text,
    /// What a token holds, before it is encoded.
    Payload,
    /// Changes of a real one.
    Changed,
}

fuzz_target!(|data: &[u8]| {
    let [list, way, text @ ..] = data else { return };
    run(|server| {
        let token = match choose(*way, &[Token::Text, Token::Payload, Token::Changed]) {
            Token::Text => encoded(&String::from_utf8_lossy(text)),
            Token::Payload => URL_SAFE_NO_PAD.encode(text),
            Token::Changed => changed(&server.page, text),
        };
        server.send("GET", &format!("{}&continue={token}", choose(*list, &LISTS)), JSON, "");
    });
});

/// A real token with bytes put over others: pairs of where and what.
fn changed(token: &str, changes: &[u8]) -> String {
    let mut bytes = URL_SAFE_NO_PAD.decode(token).unwrap();
    for change in changes.chunks_exact(2) {
        let at = usize::from(change[0]) % bytes.len();
        bytes[at] = change[1];
    }
    URL_SAFE_NO_PAD.encode(bytes)
}
