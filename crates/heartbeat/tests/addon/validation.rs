//! Which Addons the API server takes. Nothing is created: every request is a dry run, or is refused.

use bellwether_testkit::{Answer, Cluster};
use serde_json::{Value, json};

use crate::fixture::merged;

const ADDONS: &str = "/apis/addons.managed.openshift.io/v1alpha1/addons";

/// A merge patch on an Addon that is fine, and the words of the refusal if it is none any more.
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
        ("the least there must be", json!({}), None),
        ("all there can be", everything, None),
        ("for all namespaces", install(all), None),
        ("by somebody else", install(external), None),
        (
            "what Go sends for what is unset",
            own(json!({"pullSecretName": "", "additionalCatalogSources": null})),
            None,
        ),
        ("without a spec", json!({"spec": null}), Some("spec: Required value")),
        (
            "without a name for people",
            json!({"spec": {"displayName": null}}),
            Some("spec.displayName: Required value"),
        ),
        ("with an empty one", json!({"spec": {"displayName": ""}}), Some("should be at least 1 chars long")),
        ("without a type", install(json!({"type": null})), Some("spec.install.type: Required value")),
        (
            "of an unknown type",
            install(json!({"type": "random"})),
            Some("spec.install.type: Unsupported value"),
        ),
        (
            "in no namespace",
            own(json!({"namespace": ""})),
            Some("spec.install.olmOwnNamespace.namespace: Invalid value"),
        ),
        (
            "of no package",
            own(json!({"packageName": null})),
            Some("spec.install.olmOwnNamespace.packageName: Required value"),
        ),
        (
            "the block of the type is missing",
            install(json!({"olmOwnNamespace": null})),
            Some(".spec.install.olmOwnNamespace is required when .spec.install.type is OLMOwnNamespace"),
        ),
        (
            "the block is that of another type",
            install(json!({"type": "OLMAllNamespaces"})),
            Some(".spec.install.olmAllNamespaces is required when .spec.install.type is OLMAllNamespaces"),
        ),
        (
            "nothing is said of an installation by somebody else",
            install(json!({"type": "External", "olmOwnNamespace": null})),
            Some(".spec.install.external is required when .spec.install.type is External"),
        ),
        ("two blocks", install(json!({"olmAllNamespaces": olm()})), Some("are mutually exclusive")),
        (
            "two blocks of other kinds",
            install(json!({"external": {"namespace": "ns"}})),
            Some("are mutually exclusive"),
        ),
        (
            "another catalog is named like the Addon",
            own(
                json!({"additionalCatalogSources": [{"name": "a", "image": "i"}, {"name": "x", "image": "i"}]}),
            ),
            Some("no source may be named like the Addon"),
        ),
        ("a pull secret with nothing propagated", own(json!({"pullSecretName": "pull"})), None),
        ("a pull secret that is propagated", propagated("olmOwnNamespace", "pull", &["other", "pull"]), None),
        (
            "a pull secret that is not",
            propagated("olmOwnNamespace", "pull", &["other"]),
            Some(".spec.install.olmOwnNamespace.pullSecretName: not found as a destination"),
        ),
    ]
}

pub(crate) async fn every_new_addon_is_judged_by_the_rules(cluster: &Cluster) {
    for (name, patch, refusal) in rows_of_new_addons() {
        let object = merged(addon("x"), &patch);
        let answer = cluster.post(format!("{ADDONS}?dryRun=All&fieldValidation=Strict"), &object).await;
        assert_judged(name, &answer, 201, refusal);
    }
}

pub(crate) async fn every_change_of_an_addon_is_judged_by_the_rules(cluster: &Cluster) {
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
    for (addon, (name, patch, refusal)) in rows {
        let answer = cluster.merge(format!("{ADDONS}/{addon}?dryRun=All"), &patch).await;
        assert_judged(name, &answer, 200, refusal);
    }
    for addon in [own_addon, external_addon] {
        cluster.delete(format!("{ADDONS}/{addon}")).await.expect(200);
    }
}

#[track_caller]
fn assert_judged(name: &str, answer: &Answer, fine: u16, refusal: Option<&str>) {
    match refusal {
        None => assert_eq!(answer.status, fine, "{name}: {}", answer.text()),
        Some(words) => {
            assert_eq!(answer.status, 422, "{name}: {}", answer.text());
            assert!(answer.text().contains(words), "{name}: {}", answer.text());
        }
    }
}
