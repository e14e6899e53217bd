//! §1.5: what a client sends, and the form it wants back.

use bellwether_testkit::{Call, Cluster};
use serde_json::{Value, json};

use super::{cases, config_map, config_maps, revision};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

cases! { "negotiation":
    yaml_goes_in_and_comes_out,
    a_list_as_a_table_has_columns_cells_and_metadata_of_each_object,
    a_table_carries_as_much_of_the_object_as_is_asked_for,
    tables_of_every_kind_have_kubectls_columns,
    metadata_alone_is_served_for_get_list_and_patch,
    metadata_of_the_wrong_number_is_not_acceptable,
    the_first_media_type_that_can_be_served_wins,
    the_old_version_of_table_is_served_too,
    items_of_a_list_leave_out_their_kind,
}

async fn yaml_goes_in_and_comes_out(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let yaml = "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: from-yaml\ndata:\n  a: 'true'\n";
    let call = Call::new(http::Method::POST, config_maps(&namespace)).body("application/yaml", yaml);
    let answer = cluster.send(call.accept("application/yaml")).await;
    assert_eq!((answer.status, answer.header("content-type")), (201, "application/yaml"));
    assert!(answer.text().contains("name: from-yaml\n"), "{}", answer.text());
    let stored = cluster.get(format!("{}/from-yaml", config_maps(&namespace))).await.expect(200);
    assert_eq!(stored["data"], json!({"a": "true"}));
}

async fn a_list_as_a_table_has_columns_cells_and_metadata_of_each_object(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let created = cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    let answer = cluster.send(Call::get(config_maps(&namespace)).accept(TABLE)).await;
    let table = answer.expect(200);
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert!(revision(&table) >= revision(&created));
    let columns: Vec<&Value> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    assert_eq!(columns, ["Name", "Data", "Age"]);
    let row = table["rows"].as_array().unwrap().iter().find(|row| row["cells"][0] == "a").unwrap();
    assert_eq!(row["cells"][1], 1);
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(row["object"]["metadata"]["uid"], created["metadata"]["uid"]);
}

async fn a_table_carries_as_much_of_the_object_as_is_asked_for(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    let row = async |include: &str| {
        let path = format!("{}/a?includeObject={include}", config_maps(&namespace));
        cluster.send(Call::get(path).accept(TABLE)).await.expect(200)["rows"][0]["object"].clone()
    };
    assert_eq!(row("None").await, Value::Null);
    assert_eq!(row("Metadata").await["kind"], "PartialObjectMetadata");
    assert_eq!(row("Object").await["data"], json!({"key": "value"}));
    let odd = Call::get(format!("{}/a?includeObject=Odd", config_maps(&namespace))).accept(TABLE);
    cluster
        .send(odd)
        .await
        .expect_failure(400, "BadRequest")
        .assert_message("must be 'Metadata', 'Object', 'None', or empty");
}

async fn tables_of_every_kind_have_kubectls_columns(cluster: &Cluster) {
    for (path, shown, wide) in [
        ("/api/v1/namespaces", vec!["Name", "Status", "Age"], vec![]),
        ("/api/v1/secrets", vec!["Name", "Type", "Data", "Age"], vec![]),
        ("/api/v1/serviceaccounts", vec!["Name", "Age"], vec![]),
        (
            "/api/v1/services",
            vec!["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age"],
            vec!["Selector"],
        ),
        ("/apis/coordination.k8s.io/v1/leases", vec!["Name", "Holder", "Age"], vec![]),
        (
            "/api/v1/events",
            vec!["Last Seen", "Type", "Reason", "Object", "Message"],
            vec!["Subobject", "Source", "First Seen", "Count", "Name"],
        ),
    ] {
        let table = cluster.send(Call::get(path).accept(TABLE)).await.expect(200);
        let of = |priority: i64| -> Vec<&str> {
            let columns = table["columnDefinitions"].as_array().unwrap();
            columns
                .iter()
                .filter(|column| column["priority"] == priority)
                .map(|column| column["name"].as_str().unwrap())
                .collect()
        };
        assert_eq!((of(0), of(1)), (shown, wide), "{path}");
    }
}

async fn metadata_alone_is_served_for_get_list_and_patch(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    let at = format!("{}/a", config_maps(&namespace));
    let patch = Call::merge(&at, &json!({"metadata": {"labels": {"a": "b"}}}));
    for call in [patch, Call::get(&at)] {
        let partial = cluster.send(call.accept(PARTIAL)).await.expect(200);
        assert_eq!(partial["kind"], "PartialObjectMetadata");
        assert_eq!(partial["metadata"]["labels"], json!({"a": "b"}));
        assert!(partial["data"].is_null());
    }
    let list = cluster.send(Call::get(config_maps(&namespace)).accept(PARTIAL_LIST)).await.expect(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert!(list["items"].as_array().unwrap().iter().all(|item| item["data"].is_null()));
}

async fn metadata_of_the_wrong_number_is_not_acceptable(cluster: &Cluster) {
    let one = Call::get("/api/v1/namespaces/default").accept(PARTIAL_LIST);
    cluster.send(one).await.expect_failure(406, "NotAcceptable").assert_message("is not a list");
    let many = Call::get("/api/v1/namespaces").accept(PARTIAL);
    cluster.send(many).await.expect_failure(406, "NotAcceptable").assert_message("is a list");
}

async fn the_first_media_type_that_can_be_served_wins(cluster: &Cluster) {
    for (accept, kind) in [
        (format!("{TABLE},application/json"), "Table"),
        (format!("application/json;as=Odd;v=v1;g=meta.k8s.io,{TABLE}"), "Table"),
        ("application/json;q=0.9,*/*;q=0.1".to_owned(), "Namespace"),
        ("*/*".to_owned(), "Namespace"),
    ] {
        let answer = cluster.send(Call::get("/api/v1/namespaces/default").accept(&accept)).await;
        assert_eq!(answer.expect(200)["kind"], kind, "{accept}");
    }
}

async fn the_old_version_of_table_is_served_too(cluster: &Cluster) {
    let accept = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
    let table = cluster.send(Call::get("/api/v1/namespaces/default").accept(accept)).await.expect(200);
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1beta1")));
}

async fn items_of_a_list_leave_out_their_kind(cluster: &Cluster) {
    let list = cluster.get("/api/v1/namespaces").await.expect(200);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("NamespaceList"), &json!("v1")));
    for item in list["items"].as_array().unwrap() {
        assert!(item["kind"].is_null() && item["apiVersion"].is_null(), "{item}");
    }
}
