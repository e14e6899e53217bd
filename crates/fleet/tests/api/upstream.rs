//! Requests as upstream's Sentinel, adapters and tools send them, and the answers that they rely on.

use bellwether_fleet::kinds::BASE_PATH;
use serde_json::{Value, json};

use crate::harness::{Api, Setup, encode, every_store, on_both_stores, status};

fn href(resource: &Value) -> String {
    resource["href"].as_str().unwrap().to_owned()
}

on_both_stores! {
    async fn report_with_members_that_are_not_ours_is_accepted(api: Api) {
        let cluster = href(&api.cluster("abc").await);
        let condition = |type_: &str| json!({
            "type": type_, "status": "True", "reason": "Done", "message": "ok",
            "last_transition_time": "2026-05-01T00:00:00Z", "observed_generation": 1, "details": {"a": [1]},
        });
        let report = json!({
            "adapter": "validation",
            "observed_generation": 1,
            "observed_time": "2026-05-01T00:00:05Z",
            "conditions": [condition("Applied"), condition("Available"), condition("Health")],
            "data": {"namespace": {"name": "abc"}},
            "metadata": {"job_name": "validate", "attempt": 1, "framework_version": "1.2.0", "labels": {"a": "b"}},
            "adapter_version": "0.2.0",
        });
        let accepted = api.send("PUT", &format!("{cluster}/statuses"), Some(report)).await.expect(201).json();
        assert_eq!(accepted["metadata"], json!({"job_name": "validate", "attempt": 1}));
        assert_eq!(accepted["conditions"][1].get("details"), None);
        assert_eq!(status(&api.read(&cluster).await, "ValidationSuccessful"), "True");
    }

    async fn known_members_of_a_report_are_still_checked(api: Api) {
        let cluster = href(&api.cluster("abc").await);
        let report = json!({
            "adapter": "dns", "observed_generation": 1, "extra": 1, "metadata": {"attempt": "first"},
            "conditions": [{"type": "Available", "status": "Maybe", "extra": 1}],
        });
        let reply = api.send("PUT", &format!("{cluster}/statuses"), Some(report)).await;
        let problem = reply.expect_problem(400, "VAL-000", "must be True, False or Unknown");
        assert_eq!(problem["errors"].as_array().unwrap().len(), 2, "{problem}");
    }

    async fn empty_parameters_have_their_default_values(api: Api) {
        for name in ["abc", "abd"] {
            api.cluster(name).await;
        }
        let plain = api.get("/clusters").await.expect(200).json();
        assert_eq!(plain["total"], 2);
        for query in ["page=", "size=", "order=", "fields=", "search=", "page=&size=&order=&fields=&search="] {
            assert_eq!(api.get(&format!("/clusters?{query}")).await.expect(200).json(), plain, "{query}");
        }
        for query in ["order=name&order=", "order=&order=name,%20id", "order=name&fields=name&fields="] {
            assert_eq!(api.get(&format!("/clusters?{query}")).await.expect(200).names(), ["abc", "abd"], "{query}");
        }
    }

    async fn page_of_sentinel_is_listed(api: Api) {
        api.cluster_with("abc", json!({"region": "us-east", "shard": "1"}), json!({})).await;
        api.cluster_with("abd", json!({"region": "us-east"}), json!({})).await;
        let search = encode("labels.region='us-east' and labels.shard='1'");
        let list = api.get(&format!("/clusters?page=1&size=20&search={search}")).await.expect(200);
        assert_eq!(list.names(), ["abc"]);
        assert_eq!((&list.json()["page"], &list.json()["size"], &list.json()["total"]), (&json!(1), &json!(1), &json!(1)));
    }

    async fn trailing_slash_is_the_same_path(api: Api) {
        let cluster = api.cluster("abc").await;
        let path = href(&cluster);
        assert_eq!(api.read(&format!("{path}/")).await, cluster);
        assert_eq!(api.get("/clusters/").await.expect(200).names(), ["abc"]);
        api.report(&path, "dns", (1, 5), "True").await.expect(201);
        assert_eq!(api.get(&format!("{path}/statuses/")).await.expect(200).json()["total"], 1);
        assert_eq!(api.get("/api/hyperfleet/").await.expect(200).json()["id"], "hyperfleet");
        api.get(&format!("{path}//")).await.expect_problem(404, "NTF-000", "no endpoint");
    }

    async fn every_unknown_path_is_a_problem(api: Api) {
        for path in ["/api/hyperfleet/v2/clusters", "/api/hyperfleet/x", "/api/hyperfleet/v1", "/api/hyperfleet/v1/x/y/z"] {
            for method in ["GET", "POST", "PUT"] {
                let reply = api.send(method, path, None).await;
                assert_eq!(reply.expect_problem(404, "NTF-000", "no endpoint")["instance"], path);
            }
        }
    }

    async fn metadata_has_the_time_of_the_build(api: Api) {
        let metadata = api.get("/api/hyperfleet").await.expect(200).json();
        assert!(metadata["build_time"].is_string(), "{metadata}");
    }

    async fn statuses_are_ordered_on_request(api: Api) {
        let cluster = href(&api.cluster("abc").await);
        for (adapter, seconds) in [("dns", 7), ("validation", 5), ("hypershift", 6)] {
            api.report(&cluster, adapter, (1, seconds), "True").await.expect(201);
        }
        let rows = [
            ("", "dns hypershift validation"),
            ("order=", "dns hypershift validation"),
            ("order=adapter%20desc", "validation hypershift dns"),
            ("order=last_report_time", "validation hypershift dns"),
            ("order=observed_generation,created_time%20desc", "dns hypershift validation"),
            ("order=created_time&size=1&page=2", "hypershift"),
            ("search=adapter%3D%27dns%27", "dns hypershift validation"),
        ];
        for (query, expected) in rows {
            let list = api.get(&format!("{cluster}/statuses?{query}")).await.expect(200).json();
            let adapters: Vec<&str> = list["items"].as_array().unwrap().iter().map(|item| item["adapter"].as_str().unwrap()).collect();
            assert_eq!(adapters.join(" "), expected, "{query}");
            assert_eq!(list["total"], 3);
        }
        let unknown = api.get(&format!("{cluster}/statuses?order=name")).await;
        unknown.expect_problem(400, "VAL-005", "there are adapter, observed_generation");
    }

    async fn quote_in_a_search_may_follow_a_backslash(api: Api) {
        api.cluster_with("abc", json!({}), json!({"owner": "o'brien"})).await;
        for search in [r"spec.owner = 'o\'brien'", "spec.owner = 'o''brien'", r#"spec.owner = "o'brien""#] {
            assert_eq!(api.search(search).await.unwrap(), ["abc"], "{search}");
        }
        assert!(api.search(r"spec.owner = 'o\'").await.is_err());
    }

    async fn conflicts_have_one_problem_type(api: Api) {
        let cluster = api.cluster("abc").await;
        let again = json!({"kind": "Cluster", "name": "abc", "spec": {}});
        let exists = api.send("POST", "/clusters", Some(again)).await.expect_problem(409, "CNF-001", "already exists");
        let force = json!({"reason": "test"});
        let path = format!("{}/force-delete", href(&cluster));
        let state = api.send("POST", &path, Some(force)).await.expect_problem(409, "CNF-003", "not in Finalizing state");
        for problem in [exists, state] {
            assert_eq!(problem["type"], "https://api.hyperfleet.io/errors/conflict");
        }
    }
}

/// One API on each of the stores.
async fn apis(setup: impl Fn() -> Setup) -> Vec<Api> {
    let mut apis = Vec::new();
    for store in every_store().await {
        apis.push(Api::start_with(store, setup()).await);
    }
    apis
}

#[tokio::test]
async fn sentinel_of_upstream_finds_its_condition_beside_ours() {
    let vocabulary = bellwether_fleet::vocabulary::Vocabulary::Both;
    for api in apis(|| Setup { vocabulary, ..Setup::requiring(&["dns"]) }).await {
        let cluster = api.cluster("abc").await;
        for type_ in ["Ready", "Reconciled", "Available", "LastKnownReconciled"] {
            assert_eq!(status(&cluster, type_), "False", "{type_}");
        }
        api.report(&href(&cluster), "dns", (1, 5), "True").await.expect(201);
        let read = api.read(&href(&cluster)).await;
        for type_ in ["Ready", "Reconciled", "Available", "LastKnownReconciled"] {
            assert_eq!(status(&read, type_), "True", "{type_}");
        }
    }
}

/// The requests of upstream's Sentinel, of its adapters and of a user, in the order in which they are sent for one cluster.
#[tokio::test]
async fn exchange_of_upstreams_programs_is_answered() {
    let steps: Vec<Value> = serde_json::from_str(include_str!("../data/upstream_exchange.json")).unwrap();
    for api in apis(|| Setup::requiring(&["validation"])).await {
        let mut ids: Vec<(String, String)> = Vec::new();
        for step in &steps {
            let text = |field: &str| step[field].as_str().unwrap_or_default();
            let mut path = format!("{BASE_PATH}{}", text("path"));
            for (name, id) in &ids {
                path = path.replace(name, id);
            }
            let reply = api.send(text("method"), &path, step.get("body").cloned()).await;
            assert_eq!(
                u64::from(reply.status()),
                step["status"].as_u64().unwrap(),
                "{}: {}",
                text("who"),
                reply.text()
            );
            for (pointer, expected) in step["expect"].as_object().into_iter().flatten() {
                assert_eq!(
                    reply.json().pointer(pointer),
                    Some(expected),
                    "{}: {pointer}: {}",
                    text("who"),
                    reply.text()
                );
            }
            if let Some(name) = step["remember"].as_str() {
                let id = reply.json()["id"].as_str().unwrap().to_owned();
                ids.push((format!("{{{name}}}"), id));
            }
        }
    }
}
