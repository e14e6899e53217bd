//! Which Addons the API server accepts by the validation rules of the CRD. All tested requests are dry runs.

use bellwether_testkit::{Answer, Cluster};
use serde_json::{Value, json};

use crate::fixture::merged;

const ADDONS: &str = "/apis/addons.managed.openshift.io/v1alpha1/addons";

/// A description, a merge patch on a valid Addon, and the expected error message if the result is invalid.
type Row = (&'static str, Value, Option<&'static str>);

const INSTALL_IMMUTABLE: &str = ".spec.install is immutable, except for catalogSourceImage, channel, config, pullSecretName and additionalCatalogSources";

fn olm() -> Value {
    json!({"namespace": "ns", "catalogSourceImage": "image", "channel": "alpha", "packageName": "package"})
}

fn addon(name: &str) -> Value {
    json!({
        "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "Addon", "metadata": {"name": name},
        "spec": {"displayName": "X", "install": {"type": "OLMOwnNamespace", "olmOwnNamespace": olm()}},
    })
}

fn own(patch: Value) -> Value {
    json!({"spec": {"install": {"olmOwnNamespace": patch}}})
}

fn install(install: Value) -> Value {
    json!({"spec": {"install": install}})
}

fn propagated(block: &str, pull_secret: &str, destinations: &[&str]) -> Value {
    let secrets: Vec<Value> = destinations
        .iter()
        .map(|name| json!({"sourceSecret": {"name": "source"}, "destinationSecret": {"name": name}}))
        .collect();
    json!({"spec": {
        "install": {block: {"pullSecretName": pull_secret}},
        "secretPropagation": {"secrets": secrets},
    }})
}

fn rows_of_new_addons() -> Vec<Row> {
    let all = json!({"type": "OLMAllNamespaces", "olmOwnNamespace": null, "olmAllNamespaces": olm()});
    let external = json!({"type": "External", "olmOwnNamespace": null, "external": {"namespace": "ns"}});
    let mut everything = own(json!({
        "pullSecretName": "pull", "config": {"env": [{"name": "a", "value": "b"}]},
        "additionalCatalogSources": [{"name": "more", "image": "image"}],
    }));
    let more = json!({
        "version": "1.0.0", "pause": false, "correlationID": "x", "deleteAckRequired": true, "installAckRequired": true,
        "namespaces": [{"name": "ns", "labels": {"a": "b"}, "annotations": {"c": "d"}}],
        "commonLabels": {"a": "b"}, "commonAnnotations": {"c": "d"}, "upgradePolicy": {"id": "1"},
        "monitoring": {
            "federation": {"namespace": "ns", "portName": "http", "matchNames": ["up"], "matchLabels": {"a": "b"}},
            "monitoringStack": {"rhobsRemoteWriteConfig": {
                "url": "http://x", "oauth2": {"clientId": {"secret": {"key": "k"}}}, "allowlist": ["up"],
            }},
        },
        "secretPropagation": {"secrets": [
            {"sourceSecret": {"name": "a"}, "destinationSecret": {"name": "pull"}},
            {"sourceSecret": {}, "destinationSecret": {}},
        ]},
        "packageOperator": {"image": "image"},
    });
    everything["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    vec![
        ("only the required fields", json!({}), None),
        ("all fields", everything, None),
        ("OLMAllNamespaces", install(all), None),
        ("External", install(external), None),
        (
            "unset fields as Go clients send them",
            own(json!({"pullSecretName": "", "additionalCatalogSources": null})),
            None,
        ),
        ("no spec", json!({"spec": null}), Some("spec: Required value")),
        ("no displayName", json!({"spec": {"displayName": null}}), Some("spec.displayName: Required value")),
        ("empty displayName", json!({"spec": {"displayName": ""}}), Some("should be at least 1 chars long")),
        ("no install type", install(json!({"type": null})), Some("spec.install.type: Required value")),
        (
            "unknown install type",
            install(json!({"type": "random"})),
            Some("spec.install.type: Unsupported value"),
        ),
        (
            "empty namespace",
            own(json!({"namespace": ""})),
            Some("spec.install.olmOwnNamespace.namespace: Invalid value"),
        ),
        (
            "no packageName",
            own(json!({"packageName": null})),
            Some("spec.install.olmOwnNamespace.packageName: Required value"),
        ),
        (
            "the block of the install type is missing",
            install(json!({"olmOwnNamespace": null})),
            Some(".spec.install.olmOwnNamespace is required when .spec.install.type is OLMOwnNamespace"),
        ),
        (
            "the block belongs to another install type",
            install(json!({"type": "OLMAllNamespaces"})),
            Some(".spec.install.olmAllNamespaces is required when .spec.install.type is OLMAllNamespaces"),
        ),
        (
            "External without its block",
            install(json!({"type": "External", "olmOwnNamespace": null})),
            Some(".spec.install.external is required when .spec.install.type is External"),
        ),
        ("two OLM blocks", install(json!({"olmAllNamespaces": olm()})), Some("are mutually exclusive")),
        (
            "an OLM block and External",
            install(json!({"external": {"namespace": "ns"}})),
            Some("are mutually exclusive"),
        ),
        (
            "an additional catalog has the name of the Addon",
            own(
                json!({"additionalCatalogSources": [{"name": "a", "image": "i"}, {"name": "x", "image": "i"}]}),
            ),
            Some("no source may be named like the Addon"),
        ),
        ("pull secret without secretPropagation", own(json!({"pullSecretName": "pull"})), None),
        ("pull secret that is propagated", propagated("olmOwnNamespace", "pull", &["other", "pull"]), None),
        (
            "pull secret that is not propagated",
            propagated("olmOwnNamespace", "pull", &["other"]),
            Some(".spec.install.olmOwnNamespace.pullSecretName: not found as a destination"),
        ),
    ]
}

pub(crate) async fn new_addons_are_validated(cluster: &Cluster) {
    for (name, patch, error) in rows_of_new_addons() {
        let object = merged(addon("x"), &patch);
        let answer = cluster.post(format!("{ADDONS}?dryRun=All&fieldValidation=Strict"), &object).await;
        assert_validated(name, &answer, 201, error);
    }
}

pub(crate) async fn changes_of_addons_are_validated(cluster: &Cluster) {
    let (own_addon, external_addon) = ("validation-own", "validation-external");
    let mut external = addon(external_addon);
    external["spec"]["install"] = json!({"type": "External", "external": {"namespace": "ns"}});
    cluster.post(ADDONS, &addon(own_addon)).await.expect(201);
    cluster.post(ADDONS, &external).await.expect(201);
    let all = json!({"type": "OLMAllNamespaces", "olmOwnNamespace": null, "olmAllNamespaces": olm()});
    let rows: Vec<(&str, Row)> = vec![
        (own_addon, ("another channel", own(json!({"channel": "beta"})), None)),
        (own_addon, ("another catalog", own(json!({"catalogSourceImage": "other"})), None)),
        (
            own_addon,
            ("a configuration", own(json!({"config": {"env": [{"name": "a", "value": "b"}]}})), None),
        ),
        (own_addon, ("a pull secret", own(json!({"pullSecretName": "pull"})), None)),
        (
            own_addon,
            (
                "one more catalog",
                own(json!({"additionalCatalogSources": [{"name": "a", "image": "i"}]})),
                None,
            ),
        ),
        (own_addon, ("a pause", json!({"spec": {"pause": true}}), None)),
        (own_addon, ("another type", install(all), Some(".spec.install.type is immutable"))),
        (own_addon, ("another namespace", own(json!({"namespace": "other"})), Some(INSTALL_IMMUTABLE))),
        (own_addon, ("another package", own(json!({"packageName": "other"})), Some(INSTALL_IMMUTABLE))),
        (external_addon, ("labels", json!({"metadata": {"labels": {"a": "b"}}}), None)),
        (
            external_addon,
            (
                "another namespace",
                install(json!({"external": {"namespace": "other"}})),
                Some(".spec.install.external.namespace is immutable"),
            ),
        ),
    ];
    for (addon, (name, patch, error)) in rows {
        let answer = cluster.merge(format!("{ADDONS}/{addon}?dryRun=All"), &patch).await;
        assert_validated(name, &answer, 200, error);
    }
    for addon in [own_addon, external_addon] {
        cluster.delete(format!("{ADDONS}/{addon}")).await.expect(200);
    }
}

#[track_caller]
fn assert_validated(name: &str, answer: &Answer, success: u16, error: Option<&str>) {
    match error {
        None => assert_eq!(answer.status, success, "{name}: {}", answer.text()),
        Some(expected) => {
            assert_eq!(answer.status, 422, "{name}: {}", answer.text());
            assert!(answer.text().contains(expected), "{name}: {}", answer.text());
        }
    }
}
