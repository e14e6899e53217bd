//! Which clusters go by which placement of an add-on. Pure.

use std::collections::BTreeMap;

use bellwether_api::addon::vocabulary::INSTALLED_BY;
use bellwether_api::addon::{ClusterManagementAddOn, PlacementStrategy};
use bellwether_lifecycle::assignment::{Assignment, Certainty, Selection, assign};
use bellwether_lifecycle::fields::is_installed_for;
use bellwether_lifecycle::placement::DecidedCluster;
use kube::ResourceExt as _;

use super::hub::Picture;

/// What a placement has chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    /// These, and no others.
    These(Vec<DecidedCluster>),
    /// There is no such placement.
    Missing,
    /// It cannot be told, for this.
    Unknown(String),
}

/// A placement of an add-on, and the clusters that go by it.
#[derive(Clone, Debug)]
pub(super) struct Reach<'a> {
    pub(super) placement: &'a PlacementStrategy,
    /// `<namespace>/<name>`
    pub(super) name: String,
    /// The version that it asks for; empty, where there is none at all.
    pub(super) version: String,
    /// Where what it has chosen is not known, those that were made for it.
    pub(super) members: Vec<DecidedCluster>,
    /// Those that it has chosen too, and that go by a later placement.
    pub(super) taken: Vec<Taken>,
    /// Why the clusters are not all, or may not be.
    pub(super) doubt: Option<String>,
}

/// A cluster that goes by a later placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) cluster: String,
    pub(super) by: String,
}

/// `<namespace>/<name>`
pub(super) fn name(placement: &PlacementStrategy) -> String {
    format!("{}/{}", placement.namespace, placement.name)
}

/// The version that a placement asks for; empty, where there is none at all.
pub(super) fn version(addon: &ClusterManagementAddOn, placement: &PlacementStrategy) -> String {
    let asked = placement.addon_template.as_ref().map(|template| template.install_version.as_str());
    match asked.unwrap_or_default() {
        "" => addon.status.as_ref().map(|status| status.default_version.clone()).unwrap_or_default(),
        asked => asked.to_owned(),
    }
}

/// What each placement of an add-on reaches, in their order.
pub(super) fn reach(picture: &Picture) -> Vec<Reach<'_>> {
    let strategy = &picture.addon.spec.install_strategy;
    let selections: Vec<Selection> = strategy
        .placements
        .iter()
        .zip(&picture.chosen)
        .map(|(one, chosen)| selection(picture, one, chosen))
        .collect();
    let assigned: BTreeMap<&str, Assignment<'_>> = assign(strategy, &selections);
    let made_for = |cluster: &str| picture.instances.get(cluster)?.annotations().get(INSTALLED_BY).cloned();
    // A cluster that a placement might still take goes by the one that it was made for, until that is settled.
    let goes_by = |cluster: &str, here: &str| match assigned.get(cluster) {
        Some(Assignment { certainty: Certainty::Unsettled, .. }) => {
            made_for(cluster).unwrap_or_else(|| here.to_owned())
        }
        Some(Assignment { placement, .. }) => name(placement),
        None => here.to_owned(),
    };
    let one = |placement: &'_ PlacementStrategy, chosen: &Chosen| {
        let here = name(placement);
        let (candidates, doubt) = match chosen {
            Chosen::These(clusters) => (clusters.clone(), None),
            Chosen::Missing => (Vec::new(), Some("there is no such placement".to_owned())),
            Chosen::Unknown(why) => (remembered(picture, &here), Some(why.clone())),
        };
        let (members, taken): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|one| goes_by(&one.cluster, &here) == here);
        let taken =
            taken.into_iter().map(|one| Taken { by: goes_by(&one.cluster, &here), cluster: one.cluster });
        (taken.collect(), members, doubt)
    };
    let placements = strategy.placements.iter().zip(&picture.chosen);
    placements
        .map(|(placement, chosen)| {
            let (taken, members, doubt) = one(placement, chosen);
            let (name, version) = (name(placement), version(&picture.addon, placement));
            Reach { placement, name, version, members, taken, doubt }
        })
        .collect()
}

fn selection(picture: &Picture, placement: &PlacementStrategy, chosen: &Chosen) -> Selection {
    match chosen {
        Chosen::These(clusters) => Selection::Settled(clusters.clone()),
        Chosen::Missing => {
            let placement = name(placement);
            let its_own = picture.instances.iter().filter(|(_, object)| is_installed_for(object, &placement));
            Selection::Missing { created_for: its_own.map(|(cluster, _)| cluster.clone()).collect() }
        }
        Chosen::Unknown(why) => Selection::Unsettled { last: Vec::new(), why: why.clone() },
    }
}

/// The clusters whose add-ons were made for a placement.
fn remembered(picture: &Picture, placement: &str) -> Vec<DecidedCluster> {
    let made = picture.instances.iter().filter(|(_, instance)| {
        instance.annotations().get(INSTALLED_BY).is_some_and(|made_for| made_for == placement)
    });
    made.map(|(cluster, _)| DecidedCluster {
        group_index: 0,
        cluster: cluster.clone(),
        group_name: String::new(),
    })
    .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// An add-on with these placements, of which each has chosen these clusters, or it is not known which.
    pub(in crate::addon) fn picture(placements: &[(Value, Option<&[&str]>)], instances: &[Value]) -> Picture {
        let written: Vec<Value> = placements
            .iter()
            .map(|(placement, _)| {
                let mut written = placement.clone();
                written["namespace"] = json!("default");
                written
            })
            .collect();
        let addon = json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1",
            "kind": "ClusterManagementAddOn",
            "metadata": {"name": "hello"},
            "spec": {"installStrategy": {"type": "Placements", "placements": written}},
            "status": {"supportedVersions": ["v1", "v2", "v3"], "defaultVersion": "v2"},
        });
        let chosen = placements.iter().map(|(_, clusters)| match clusters {
            None => Chosen::Unknown("it is being written".into()),
            Some(clusters) => Chosen::These(
                clusters
                    .iter()
                    .map(|cluster| DecidedCluster {
                        group_index: 0,
                        cluster: (*cluster).to_owned(),
                        group_name: String::new(),
                    })
                    .collect(),
            ),
        });
        let instances = instances.iter().map(|instance| {
            let instance: bellwether_api::addon::ManagedClusterAddOn =
                serde_json::from_value(instance.clone()).unwrap();
            (instance.namespace().unwrap(), instance)
        });
        Picture {
            chosen: chosen.collect(),
            instances: instances.collect(),
            sent: serde_json::from_value(addon.clone()).unwrap(),
            addon: serde_json::from_value(addon).unwrap(),
        }
    }

    pub(in crate::addon) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2024-05-01T10:00:00Z"})
    }

    /// An add-on on a cluster, made for a placement, that has this version and had that one before.
    pub(in crate::addon) fn instance(cluster: &str, placement: &str, version: &str, last: &str) -> Value {
        json!({
            "metadata": {"name": "hello", "namespace": cluster,
                "annotations": {INSTALLED_BY: format!("default/{placement}")},
                "managedFields": [{"manager": "addon-install-controller", "operation": "Apply",
                    "fieldsV1": {"f:spec": {"f:installVersion": {}}}}]},
            "spec": {"installVersion": version},
            "status": {"installVersion": version, "currentVersion": version, "lastVersion": last, "conditions": [
                condition("Progressing", "False", "Succeed", "install completed with no errors."),
                condition("Configured", "True", "ConfigurationsConfigured", "it is asked for"),
            ]},
        })
    }

    pub(in crate::addon) fn asks(name: &str, version: &str) -> Value {
        json!({"name": name, "addonTemplate": {"installVersion": version}})
    }

    fn told(picture: &Picture) -> Vec<String> {
        let tell = |reach: &Reach<'_>| {
            let members: Vec<&str> = reach.members.iter().map(|one| one.cluster.as_str()).collect();
            let taken: Vec<String> =
                reach.taken.iter().map(|one| format!("{}>{}", one.cluster, one.by)).collect();
            let doubt = if reach.doubt.is_some() { " ?" } else { "" };
            format!(
                "{} {}: {} | {}{doubt}",
                reach.placement.name,
                reach.version,
                members.join(","),
                taken.join(",")
            )
        };
        reach(picture).iter().map(tell).collect()
    }

    #[test]
    fn a_cluster_goes_by_the_last_placement_that_has_it() {
        let found = picture(
            &[(asks("global", "v1"), Some(&["a", "b", "c"])), (asks("canary", ""), Some(&["a"]))],
            &[],
        );
        assert_eq!(told(&found), ["global v1: b,c | a>default/canary", "canary v2: a | "]);
    }

    #[test]
    fn while_a_later_placement_is_not_settled_clusters_stay_with_whom_they_were_made_for() {
        let found = picture(
            &[(asks("global", "v1"), Some(&["a", "b"])), (asks("canary", "v2"), None)],
            &[instance("a", "canary", "v2", ""), instance("b", "global", "v1", "")],
        );
        assert_eq!(told(&found), ["global v1: b | a>default/canary", "canary v2: a |  ?"]);
    }
}
