//! The public suite of JSON patches, applied to objects of a kind that holds any document.

use bellwether_testkit::{Call, eventually};
use serde_json::{Value, json};

use crate::compare::{Both, Tally};
use crate::kinds::{DEFINITIONS, definition};

const GROUP: &str = "patches.example.com";
const SUITES: [&str; 2] =
    [include_str!("../vectors/json-patch/tests.json"), include_str!("../vectors/json-patch/spec_tests.json")];

/// Where the document of a case stands in the object.
const PLACE: &str = "/spec/document";

pub(crate) async fn compare(both: &Both, tally: &mut Tally) {
    let anything = json!({"x-kubernetes-preserve-unknown-fields": true, "nullable": true});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"document": anything}}}});
    let path = format!("/apis/{GROUP}/v1/namespaces/default/patched");
    for cluster in [&both.kubernetes, &both.ours] {
        cluster.post(DEFINITIONS, &definition(GROUP, "Patched", schema.clone())).await.expect(201);
        eventually("objects", || async { (cluster.get(&path).await.status == 200).then_some(()) }).await;
    }
    let cases = SUITES.iter().flat_map(|suite| serde_json::from_str::<Vec<Value>>(suite).expect("a suite"));
    for (at, case) in cases.filter(|case| case["disabled"] != true).enumerate() {
        let Some(operations) = case["patch"].as_array() else { continue };
        let name = format!("case-{at}");
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Patched", "metadata": {"name": name}, "spec": {"document": case["doc"]},
        });
        let patch: Value = operations.iter().map(moved).collect();
        let answers = both.each(async |cluster| {
            cluster.post(&path, &object).await.expect(201);
            cluster.send(Call::json_patch(format!("{path}/{name}?dryRun=All"), &patch)).await
        });
        let (theirs, ours) = answers.await;
        tally.judge("JSON patches", &case.to_string(), &theirs, &ours);
    }
}

/// An operation on the document in its place. What is no pointer stays so.
fn moved(operation: &Value) -> Value {
    let mut operation = operation.clone();
    for key in ["path", "from"] {
        if let Some(Value::String(pointer)) = operation.get_mut(key)
            && (pointer.is_empty() || pointer.starts_with('/'))
        {
            pointer.insert_str(0, PLACE);
        }
    }
    operation
}
