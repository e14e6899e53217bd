//! Objects that violate their schema, in a cluster whose CRDs accept any object.

use bellwether_testkit::{Cluster, embedded, on_paused_time};
use serde_json::{Value, json};

use crate::fixture::{Case, GROUP, start_controller, unique_name};

/// A cluster with our CRDs, but without their schemas.
async fn without_schemas() -> Cluster {
    let cluster = embedded::in_process().await;
    let definitions = bellwether_api::crds().into_iter().map(|definition| {
        let mut definition = serde_json::to_value(definition.crd).unwrap();
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        definition
    });
    cluster.install_crds(definitions).await;
    cluster
}

#[test]
fn malformed_objects_do_not_affect_other_addons() {
    on_paused_time(async {
        let cluster = without_schemas().await;
        for spec in [json!({"install": 7}), json!("nothing"), Value::Null, json!({"namespaces": {"a": []}})] {
            let malformed =
                Case { cluster: &cluster, name: unique_name("malformed"), namespace: "default".into() };
            malformed.post(json!({"name": malformed.name}), spec).await;
        }
        for (name, spec, status) in [
            ("one", json!(7), json!([])),
            ("two", json!({"heartbeatUpdatePeriod": 10}), json!({"conditions": {"a": 1}})),
        ] {
            let instance = json!({
                "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonInstance",
                "metadata": {"name": name}, "spec": spec,
            });
            let path = format!("{GROUP}/namespaces/default/addoninstances");
            cluster.post(&path, &instance).await.expect(201);
            cluster.merge(format!("{path}/{name}/status"), &json!({"status": status})).await.expect(200);
        }

        let _controller = start_controller(&cluster);
        let valid = Case::create(&cluster, json!({})).await;
        valid.wait_until_ready().await;
        let addons = cluster.get(format!("{GROUP}/addons")).await.expect(200);
        let names = addons["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|addon| addon["metadata"]["name"].as_str().unwrap());
        for name in names.filter(|name| name.starts_with("malformed")) {
            let malformed = Case { cluster: &cluster, name: name.to_owned(), namespace: "default".into() };
            malformed.wait_for_condition("Available", "False", "ConfigurationError").await;
            assert_eq!(malformed.read().await["status"]["phase"], "Error");
        }

        let before = valid.instance().await["metadata"]["uid"].clone();
        cluster.delete(valid.instance_path()).await.expect(200);
        valid.wait_for_instance("is a new object", |instance| instance["metadata"]["uid"] != before).await;
    });
}

#[test]
fn malformed_instance_is_repaired() {
    on_paused_time(async {
        let cluster = without_schemas().await;
        let _controller = start_controller(&cluster);
        let case = Case::create(&cluster, json!({})).await;
        case.wait_until_ready().await;
        let malformed = json!({"spec": {"heartbeatUpdatePeriod": 10, "markedForDeletion": "yes"}});
        cluster.merge(case.instance_path(), &malformed).await.expect(200);
        case.wait_for_instance("has the default period", |found| {
            found["spec"]["heartbeatUpdatePeriod"] == "10s"
        })
        .await;
        cluster.merge(format!("{}/status", case.path()), &json!({"status": 7})).await;
        case.wait_until_ready().await;
    });
}

#[test]
fn deleted_crd_of_instances_is_reported_in_available() {
    on_paused_time(async {
        let cluster = without_schemas().await;
        let controller = start_controller(&cluster);
        let case = Case::create(&cluster, json!({})).await;
        case.wait_until_ready().await;
        let definition = "addoninstances.addons.managed.openshift.io";
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}");
        cluster.delete(path).await.expect(200);
        let available = case.wait_for_condition("Available", "False", "AddonInstanceNotInstalled").await;
        let message = available["message"].as_str().unwrap();
        assert!(message.contains("cannot be created"), "{message}");
        drop(controller);
        let _controller = start_controller(&cluster);
        let case = Case::create(&cluster, json!({})).await;
        case.wait_for_condition("Available", "False", "AddonInstanceNotInstalled").await;
    });
}
