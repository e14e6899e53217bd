//! Objects that are not as their types say, in a cluster whose definitions let everything pass.

use bellwether_testkit::{Cluster, embedded, on_paused_time};
use serde_json::{Value, json};

use crate::fixture::{Case, GROUP, control, unique};

/// A cluster where our kinds have no schema.
async fn without_schemas() -> Cluster {
    let cluster = embedded::in_process().await;
    let definitions = bellwether_api::crds().into_iter().map(|definition| {
        let mut definition = serde_json::to_value(definition.crd).unwrap();
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        definition
    });
    cluster.install_definitions(definitions).await;
    cluster
}

#[test]
fn one_strange_object_concerns_nobody_else() {
    on_paused_time(async {
        let cluster = without_schemas().await;
        for spec in [json!({"install": 7}), json!("nothing"), Value::Null, json!({"namespaces": {"a": []}})] {
            let strange = Case { cluster: &cluster, name: unique("strange"), namespace: "default".into() };
            strange.post(json!({"name": strange.name}), spec).await;
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

        let _controller = control(&cluster);
        let sound = Case::create(&cluster, json!({})).await;
        sound.until_ready().await;
        let addons = cluster.get(format!("{GROUP}/addons")).await.expect(200);
        let names = addons["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|addon| addon["metadata"]["name"].as_str().unwrap());
        for name in names.filter(|name| name.starts_with("strange")) {
            let strange = Case { cluster: &cluster, name: name.to_owned(), namespace: "default".into() };
            strange.until_condition("Available", "False", "ConfigurationError").await;
            assert_eq!(strange.read().await["status"]["phase"], "Error");
        }

        let before = sound.instance().await["metadata"]["uid"].clone();
        cluster.delete(sound.instance_path()).await.expect(200);
        sound.instance_until("is another", |instance| instance["metadata"]["uid"] != before).await;
    });
}

#[test]
fn an_instance_that_makes_no_sense_is_set_right() {
    on_paused_time(async {
        let cluster = without_schemas().await;
        let _controller = control(&cluster);
        let case = Case::create(&cluster, json!({})).await;
        case.until_ready().await;
        let nonsense = json!({"spec": {"heartbeatUpdatePeriod": 10, "markedForDeletion": "yes"}});
        cluster.merge(case.instance_path(), &nonsense).await.expect(200);
        case.instance_until("has a period", |found| found["spec"]["heartbeatUpdatePeriod"] == "10s").await;
        cluster.merge(format!("{}/status", case.path()), &json!({"status": 7})).await;
        case.until_ready().await;
    });
}

#[test]
fn an_addon_says_so_when_nobody_serves_its_instance_any_more() {
    on_paused_time(async {
        let cluster = without_schemas().await;
        let _controller = control(&cluster);
        let case = Case::create(&cluster, json!({})).await;
        case.until_ready().await;
        let definition = "addoninstances.addons.managed.openshift.io";
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}");
        cluster.delete(path).await.expect(200);
        let available = case.until_condition("Available", "False", "AddonInstanceNotInstalled").await;
        let message = available["message"].as_str().unwrap();
        assert!(message.contains("cannot be created"), "{message}");
    });
}
