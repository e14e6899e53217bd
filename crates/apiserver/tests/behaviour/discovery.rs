//! §1.3: discovery in both forms, version and health.

use base64::Engine as _;
use bellwether_testkit::{Call, Cluster};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::cases;
use super::difference::Difference;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

cases! { "discovery":
    the_version_has_numbers_that_clients_compare,
    the_core_root_lists_its_versions,
    the_groups_are_listed_and_each_answers_for_itself,
    the_resources_of_a_version_are_described_as_clients_expect,
    the_storage_version_hash_is_of_group_version_and_kind,
    aggregated_discovery_describes_the_same_resources,
    aggregated_discovery_is_not_sent_again_when_it_is_known,
    the_health_endpoints_say_ok_and_list_their_checks,
    a_single_check_can_be_asked_and_excluded,
}

async fn the_version_has_numbers_that_clients_compare(cluster: &Cluster) {
    let version = cluster.get("/version").await.expect(200);
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    for key in ["gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"] {
        assert!(version[key].is_string(), "{key}");
    }
    assert!(version["gitVersion"].as_str().unwrap().starts_with("v1.36."));
}

async fn the_core_root_lists_its_versions(cluster: &Cluster) {
    let root = cluster.get("/api").await.expect(200);
    assert_eq!((&root["kind"], &root["versions"]), (&json!("APIVersions"), &json!(["v1"])));
    let addresses = root["serverAddressByClientCIDRs"].as_array().unwrap().len();
    assert_eq!(addresses, Difference::NoServerAddress.expect(cluster, 1, 0));
}

async fn the_groups_are_listed_and_each_answers_for_itself(cluster: &Cluster) {
    for path in ["/apis", "/apis/"] {
        let groups = cluster.get(path).await.expect(200);
        assert_eq!(groups["kind"], "APIGroupList", "{path}");
        for group in ["coordination.k8s.io", "events.k8s.io"] {
            let listed = groups["groups"].as_array().unwrap();
            let row = listed.iter().find(|row| row["name"] == group).unwrap_or_else(|| panic!("{group}"));
            assert_eq!(row["preferredVersion"]["groupVersion"], format!("{group}/v1"));
            for path in [format!("/apis/{group}"), format!("/apis/{group}/")] {
                let alone = cluster.get(path).await.expect(200);
                assert_eq!((&alone["kind"], &alone["versions"]), (&json!("APIGroup"), &row["versions"]));
            }
        }
    }
}

/// What discovery says of the kinds that both servers have, without what else Kubernetes serves below them.
fn rows() -> Vec<(&'static str, Value)> {
    let all = json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]);
    let but_collections = json!(["create", "delete", "get", "list", "patch", "update", "watch"]);
    let row = |name: &str, singular: &str, namespaced: bool, kind: &str, verbs: &Value, short: Value| json!({"name": name, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": verbs, "shortNames": short});
    vec![
        ("/api/v1", row("configmaps", "configmap", true, "ConfigMap", &all, json!(["cm"]))),
        ("/api/v1", row("secrets", "secret", true, "Secret", &all, Value::Null)),
        ("/api/v1", row("events", "event", true, "Event", &all, json!(["ev"]))),
        ("/api/v1", row("namespaces", "namespace", false, "Namespace", &but_collections, json!(["ns"]))),
        ("/api/v1", row("serviceaccounts", "serviceaccount", true, "ServiceAccount", &all, json!(["sa"]))),
        ("/api/v1", row("services", "service", true, "Service", &all, json!(["svc"]))),
        (
            "/api/v1",
            row("namespaces/status", "", false, "Namespace", &json!(["get", "patch", "update"]), Value::Null),
        ),
        ("/api/v1", row("namespaces/finalize", "", false, "Namespace", &json!(["update"]), Value::Null)),
        (
            "/api/v1",
            row("services/status", "", true, "Service", &json!(["get", "patch", "update"]), Value::Null),
        ),
        ("/apis/coordination.k8s.io/v1", row("leases", "lease", true, "Lease", &all, Value::Null)),
        ("/apis/events.k8s.io/v1", row("events", "event", true, "Event", &all, json!(["ev"]))),
    ]
}

async fn described(cluster: &Cluster, path: &str, name: &str) -> Value {
    let list = cluster.get(path).await.expect(200);
    assert_eq!(list["kind"], "APIResourceList");
    let rows = list["resources"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{path} lacks {name}")).clone()
}

async fn the_resources_of_a_version_are_described_as_clients_expect(cluster: &Cluster) {
    for (path, expected) in rows() {
        let found = described(cluster, path, expected["name"].as_str().unwrap()).await;
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&found[key], value, "{path} {} {key}", expected["name"]);
        }
    }
    let services = described(cluster, "/api/v1", "services").await;
    assert_eq!(services["categories"], json!(["all"]));
}

async fn the_storage_version_hash_is_of_group_version_and_kind(cluster: &Cluster) {
    for (path, name, stored) in [
        ("/api/v1", "configmaps", "/v1/ConfigMap"),
        ("/apis/coordination.k8s.io/v1", "leases", "coordination.k8s.io/v1/Lease"),
        ("/apis/events.k8s.io/v1", "events", "/v1/Event"),
    ] {
        let hash = base64::engine::general_purpose::STANDARD.encode(&Sha256::digest(stored)[..8]);
        assert_eq!(described(cluster, path, name).await["storageVersionHash"], hash, "{name}");
    }
}

async fn aggregated_discovery_describes_the_same_resources(cluster: &Cluster) {
    for root in ["/api", "/apis"] {
        let answer = cluster.send(Call::get(root).accept(&format!("{AGGREGATED},application/json"))).await;
        let list = answer.expect(200);
        assert_eq!(answer.header("content-type"), AGGREGATED);
        assert!(answer.header("vary").to_lowercase().contains("accept"));
        assert_eq!(
            (&list["kind"], &list["apiVersion"]),
            (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2"))
        );
        for (path, row) in rows().into_iter().filter(|(path, _)| path.starts_with(&format!("{root}/"))) {
            let group = path.split('/').nth(2).filter(|_| root == "/apis").unwrap_or_default();
            let name = row["name"].as_str().unwrap();
            let (resource, subresource) = name.split_once('/').map_or((name, None), |(a, b)| (a, Some(b)));
            let items = list["items"].as_array().unwrap();
            let item = items
                .iter()
                .find(|item| item["metadata"]["name"].as_str().unwrap_or_default() == group)
                .unwrap_or_else(|| panic!("{group}"));
            let version = &item["versions"][0];
            assert_eq!((&version["version"], &version["freshness"]), (&json!("v1"), &json!("Current")));
            let resources = version["resources"].as_array().unwrap();
            let found = resources.iter().find(|found| found["resource"] == resource).unwrap();
            match subresource {
                None => {
                    let scope = if row["namespaced"] == true { "Namespaced" } else { "Cluster" };
                    assert_eq!(found["scope"], scope, "{name}");
                    assert_eq!(found["singularResource"], row["singularName"], "{name}");
                    assert_eq!(found["verbs"], row["verbs"], "{name}");
                    assert_eq!(found["shortNames"], row["shortNames"], "{name}");
                    assert_eq!(
                        found["responseKind"],
                        json!({"group": "", "version": "", "kind": row["kind"]}),
                        "{name}"
                    );
                }
                Some(subresource) => {
                    let subresources = found["subresources"].as_array().unwrap();
                    let sub = subresources.iter().find(|sub| sub["subresource"] == subresource).unwrap();
                    assert_eq!(sub["verbs"], row["verbs"], "{name}");
                }
            }
        }
    }
}

async fn aggregated_discovery_is_not_sent_again_when_it_is_known(cluster: &Cluster) {
    let call = Call::get("/apis").accept(AGGREGATED);
    let etag = cluster.send(call.clone()).await.header("etag").to_owned();
    assert!(etag.starts_with('"') && etag.len() > 10, "{etag}");
    let again = cluster.send(call.header("if-none-match", &etag)).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
}

async fn the_health_endpoints_say_ok_and_list_their_checks(cluster: &Cluster) {
    for endpoint in ["healthz", "livez", "readyz"] {
        let answer = cluster.get(format!("/{endpoint}")).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"), "{endpoint}");
        let verbose = cluster.get(format!("/{endpoint}?verbose")).await.text();
        assert!(verbose.contains("[+]ping ok\n"), "{verbose}");
        assert!(verbose.ends_with(&format!("{endpoint} check passed\n")), "{verbose}");
    }
}

async fn a_single_check_can_be_asked_and_excluded(cluster: &Cluster) {
    assert_eq!(cluster.get("/livez/ping").await.text(), "ok");
    assert_eq!(cluster.get("/livez/odd").await.status, 404);
    let verbose = cluster.get("/readyz?verbose&exclude=etcd").await.text();
    assert!(verbose.contains("[+]etcd excluded: ok\n"), "{verbose}");
}
