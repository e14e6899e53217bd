//! Ranks clusters if there are more than requested: each prioritizer gives a score from -100 to 100, times its weight. Pure.

use std::collections::{HashMap, HashSet};

use bellwether_api::cluster::ManagedCluster;
use kube::ResourceExt as _;

/// The highest score that one prioritizer gives; the lowest is as far below 0.
const MOST: f64 = 100.0;

/// A criterion for ranking clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prioritizer {
    /// Prefers clusters that few other placements have selected.
    Balance,
    /// Prefers clusters that are already selected.
    Steady,
    /// Prefers clusters with much allocatable CPU.
    Cpu,
    /// Prefers clusters with much allocatable memory.
    Memory,
}

impl Prioritizer {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "Balance" => Some(Self::Balance),
            "Steady" => Some(Self::Steady),
            "ResourceAllocatableCPU" => Some(Self::Cpu),
            "ResourceAllocatableMemory" => Some(Self::Memory),
            _ => None,
        }
    }
}

/// The weights of the prioritizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weights {
    pub(super) balance: i64,
    pub(super) steady: i64,
    pub(super) cpu: i64,
    pub(super) memory: i64,
}

impl Weights {
    pub(super) const NONE: Self = Self { balance: 0, steady: 0, cpu: 0, memory: 0 };
    pub(super) const USUAL: Self = Self { balance: 1, steady: 1, ..Self::NONE };

    pub(super) fn set(&mut self, prioritizer: Prioritizer, weight: i64) {
        match prioritizer {
            Prioritizer::Balance => self.balance = weight,
            Prioritizer::Steady => self.steady = weight,
            Prioritizer::Cpu => self.cpu = weight,
            Prioritizer::Memory => self.memory = weight,
        }
    }
}

/// The score of each cluster, in their order. `elsewhere` counts the other placements that have selected a cluster, and is
/// called only if Balance has a weight.
pub(super) fn scores<'a>(
    weights: Weights,
    clusters: &[&ManagedCluster],
    chosen: &HashSet<&str>,
    elsewhere: impl FnOnce() -> HashMap<&'a str, usize>,
) -> Vec<i64> {
    let mut scores = vec![0; clusters.len()];
    let mut add = |weight: i64, of_each: Vec<i64>| {
        for (score, more) in scores.iter_mut().zip(of_each) {
            *score += weight * more;
        }
    };
    if weights.steady != 0 {
        let steady =
            |cluster: &&ManagedCluster| if chosen.contains(cluster.name_any().as_str()) { 100 } else { 0 };
        add(weights.steady, clusters.iter().map(steady).collect());
    }
    if weights.balance != 0 {
        add(weights.balance, balance(clusters, &elsewhere()));
    }
    for (weight, resource) in [(weights.cpu, "cpu"), (weights.memory, "memory")] {
        if weight != 0 {
            add(weight, allocatable(clusters, resource));
        }
    }
    scores
}

fn balance(clusters: &[&ManagedCluster], elsewhere: &HashMap<&str, usize>) -> Vec<i64> {
    let most = elsewhere.values().copied().max().unwrap_or(0).max(1);
    let usage = |cluster: &ManagedCluster| {
        let count = elsewhere.get(cluster.name_any().as_str()).copied().unwrap_or(0);
        count as f64 / most as f64
    };
    clusters.iter().map(|cluster| (2.0 * MOST * (0.5 - usage(cluster))) as i64).collect()
}

/// A cluster that does not report the resource gets the score 0.
fn allocatable(clusters: &[&ManagedCluster], resource: &str) -> Vec<i64> {
    let of = |cluster: &&ManagedCluster| {
        let status = cluster.status.as_ref()?;
        quantity(&status.allocatable.get(resource)?.0)
    };
    let said: Vec<Option<f64>> = clusters.iter().map(of).collect();
    let least = said.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let most = said.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    said.iter()
        .map(|said| match said {
            None => 0,
            Some(said) if most > least => (((said - least) / (most - least) - 0.5) * 2.0 * MOST) as i64,
            Some(_) => 100,
        })
        .collect()
}

/// Parses a Kubernetes quantity, precisely enough for comparisons.
fn quantity(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 15] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    let unit = UNITS.iter().find_map(|(unit, worth)| Some((text.strip_suffix(unit)?, *worth)));
    let (number, worth) = unit.unwrap_or((text, 1.0));
    let value = number.trim().parse::<f64>().ok()? * worth;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, cpu: &str, memory: &str) -> ManagedCluster {
        let allocatable = json!({"cpu": cpu, "memory": memory});
        serde_json::from_value(json!({"metadata": {"name": name}, "status": {"allocatable": allocatable}}))
            .unwrap()
    }

    #[test]
    fn quantities_are_parsed() {
        let rows = [
            ("4", Some(4.0)),
            ("500m", Some(0.5)),
            ("16Gi", Some(17_179_869_184.0)),
            ("1e3", Some(1000.0)),
            ("1.5k", Some(1500.0)),
            ("2E", Some(2e18)),
            ("", None),
            ("much", None),
            ("inf", None),
        ];
        for (text, wanted) in rows {
            assert_eq!(quantity(text), wanted, "{text}");
        }
    }

    #[test]
    fn each_prioritizer_scores_clusters() {
        let clusters = [cluster("a", "2", "8Gi"), cluster("b", "4", "much"), cluster("c", "10", "16Gi")];
        let clusters: Vec<&ManagedCluster> = clusters.iter().collect();
        let elsewhere = || HashMap::from([("a", 4), ("b", 1), ("gone", 2)]);
        let none = Weights::NONE;
        let rows = [
            ("nothing counts", none, [0, 0, 0]),
            ("balance", Weights { balance: 1, ..none }, [-100, 50, 100]),
            ("steady", Weights { steady: 2, ..none }, [0, 200, 0]),
            ("processors", Weights { cpu: 1, ..none }, [-100, -50, 100]),
            ("little memory", Weights { memory: -1, ..none }, [100, 0, -100]),
            ("as usual", Weights::USUAL, [-100, 150, 100]),
        ];
        for (case, weights, wanted) in rows {
            assert_eq!(scores(weights, &clusters, &HashSet::from(["b"]), elsewhere), wanted, "{case}");
        }
    }

    #[test]
    fn equal_clusters_get_maximum_score() {
        let clusters = [cluster("a", "2", "8Gi"), cluster("b", "2", "")];
        let clusters: Vec<&ManagedCluster> = clusters.iter().collect();
        let weights = Weights { cpu: 1, memory: 1, balance: 1, ..Weights::NONE };
        assert_eq!(scores(weights, &clusters, &HashSet::new(), HashMap::new), [300, 200]);
    }
}
