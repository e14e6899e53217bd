//! Options of list, watch and delete, and selectors.

use serde_json::{Value, json};

use crate::behaviour::difference::Difference;

use super::{Step, delete, get, inside, object, post};

fn delete_with(path: &str, options: &Value) -> Step {
    Step::from(bellwether_testkit::Call::delete(inside(path)).json(options))
}

pub(super) fn steps() -> Vec<Step> {
    [lists(), deletes()].into_iter().flatten().collect()
}

fn lists() -> Vec<Step> {
    let maps = |query: &str| get(inside(&format!("configmaps?{query}")));
    let labels = |selector: &str| maps(&format!("labelSelector={selector}"));
    let fields = |selector: &str| maps(&format!("fieldSelector={selector}"));
    vec![
        maps("limit=many"),
        maps("limit=-1"),
        maps("limit=2"),
        maps("continue=odd").unlike(Difference::ParserWords),
        maps("continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJ4In0"),
        maps("continue=eyJ2Ijoib2RkIiwicnYiOjEsInN0YXJ0IjoieCJ9"),
        maps("continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi94In0"),
        maps("resourceVersion=abc"),
        maps("resourceVersion=-1"),
        maps("resourceVersionMatch=Exact"),
        maps("resourceVersion=0&resourceVersionMatch=Exact"),
        maps("resourceVersion=1&resourceVersionMatch=Odd"),
        maps("sendInitialEvents=true"),
        maps("timeoutSeconds=x"),
        maps("watch=true&timeoutSeconds=1&resourceVersion=abc").unlike(Difference::ClientMistakes),
        maps("watch=true&timeoutSeconds=1&resourceVersionMatch=NotOlderThan"),
        maps("watch=true&timeoutSeconds=1&sendInitialEvents=true"),
        maps("watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=Exact"),
        maps("watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
        maps("watch=true&timeoutSeconds=1&labelSelector=%21%21"),
        maps("watch=true&timeoutSeconds=1&fieldSelector=odd"),
        maps("limit=1").accept("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
        maps("limit=1").accept("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
        labels("good"),
        labels("good%3Dyes"),
        labels("good+in+(yes,no)"),
        labels("%21good,good%3Dno"),
        labels("a+in"),
        labels("a+in+()"),
        labels("a%3Db,"),
        labels(",a"),
        labels("%3Db"),
        labels("a%3D-b"),
        labels("-a"),
        labels("a+b"),
        labels("a%3Eb"),
        labels("a+exists"),
        fields("metadata.name%3Dlabels"),
        fields("metadata.name%21%3Dlabels,metadata.name%3Dlabels"),
        fields("metadata.name"),
        fields("data.x%3Dy"),
        fields("metadata.name%3Da%3Db"),
        fields("metadata.name%3Da%5Cx"),
        get(inside("configmaps/labels?resourceVersion=abc")).unlike(Difference::ClientMistakes),
        get(inside("configmaps/labels?resourceVersion=0")),
    ]
}

fn deletes() -> Vec<Step> {
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    vec![
        post(inside("configmaps"), object("ConfigMap", "doomed", json!({}))),
        delete(inside("configmaps/doomed?propagationPolicy=Odd")),
        delete(inside("configmaps/doomed?dryRun=Odd")),
        delete(inside("configmaps/doomed?gracePeriodSeconds=x")),
        delete(inside("configmaps/doomed?dryRun=All")),
        delete_with("configmaps/doomed", &json!({"propagationPolicy": "Odd"})),
        delete_with("configmaps/doomed", &json!({"propagationPolicy": "Orphan", "orphanDependents": true})),
        delete_with(
            "configmaps/doomed",
            &json!({"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}}),
        ),
        delete_with("configmaps/doomed", &json!({"preconditions": {"resourceVersion": "1"}})),
        delete_with("configmaps/doomed", &json!({"kind": "ConfigMap", "apiVersion": "v1"})),
        delete_with("configmaps/doomed", &json!({"kind": "DeleteOptions", "apiVersion": "odd/v1"})),
        delete_with("configmaps/doomed", &json!({"gracePeriodSeconds": "x"})),
        delete_with("configmaps/doomed", &json!([])).unlike(Difference::ParserWords),
        delete_with(
            "configmaps/doomed",
            &json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}),
        ),
        delete_with("configmaps/doomed", &json!({"kind": "DeleteOptions", "apiVersion": "apps/v1"})),
        post(inside("configmaps"), object("ConfigMap", "held", held.clone())),
        delete(inside("configmaps/held")),
        delete(inside("configmaps/held")),
        super::merge(
            inside("configmaps/held"),
            json!({"metadata": {"finalizers": ["example.com/hold", "example.com/new"]}}),
        ),
        super::merge(inside("configmaps/held"), json!({"metadata": {"deletionTimestamp": null}})),
        super::merge(inside("configmaps/held"), json!({"data": {"still": "here"}})),
        super::merge(inside("configmaps/held"), json!({"metadata": {"finalizers": null}})),
        get(inside("configmaps/held")),
        post(inside("configmaps"), object("ConfigMap", "held-2", held)),
        delete_with("configmaps/held-2", &json!({"orphanDependents": false})),
        super::merge(inside("configmaps/held-2"), json!({"metadata": {"finalizers": null}})),
        delete(inside("secrets?labelSelector=odd%3Done")),
        delete(inside("configmaps?labelSelector=good%3Dyes")),
        delete(inside("configmaps?limit=x")),
    ]
}
