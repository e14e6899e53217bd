//! The API keeps every promise of its OpenAPI document: Schemathesis reads the document, and sends what it allows and what
//! it forbids. What it is told is in tests/schemathesis.

#![cfg(feature = "schemathesis")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[allow(dead_code, unused_imports, unused_macros)]
#[path = "api/harness.rs"]
mod harness;

use std::path::Path;
use std::process::{Command, Output};

use bellwether_fleet::kinds::BASE_PATH;
use harness::{Api, Setup, kinds_of, sqlite};
use serde_json::json;

const TOLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/schemathesis");

#[tokio::test(flavor = "multi_thread")]
async fn every_promise_of_the_document_is_kept() {
    let tool = std::env::var("BELLWETHER_SCHEMATHESIS")
        .expect("BELLWETHER_SCHEMATHESIS must name Schemathesis; `tests/schemathesis/install` installs it and prints where");
    let kinds = kinds_of(json!([
        {
            "kind": "Cluster", "plural": "clusters", "name_min_len": 3, "name_max_len": 53,
            "required_adapters": ["validation", "dns"],
            "spec_schema": {
                "type": "object",
                "properties": { "region": { "type": "string", "maxLength": 20 }, "zones": { "$ref": "#/$defs/Zones" } },
                "$defs": { "Zones": { "type": "array", "maxItems": 3 } },
            },
        },
        {
            "kind": "NodePool", "plural": "nodepools", "name_min_len": 3, "name_max_len": 15,
            "parent_kind": "Cluster", "on_parent_delete": "cascade",
            "required_adapters": ["validation"],
        },
    ]));
    let api = Api::start_with(sqlite(), Setup { kinds, ..Setup::default() }).await;
    let address = api.address.clone();
    let output = tokio::task::spawn_blocking(move || run(&tool, &address)).await.expect("it ran");
    let said =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "Schemathesis found what is not so:\n{said}");
    println!("{said}");
}

/// Runs it in a directory of its own, for it keeps notes.
fn run(tool: &str, address: &str) -> Output {
    let notes = tempfile::tempdir().expect("a directory for its notes");
    let told = Path::new(TOLD).canonicalize().expect("what it is told is in the repository");
    Command::new(tool)
        .arg("--config-file")
        .arg(told.join("schemathesis.toml"))
        .args(["run", "--no-color", &format!("{address}{BASE_PATH}/openapi")])
        .env("PYTHONPATH", &told)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("FLEET_NOW", harness::BEGINNING)
        .env("FLEET_URL", format!("{address}{BASE_PATH}"))
        .current_dir(notes.path())
        .output()
        .unwrap_or_else(|error| panic!("{tool} does not start: {error}"))
}
