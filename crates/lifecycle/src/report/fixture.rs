//! A hub cache of the add-on `hello` with versions v1 to v3, for tests of this module.

use bellwether_api::addon::vocabulary::INSTALLED_BY;
use serde_json::{Value, json};

use crate::hub::HubCache;

pub(super) const ADDON: &str = "hello";

/// A cache in which each placement selects the given clusters, or its selection is unknown. It is planned.
pub(super) fn cache(placements: &[(Value, Option<&[&str]>)], addons: &[Value]) -> HubCache {
    let mut cache = HubCache::default();
    for version in ["v1", "v2", "v3"] {
        let template = json!({"metadata": {"name": format!("hello-{version}")},
            "spec": {"addonName": ADDON, "version": version, "agentSpec": {"workload": {"manifests": []}}}});
        cache.apply_template(serde_json::from_value(template).unwrap());
    }
    let mut requested = Vec::new();
    for (placement, clusters) in placements {
        let mut placement = placement.clone();
        placement["namespace"] = json!("default");
        select(&mut cache, placement["name"].as_str().unwrap(), *clusters);
        requested.push(placement);
    }
    for addon in addons {
        let mut addon = addon.clone();
        let version = addon["status"]["installVersion"].as_str().unwrap_or_default().to_owned();
        if let Some(template) = cache.template(&format!("hello-{version}")) {
            addon["status"]["configReferences"] = json!([{"group": "addon.open-cluster-management.io",
                "resource": "addontemplates", "desiredConfig": {"name": format!("hello-{version}"), "specHash": template.hash}}]);
        }
        let cluster =
            json!({"metadata": {"name": addon["metadata"]["namespace"]}, "spec": {"hubAcceptsClient": true}});
        cache.apply_cluster(&serde_json::from_value(cluster).unwrap());
        cache.apply_addon(serde_json::from_value(addon).unwrap());
    }
    let management = json!({"metadata": {"name": ADDON}, "spec": {"defaultVersion": "v2",
        "installStrategy": {"type": "Placements", "placements": requested}}});
    cache.apply_management(serde_json::from_value(management).unwrap());
    plan(&mut cache);
    cache
}

/// Plans the rollouts five minutes after everything happened.
pub(super) fn plan(cache: &mut HubCache) {
    cache.plan(ADDON, "2024-05-01T10:05:00Z".parse().unwrap());
}

/// Lets a placement select clusters, all in one decision group.
pub(super) fn select(cache: &mut HubCache, placement: &str, clusters: Option<&[&str]>) {
    let slice = format!("{placement}-decision-1");
    let decided = |clusters: &[&str]| {
        json!({
            "numberOfSelectedClusters": clusters.len(),
            "decisionGroups": [{"decisionGroupIndex": 0, "decisions": [slice], "clusterCount": clusters.len()}],
            "conditions": [condition("PlacementSatisfied", "True", "AllDecisionsScheduled", "")],
        })
    };
    let object = json!({"metadata": {"name": placement, "namespace": "default"}, "spec": {}, "status": clusters.map(decided)});
    cache.apply_placement(serde_json::from_value(object).unwrap());
    let names =
        clusters.unwrap_or_default().iter().map(|cluster| json!({"clusterName": cluster, "reason": ""}));
    let decision = json!({"metadata": {"name": slice, "namespace": "default", "labels": {
            "cluster.open-cluster-management.io/placement": placement,
            "cluster.open-cluster-management.io/decision-group-index": "0",
            "cluster.open-cluster-management.io/decision-group-name": "",
        }}, "status": {"decisions": names.collect::<Vec<_>>()}});
    cache.apply_decision(serde_json::from_value(decision).unwrap());
}

pub(super) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2024-05-01T10:00:00Z"})
}

/// A ManagedClusterAddOn, created for a placement, that has a version and had another before.
pub(super) fn addon(cluster: &str, placement: &str, version: &str, last: &str) -> Value {
    json!({
        "metadata": {"name": ADDON, "namespace": cluster,
            "annotations": {INSTALLED_BY: format!("default/{placement}")},
            "managedFields": [{"manager": "addon-install-controller", "operation": "Apply",
                "fieldsV1": {"f:spec": {"f:installVersion": {}}}}]},
        "spec": {"installVersion": version},
        "status": {"installVersion": version, "currentVersion": version, "lastVersion": last, "conditions": [
            condition("Progressing", "False", "Succeed", "install completed with no errors."),
            condition("Configured", "True", "ConfigurationsConfigured", "it is requested"),
        ]},
    })
}

/// One that has started a version and has not succeeded.
pub(super) fn unfinished(cluster: &str, version: &str, progressing: Value) -> Value {
    let mut addon = addon(cluster, "p", version, "v1");
    addon["status"]["currentVersion"] = json!("unknown");
    addon["status"]["conditions"] = json!([progressing]);
    addon
}

/// One whose version a user has set.
pub(super) fn overridden(cluster: &str, placement: &str, version: &str) -> Value {
    let mut addon = addon(cluster, placement, version, "");
    addon["metadata"]["managedFields"][0]["manager"] = json!("kubectl-patch");
    addon
}

/// A placement that requests a version.
pub(super) fn requesting(placement: &str, version: &str) -> Value {
    json!({"name": placement, "addonTemplate": {"installVersion": version}})
}
