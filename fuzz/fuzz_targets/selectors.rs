//! Selectors and the other options of lists, watches and deletions of collections: a line for the label selector, one for
//! the field selector, and the rest of the query as it is.
#![no_main]

use bellwether_fuzz::{JSON, Kind, choose, encoded, run};
use libfuzzer_sys::fuzz_target;

const WAYS: [(&str, &str); 4] = [
    ("GET", ""),
    ("GET", "&watch=1&timeoutSeconds=0"),
    ("GET", "&watch=1&timeoutSeconds=1&allowWatchBookmarks=true"),
    ("DELETE", "&dryRun=All"),
];

fuzz_target!(|data: &[u8]| {
    let [kind, way, text @ ..] = data else { return };
    let (method, options) = choose(*way, &WAYS);
    let text = String::from_utf8_lossy(text);
    let mut lines = text.splitn(3, '\n').chain(["", "", ""]);
    let mut line = || lines.next().unwrap_or_default();
    let query =
        format!("labelSelector={}&fieldSelector={}{options}&{}", encoded(line()), encoded(line()), line());
    let kind = Kind::chosen(*kind);
    let target = format!("{}?{query}", kind.collection);
    run(|server| {
        server.send(method, &target, JSON, "");
        if *method == "DELETE" && kind.is_kept() {
            let there = server.send("GET", &kind.item(kind.name()), JSON, "").code;
            assert_eq!(there, 200, "{target}: a dry run deletes");
        }
    });
});
