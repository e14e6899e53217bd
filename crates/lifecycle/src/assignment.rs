//! The assigned placement of each cluster (`spec/lifecycle.md`, A14, A18): of all placements of an add-on that select a
//! cluster, the last one decides its version and configurations. Pure.

use std::collections::BTreeMap;

use bellwether_api::addon::{ConfigReference, InstallStrategy, PlacementStrategy};

use crate::placement::DecidedCluster;
use crate::version::Version;

/// What a placement asks of its clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddonRequest {
    /// The placement, `<namespace>/<name>`.
    pub placement: String,
    /// The version; `None` for the default version of the add-on.
    pub version: Option<Version>,
    /// The configurations.
    pub configs: Vec<ConfigReference>,
}

impl AddonRequest {
    /// What a placement asks for.
    pub fn of(placement: &PlacementStrategy) -> Self {
        let template = placement.addon_template.clone().unwrap_or_default();
        let in_namespace = |mut config: ConfigReference| {
            if config.namespace.is_empty() {
                config.namespace.clone_from(&placement.namespace);
            }
            config
        };
        Self {
            placement: placement_name(placement),
            version: Version::new(&template.install_version),
            configs: template.configs.into_iter().map(in_namespace).collect(),
        }
    }
}

/// `<namespace>/<name>` of a placement.
pub fn placement_name(placement: &PlacementStrategy) -> String {
    format!("{}/{}", placement.namespace, placement.name)
}

/// The clusters that a placement selects, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// These clusters and no others.
    Settled(Vec<DecidedCluster>),
    /// The decisions are being made or written; these clusters were selected before.
    Unsettled {
        /// The clusters that were selected before.
        last: Vec<DecidedCluster>,
        /// Why it is not known which clusters are selected.
        why: String,
    },
    /// There is no such placement. Whether that is meant is not known: the clusters whose ManagedClusterAddOn was created
    /// for it stay with it, and nothing changes there.
    Missing {
        /// The clusters whose ManagedClusterAddOn was created for it.
        created_for: Vec<String>,
    },
}

impl Selection {
    /// The clusters, also those that were selected before.
    pub fn clusters(&self) -> &[DecidedCluster] {
        match self {
            Self::Settled(clusters) | Self::Unsettled { last: clusters, .. } => clusters,
            Self::Missing { .. } => &[],
        }
    }
}

/// The placement that decides for a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assignment<'a> {
    /// The placement.
    pub placement: &'a PlacementStrategy,
    /// Its index among the placements of the add-on.
    pub index: usize,
    /// Whether it is known to be the right one.
    pub certainty: Certainty,
}

/// Whether the assigned placement of a cluster is known to be the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// It is.
    Certain,
    /// It, or one that has precedence over it, is being decided.
    Unsettled,
    /// It does not exist.
    Missing,
}

/// The assigned placement of each cluster: the last one that selects it. There is a selection for each placement.
pub fn assign<'a>(
    strategy: &'a InstallStrategy,
    selections: &'a [Selection],
) -> BTreeMap<&'a str, Assignment<'a>> {
    let mut assigned = BTreeMap::new();
    let mut certainty = Certainty::Certain;
    let placements = strategy.placements.iter().enumerate().zip(selections);
    for ((index, placement), selection) in placements.clone().rev() {
        if matches!(selection, Selection::Unsettled { .. }) {
            certainty = Certainty::Unsettled;
        }
        for one in selection.clusters() {
            let assignment = Assignment { placement, index, certainty };
            assigned.entry(one.cluster.as_str()).or_insert(assignment);
        }
    }
    for ((index, placement), selection) in placements {
        if let Selection::Missing { created_for } = selection {
            let assignment = Assignment { placement, index, certainty: Certainty::Missing };
            assigned.extend(created_for.iter().map(|cluster| (cluster.as_str(), assignment)));
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decided(clusters: &[&str]) -> Vec<DecidedCluster> {
        let one = |cluster: &&str| DecidedCluster {
            group_index: 0,
            cluster: (*cluster).to_owned(),
            group_name: String::new(),
        };
        clusters.iter().map(one).collect()
    }

    fn settled(clusters: &[&str]) -> Selection {
        Selection::Settled(decided(clusters))
    }

    fn unsettled(last: &[&str]) -> Selection {
        Selection::Unsettled { last: decided(last), why: String::new() }
    }

    fn missing(created_for: &[&str]) -> Selection {
        Selection::Missing { created_for: created_for.iter().map(|cluster| (*cluster).to_owned()).collect() }
    }

    #[test]
    fn last_placement_that_selects_a_cluster_is_assigned() {
        let strategy: InstallStrategy = serde_json::from_value(json!({"type": "Placements", "placements": [
            {"namespace": "default", "name": "global"}, {"namespace": "default", "name": "canary"},
        ]}))
        .unwrap();
        let rows = [
            ("the last one wins", settled(&["a", "b"]), settled(&["a"]), "a=canary b=global"),
            ("only the first", settled(&["a"]), settled(&[]), "a=global"),
            ("a later one is being decided", settled(&["a", "b"]), unsettled(&["a"]), "a=canary? b=global?"),
            (
                "an earlier one is being decided",
                unsettled(&["a", "b"]),
                settled(&["a"]),
                "a=canary b=global?",
            ),
            ("a missing one selects nothing", settled(&["a"]), missing(&[]), "a=global"),
            ("a missing one keeps its clusters", settled(&["a", "b"]), missing(&["a"]), "a=canary! b=global"),
            ("also against a later one", missing(&["a"]), settled(&["a", "b"]), "a=global! b=canary"),
        ];
        for (sentence, global, canary, expected) in rows {
            let selections = [global, canary];
            let assigned = assign(&strategy, &selections);
            let show = |(cluster, one): (&&str, &Assignment<'_>)| {
                let mark = match one.certainty {
                    Certainty::Certain => "",
                    Certainty::Unsettled => "?",
                    Certainty::Missing => "!",
                };
                format!("{cluster}={}{mark}", one.placement.name)
            };
            let shown: Vec<String> = assigned.iter().map(show).collect();
            assert_eq!(shown.join(" "), expected, "{sentence}");
        }
    }

    #[test]
    fn config_without_namespace_is_in_the_namespace_of_its_placement() {
        let placement: PlacementStrategy = serde_json::from_value(json!({
            "namespace": "default", "name": "canary", "addonTemplate": {"installVersion": "", "configs": [
                {"group": "g", "resource": "r", "name": "here"},
                {"group": "g", "resource": "r", "namespace": "there", "name": "elsewhere"},
            ]},
        }))
        .unwrap();
        let request = AddonRequest::of(&placement);
        let namespaces: Vec<&str> = request.configs.iter().map(|config| config.namespace.as_str()).collect();
        assert_eq!((request.version, namespaces), (None, vec!["default", "there"]));
    }
}
