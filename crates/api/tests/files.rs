//! The files in `deploy/crds` match the CRDs that are generated from the types.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::collections::BTreeMap;
use std::path::Path;

use bellwether_api::crds;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
const WRITE: &str = "BELLWETHER_WRITE_CRDS";

#[test]
fn deploy_crds_match_generated_crds() {
    let wanted: BTreeMap<String, String> =
        crds().iter().map(|definition| (format!("{}.yaml", definition.name()), definition.yaml())).collect();
    if std::env::var_os(WRITE).is_some() {
        write(&wanted);
    }
    assert_eq!(
        found(),
        wanted,
        "deploy/crds is out of date; regenerate it with: {WRITE}=1 cargo test -p bellwether-api"
    );
}

fn found() -> BTreeMap<String, String> {
    let files = std::fs::read_dir(FILES).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect()
}

fn write(wanted: &BTreeMap<String, String>) {
    for name in found().keys().filter(|name| !wanted.contains_key(*name)) {
        std::fs::remove_file(Path::new(FILES).join(name)).unwrap();
    }
    for (name, text) in wanted {
        std::fs::write(Path::new(FILES).join(name), text).unwrap();
    }
}

#[test]
fn crds_are_sorted_by_name() {
    let names: Vec<String> = crds().iter().map(|definition| definition.name().to_owned()).collect();
    assert!(names.is_sorted(), "{names:?}");
}
