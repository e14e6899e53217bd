//! Bodies sent to every place that takes one, in the encoding of the target.

use crate::{JSON, KINDS, Kind, Server, choose, run};

/// How a body is sent: the method, what follows the path of the object (or `None` for its collection), the options.
const WAYS: [(&str, Option<&str>, &str); 13] = [
    ("POST", None, ""),
    ("POST", None, "?dryRun=All"),
    ("POST", None, "?dryRun=All&fieldValidation=Strict"),
    ("POST", None, "?fieldManager=fuzz&fieldValidation=Ignore"),
    ("PUT", Some(""), ""),
    ("PUT", Some(""), "?dryRun=All"),
    ("PUT", Some(""), "?fieldManager=fuzz&fieldValidation=Strict"),
    ("PUT", Some("/status"), ""),
    ("PUT", Some("/scale"), ""),
    ("PUT", Some("/finalize"), "?dryRun=All"),
    ("POST", Some("/token"), ""),
    ("DELETE", Some(""), "?dryRun=All"),
    ("DELETE", None, "?dryRun=All"),
];

/// A run of text: the first byte chooses the kind, the second the way, the rest is the body.
pub fn bodies(media: &str, data: &[u8]) {
    if let [kind, way, body @ ..] = data {
        run(|server| write(server, Kind::chosen(*kind), *way, media, body));
    }
}

/// A run of protobuf: its envelope says the kind, so that objects of others are inputs as they are; the last byte
/// chooses the way.
pub fn envelopes(media: &str, data: &[u8]) {
    let Some(way) = data.last() else { return };
    let envelope = String::from_utf8_lossy(&data[..data.len().min(100)]);
    let named = |kind: &&Kind| envelope.contains(kind.object["kind"].as_str().unwrap_or_default());
    // The longest name wins: `Event` is in `EventList`, `Role` in `ClusterRoleBinding`.
    let kind = KINDS.iter().filter(named).max_by_key(|kind| kind.object["kind"].as_str().map(str::len));
    run(|server| write(server, kind.unwrap_or(&KINDS[0]), *way, media, data));
}

fn write(server: &Server, kind: &Kind, way: u8, media: &str, body: &[u8]) {
    let (method, below, options) = *choose(way, &WAYS);
    let path = below.map_or(kind.collection.to_owned(), |below| kind.item(kind.name()) + below);
    let said = server.send(method, &format!("{path}{options}"), media, body.to_vec());
    let kept = matches!(said.code, 200 | 201) && !options.contains("dryRun") && kind.is_kept();
    match below {
        None if kept => {
            let Some(name) = said.name() else { return server.spoil() };
            read_back(server, kind, &name);
            server.restore(kind, &name);
        }
        Some(part) if kept && part != "/token" => server.restore(kind, kind.name()),
        _ => {}
    }
}

/// What was stored is there, and the same again changes nothing.
fn read_back(server: &Server, kind: &Kind, name: &str) {
    server.settle();
    let item = kind.item(name);
    let got = server.send("GET", &item, JSON, "");
    assert_eq!(got.code, 200, "GET {item} after it was created: {}", got.text());
    let put = server.send("PUT", &item, JSON, got.body.clone());
    assert_eq!(put.code, 200, "PUT {item} of what GET answered: {}\n{}", put.text(), got.text());
    assert_eq!(put.body, got.body, "PUT {item} of what GET answered changes it");
}
