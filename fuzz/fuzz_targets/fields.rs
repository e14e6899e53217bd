//! Who owns what, as a client says it: FieldsV1 of any form, written by PUT, then met by an apply and a patch.
#![no_main]

use bellwether_fuzz::{JSON, Kind, run};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

fuzz_target!(|data: &[u8]| {
    let [kind, entry, fields @ ..] = data else { return };
    let kind = Kind::chosen(*kind);
    // What is no JSON is a text, which no owner of fields is.
    let fields: Value =
        serde_json::from_slice(fields).unwrap_or_else(|_| String::from_utf8_lossy(fields).into());
    let bit = |at: u8| entry >> at & 1 == 1;
    let entry = |manager: &str, fields: &Value| {
        json!({
            "manager": manager,
            "operation": if bit(0) { "Apply" } else { "Update" },
            "apiVersion": if bit(1) { "v9" } else { kind.object["apiVersion"].as_str().unwrap_or_default() },
            "subresource": if bit(2) { "status" } else { "" },
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        })
    };
    let mut object = kind.object.clone();
    if !kind.is_kept() {
        return;
    }
    object["metadata"]["managedFields"] = json!([entry("fuzz", &fields), entry("other", &fields)]);
    run(|server| {
        let item = kind.item(kind.name());
        // An update of a custom kind has to say of what.
        object["metadata"]["resourceVersion"] =
            server.send("GET", &item, JSON, "").json()["metadata"]["resourceVersion"].take();
        if server.send("PUT", &item, JSON, object.to_string()).code != 200 {
            return;
        }
        let below = if bit(2) { "/status" } else { "" };
        let apply = format!("{item}{below}?fieldManager=fuzz&force={}", bit(3));
        server.send("PATCH", &apply, "application/apply-patch+yaml", kind.object.to_string());
        server.send("PATCH", &item, "application/merge-patch+json", r#"{"metadata":{"labels":{"a":"b"}}}"#);
        server.restore(kind, kind.name());
    });
});
