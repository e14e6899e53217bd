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

    async fn spec_with_more_values_than_are_indexed_is_found(api: Api) {
        let values = |count: usize| -> Value {
            (0..count).map(|number| (format!("v{number}"), number.into())).collect::<serde_json::Map<_, _>>().into()
        };
        api.cluster_with("small", serde_json::json!({}), values(3)).await;
        assert_eq!(api.search("spec.v2 = 2").await.unwrap(), ["small"]);
        let large = api.cluster_with("large", serde_json::json!({}), values(200)).await;
        for number in [0, 2, 63, 64, 150, 199] {
            let expected: &[&str] = if number < 3 { &["large", "small"] } else { &["large"] };
            assert_eq!(api.search(&format!("spec.v{number} = {number}")).await.unwrap(), expected, "v{number}");
            assert_eq!(api.search(&format!("spec.v{number} = 1000")).await.unwrap(), [""; 0], "v{number}");
        }
        let large = large["href"].as_str().unwrap();
        api.send("DELETE", large, None).await.expect(202);
        let reason = serde_json::json!({"reason": "the end of the test"});
        api.send("POST", &format!("{large}/force-delete"), Some(reason)).await.expect(204);
        assert_eq!(api.search("spec.v150 = 150").await.unwrap(), [""; 0]);
        assert_eq!(api.search("spec.v2 = 2").await.unwrap(), ["small"]);
    }
}
