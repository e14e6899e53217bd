//! The order in which objects are made: what others need comes first. They are taken away the other way round.

/// Kinds by what they are needed for: group, plural, rank.
const RANKS: [(&str, &str, Rank); 35] = [
    ("scheduling.k8s.io", "priorityclasses", Rank::Ground),
    ("", "namespaces", Rank::Ground),
    ("apiextensions.k8s.io", "customresourcedefinitions", Rank::Ground),
    ("storage.k8s.io", "storageclasses", Rank::Ground),
    ("", "persistentvolumes", Rank::Ground),
    ("rbac.authorization.k8s.io", "clusterroles", Rank::Rights),
    ("rbac.authorization.k8s.io", "clusterrolebindings", Rank::Rights),
    ("rbac.authorization.k8s.io", "roles", Rank::Rights),
    ("rbac.authorization.k8s.io", "rolebindings", Rank::Rights),
    ("networking.k8s.io", "networkpolicies", Rank::Limits),
    ("", "resourcequotas", Rank::Limits),
    ("", "limitranges", Rank::Limits),
    ("policy", "poddisruptionbudgets", Rank::Limits),
    ("", "serviceaccounts", Rank::Limits),
    ("", "secrets", Rank::Data),
    ("", "configmaps", Rank::Data),
    ("", "persistentvolumeclaims", Rank::Data),
    ("", "services", Rank::Services),
    ("apps", "daemonsets", Rank::Workloads),
    ("apps", "deployments", Rank::Workloads),
    ("apps", "replicasets", Rank::Workloads),
    ("apps", "statefulsets", Rank::Workloads),
    ("", "pods", Rank::Workloads),
    ("", "replicationcontrollers", Rank::Workloads),
    ("batch", "jobs", Rank::Workloads),
    ("batch", "cronjobs", Rank::Workloads),
    ("networking.k8s.io", "ingresses", Rank::Workloads),
    ("autoscaling", "horizontalpodautoscalers", Rank::Workloads),
    ("apiregistration.k8s.io", "apiservices", Rank::Hooks),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", Rank::Hooks),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", Rank::Hooks),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", Rank::Hooks),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", Rank::Hooks),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies", Rank::Hooks),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", Rank::Hooks),
];

/// When an object is made: the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// What everything else is in or is of.
    Ground,
    /// Who may do what.
    Rights,
    /// What bounds workloads, and what they run as.
    Limits,
    /// What workloads read.
    Data,
    /// How workloads are reached.
    Services,
    /// What runs.
    Workloads,
    /// What steps in when others write; last, as workloads answer for it.
    Hooks,
    /// All else: objects of custom kinds need their kind, and mostly what serves it.
    Others,
}

impl Rank {
    /// Of a kind, by its group and plural.
    pub(crate) fn of(group: &str, resource: &str) -> Self {
        let row = RANKS.iter().find(|(of_group, plural, _)| *of_group == group && *plural == resource);
        row.map_or(Self::Others, |(_, _, rank)| *rank)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn what_is_needed_comes_first() {
        let rows = [
            ("", "namespaces", Rank::Ground),
            ("apiextensions.k8s.io", "customresourcedefinitions", Rank::Ground),
            ("rbac.authorization.k8s.io", "rolebindings", Rank::Rights),
            ("", "serviceaccounts", Rank::Limits),
            ("", "secrets", Rank::Data),
            ("", "services", Rank::Services),
            ("apps", "deployments", Rank::Workloads),
            ("admissionregistration.k8s.io", "validatingwebhookconfigurations", Rank::Hooks),
            ("example.com", "widgets", Rank::Others),
            ("example.com", "deployments", Rank::Others),
            ("serving.knative.dev", "services", Rank::Others),
        ];
        for (group, resource, rank) in rows {
            assert_eq!(Rank::of(group, resource), rank, "{resource}.{group}");
        }
        let ranks = [
            Rank::Ground,
            Rank::Rights,
            Rank::Limits,
            Rank::Data,
            Rank::Services,
            Rank::Workloads,
            Rank::Hooks,
            Rank::Others,
        ];
        assert!(ranks.is_sorted());
    }

    #[test]
    fn no_kind_has_two_ranks() {
        let kinds: HashSet<_> = RANKS.iter().map(|(group, plural, _)| (group, plural)).collect();
        assert_eq!(kinds.len(), RANKS.len());
    }
}
