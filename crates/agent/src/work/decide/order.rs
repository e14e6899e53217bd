//! The order in which objects are applied: objects that others need come first. They are deleted in the reverse order.

/// Group, plural and stage of kinds. All other kinds are in the last stage.
const STAGES: [(&str, &str, ApplyStage); 35] = [
    ("scheduling.k8s.io", "priorityclasses", ApplyStage::Prerequisites),
    ("", "namespaces", ApplyStage::Prerequisites),
    ("apiextensions.k8s.io", "customresourcedefinitions", ApplyStage::Prerequisites),
    ("storage.k8s.io", "storageclasses", ApplyStage::Prerequisites),
    ("", "persistentvolumes", ApplyStage::Prerequisites),
    ("rbac.authorization.k8s.io", "clusterroles", ApplyStage::Rbac),
    ("rbac.authorization.k8s.io", "clusterrolebindings", ApplyStage::Rbac),
    ("rbac.authorization.k8s.io", "roles", ApplyStage::Rbac),
    ("rbac.authorization.k8s.io", "rolebindings", ApplyStage::Rbac),
    ("networking.k8s.io", "networkpolicies", ApplyStage::Limits),
    ("", "resourcequotas", ApplyStage::Limits),
    ("", "limitranges", ApplyStage::Limits),
    ("policy", "poddisruptionbudgets", ApplyStage::Limits),
    ("", "serviceaccounts", ApplyStage::Limits),
    ("", "secrets", ApplyStage::Data),
    ("", "configmaps", ApplyStage::Data),
    ("", "persistentvolumeclaims", ApplyStage::Data),
    ("", "services", ApplyStage::Services),
    ("apps", "daemonsets", ApplyStage::Workloads),
    ("apps", "deployments", ApplyStage::Workloads),
    ("apps", "replicasets", ApplyStage::Workloads),
    ("apps", "statefulsets", ApplyStage::Workloads),
    ("", "pods", ApplyStage::Workloads),
    ("", "replicationcontrollers", ApplyStage::Workloads),
    ("batch", "jobs", ApplyStage::Workloads),
    ("batch", "cronjobs", ApplyStage::Workloads),
    ("networking.k8s.io", "ingresses", ApplyStage::Workloads),
    ("autoscaling", "horizontalpodautoscalers", ApplyStage::Workloads),
    ("apiregistration.k8s.io", "apiservices", ApplyStage::AdmissionAndApis),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", ApplyStage::AdmissionAndApis),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", ApplyStage::AdmissionAndApis),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", ApplyStage::AdmissionAndApis),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", ApplyStage::AdmissionAndApis),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies", ApplyStage::AdmissionAndApis),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", ApplyStage::AdmissionAndApis),
];

/// When an object is applied: the lowest stage first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ApplyStage {
    /// Namespaces, CRDs and other objects that most objects depend on.
    Prerequisites,
    /// RBAC objects.
    Rbac,
    /// Objects that restrict workloads, and the ServiceAccounts they run as.
    Limits,
    /// Objects that workloads read or mount.
    Data,
    /// Services, by which clients reach workloads.
    Services,
    /// Workloads, and the objects that scale or expose them.
    Workloads,
    /// Webhooks, admission policies and APIServices. They come after the workloads that serve them.
    AdmissionAndApis,
    /// All other kinds. Custom resources need their CRD, and usually the workloads that implement it.
    Other,
}

impl ApplyStage {
    /// The stage of a kind, by its group and plural.
    pub(crate) fn of(group: &str, resource: &str) -> Self {
        let row = STAGES.iter().find(|(of_group, plural, _)| *of_group == group && *plural == resource);
        row.map_or(Self::Other, |(_, _, stage)| *stage)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn objects_that_others_need_come_first() {
        let rows = [
            ("", "namespaces", ApplyStage::Prerequisites),
            ("apiextensions.k8s.io", "customresourcedefinitions", ApplyStage::Prerequisites),
            ("rbac.authorization.k8s.io", "rolebindings", ApplyStage::Rbac),
            ("", "serviceaccounts", ApplyStage::Limits),
            ("", "secrets", ApplyStage::Data),
            ("", "services", ApplyStage::Services),
            ("apps", "deployments", ApplyStage::Workloads),
            ("admissionregistration.k8s.io", "validatingwebhookconfigurations", ApplyStage::AdmissionAndApis),
            ("example.com", "widgets", ApplyStage::Other),
            ("example.com", "deployments", ApplyStage::Other),
            ("serving.knative.dev", "services", ApplyStage::Other),
        ];
        for (group, resource, stage) in rows {
            assert_eq!(ApplyStage::of(group, resource), stage, "{resource}.{group}");
        }
        let stages = [
            ApplyStage::Prerequisites,
            ApplyStage::Rbac,
            ApplyStage::Limits,
            ApplyStage::Data,
            ApplyStage::Services,
            ApplyStage::Workloads,
            ApplyStage::AdmissionAndApis,
            ApplyStage::Other,
        ];
        assert!(stages.is_sorted());
    }

    #[test]
    fn no_kind_has_two_stages() {
        let kinds: HashSet<_> = STAGES.iter().map(|(group, plural, _)| (group, plural)).collect();
        assert_eq!(kinds.len(), STAGES.len());
    }
}
