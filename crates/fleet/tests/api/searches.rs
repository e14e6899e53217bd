//! Searches, over HTTP: the rows that every store has to answer alike.

use serde_json::Value;

use crate::harness::{Api, on_both_stores};

fn rows() -> Value {
    serde_json::from_str(include_str!("../data/search.json")).unwrap()
}

on_both_stores! {
    async fn every_search_finds_what_it_says(api: Api) {
        let rows = rows();
        for resource in rows["resources"].as_array().unwrap() {
            if resource["kind"] == "Cluster" {
                let labels = resource.get("labels").cloned().unwrap_or_else(|| serde_json::json!({}));
                api.cluster_with(resource["name"].as_str().unwrap(), labels, resource["spec"].clone()).await;
            }
        }
        let mut wrong = Vec::new();
        for row in rows["searches"].as_array().unwrap() {
            let mut expected: Vec<&str> =
                row["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
            expected.sort_unstable();
            let found = api.search(row["search"].as_str().unwrap()).await;
            if !found.as_ref().is_ok_and(|found| *found == expected) {
                wrong.push(format!("{}: {found:?} instead of {expected:?}", row["search"]));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
