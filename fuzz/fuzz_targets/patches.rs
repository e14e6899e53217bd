//! Patches of every sort on objects that are there, and on their subresources; applies also make new ones.
#![no_main]

use bellwether_fuzz::{Kind, choose, run};
use libfuzzer_sys::fuzz_target;

const SORTS: [&str; 4] =
    ["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"];
const BELOW: [&str; 4] = ["", "/status", "/scale", "/finalize"];
const OPTIONS: [&str; 4] = [
    "?fieldManager=fuzz",
    "?fieldManager=fuzz&dryRun=All",
    "?fieldManager=fuzz&fieldValidation=Strict",
    "?fieldManager=fuzz&force=true",
];

fuzz_target!(|data: &[u8]| {
    let [kind, sort, below, options, name, patch @ ..] = data else { return };
    let (kind, sort) = (Kind::chosen(*kind), choose(*sort, &SORTS));
    let (below, options) = (choose(*below, &BELOW), choose(*options, &OPTIONS));
    let name = *choose(*name, &[kind.name(), "new"]);
    run(|server| {
        let target = format!("{}{below}{options}", kind.item(name));
        let said = server.send("PATCH", &target, &format!("application/{sort}"), patch.to_vec());
        if matches!(said.code, 200 | 201) && !options.contains("dryRun") {
            server.restore(kind, name);
        }
    });
});
