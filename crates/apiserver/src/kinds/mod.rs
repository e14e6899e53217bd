//! The built-in kinds: what each is called, and the rules that are its own.

mod address;
mod admission;
mod api_service;
mod autoscaler;
mod cells;
pub(crate) mod certificate;
mod check;
mod config_map;
mod custom_resource_definition;
mod defaults;
mod device;
mod endpoints;
mod event;
mod flow;
mod job;
mod lease;
mod namespace;
mod networking;
mod node;
mod pod;
mod pod_spec;
mod pod_state;
mod policy;
mod rbac;
mod replication;
mod review;
mod secret;
mod service;
mod service_account;
mod storage;
mod volume;
mod workload;

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::crd::Scale;
use crate::object::Object;
use crate::registry::{Change, Registry, Resource, Rules, Scope, Storage, Subresource, Typing};
use crate::shape::{BUILTINS, ResourceData};

use crate::status::Qualified;

pub(crate) use namespace::TERMINATING;

/// How messages name the resource of namespaces.
pub(crate) const NAMESPACES: Qualified<'static> = Qualified { group: "", name: "namespaces" };

/// The namespaces that every logical cluster has from the start.
pub(crate) const FIRST_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Whether a namespace can never be deleted.
pub(crate) fn is_immortal(namespace: &str) -> bool {
    matches!(namespace, "default" | "kube-public" | "kube-system")
}

/// A namespace that is there from the start.
pub(crate) fn first_namespace(name: &str) -> Object {
    object(json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}))
}

/// The service under which a cluster finds its own API.
pub(crate) fn kubernetes_service() -> Object {
    object(json!({
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {
            "name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.0.0.1",
            "clusterIPs": ["10.0.0.1"],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6440}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    }))
}

/// The addresses of services: that of the API is one of them.
pub(crate) fn first_service_cidr() -> Object {
    object(json!({
        "kind": "ServiceCIDR",
        "apiVersion": "networking.k8s.io/v1",
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": ["10.0.0.0/24"]},
    }))
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}

/// The groups in the order of Kubernetes' discovery: of two kinds with one short name, clients take the first.
const GROUPS: [&str; 21] = [
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// The kinds that every logical cluster serves.
pub(crate) fn builtins() -> Registry {
    let own = |data: &'static ResourceData| Some(own(&data.group, &data.kind)?(describe(data)?));
    let mut served: Vec<Resource> = BUILTINS.resources.iter().filter_map(own).collect();
    served.sort_by_cached_key(|resource| {
        (GROUPS.iter().position(|group| *group == resource.group), resource.plural.clone())
    });
    Registry::new(served)
}

/// What a kind adds to its description; nothing for kinds that are not served.
fn own(group: &str, kind: &str) -> Option<fn(Resource) -> Resource> {
    Some(match (group, kind) {
        ("", "ConfigMap") => config_map::own,
        ("", "Endpoints") => endpoints::endpoints,
        ("", "Event") => event::core,
        ("", "LimitRange") => policy::limit_range,
        ("", "Namespace") => namespace::own,
        ("", "Node") => node::own,
        ("", "PersistentVolume") => volume::volume,
        ("", "PersistentVolumeClaim") => volume::claim,
        ("", "Pod") => pod::own,
        ("", "PodTemplate") => pod::template,
        ("", "ReplicationController") => replication::replication_controller,
        ("", "ResourceQuota") => policy::resource_quota,
        ("", "Secret") => secret::own,
        ("", "Service") => service::own,
        ("", "ServiceAccount") => service_account::own,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => admission::webhooks,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => admission::mutating_policy,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => admission::validating_policy,
        (
            "admissionregistration.k8s.io",
            "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding",
        ) => admission::binding,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => custom_resource_definition::own,
        ("apiregistration.k8s.io", "APIService") => api_service::own,
        ("apps", "ControllerRevision") => replication::revision,
        ("apps", "DaemonSet") => workload::daemon_set,
        ("apps", "Deployment") => workload::deployment,
        ("apps", "ReplicaSet") => workload::replica_set,
        ("apps", "StatefulSet") => workload::stateful_set,
        ("authentication.k8s.io", "SelfSubjectReview") => review::self_subject,
        ("authentication.k8s.io", "TokenReview") => review::token,
        ("authorization.k8s.io", "LocalSubjectAccessReview") => review::local_access,
        ("authorization.k8s.io", "SelfSubjectAccessReview") => review::self_access,
        ("authorization.k8s.io", "SelfSubjectRulesReview") => review::self_rules,
        ("authorization.k8s.io", "SubjectAccessReview") => review::access,
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::own,
        ("batch", "CronJob") => job::cron_job,
        ("batch", "Job") => job::job,
        (certificate::GROUP, "CertificateSigningRequest") => certificate::own,
        ("coordination.k8s.io", "Lease") => lease::own,
        ("discovery.k8s.io", "EndpointSlice") => endpoints::slice,
        ("events.k8s.io", "Event") => event::events,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => flow::schema,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => flow::level,
        ("networking.k8s.io", "Ingress") => networking::ingress,
        ("networking.k8s.io", "IngressClass") => networking::ingress_class,
        ("networking.k8s.io", "IPAddress") => address::ip_address,
        ("networking.k8s.io", "NetworkPolicy") => networking::network_policy,
        ("networking.k8s.io", "ServiceCIDR") => address::service_cidr,
        ("node.k8s.io", "RuntimeClass") => node::runtime_class,
        ("policy", "PodDisruptionBudget") => policy::disruption_budget,
        (crate::access::GROUP, "ClusterRole" | "Role") => rbac::role,
        (crate::access::GROUP, "ClusterRoleBinding" | "RoleBinding") => rbac::binding,
        ("resource.k8s.io", "DeviceClass") => device::class,
        ("resource.k8s.io", "ResourceClaim") => device::claim,
        ("resource.k8s.io", "ResourceClaimTemplate") => device::template,
        ("resource.k8s.io", "ResourceSlice") => device::slice,
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class,
        ("storage.k8s.io", "CSIDriver") => storage::driver,
        ("storage.k8s.io", "CSINode") => storage::node,
        ("storage.k8s.io", "CSIStorageCapacity") => storage::capacity,
        ("storage.k8s.io", "StorageClass") => storage::class,
        ("storage.k8s.io", "VolumeAttachment") => storage::attachment,
        ("storage.k8s.io", "VolumeAttributesClass") => storage::attributes_class,
        _ => return None,
    })
}

/// A kind as Kubernetes' discovery describes it, stored as it is served.
fn describe(data: &'static ResourceData) -> Option<Resource> {
    let typing = Typing::Builtin(BUILTINS.type_of(&data.group, &data.version, &data.kind)?);
    let space = match data.group.as_str() {
        "" => data.plural.clone(),
        group => format!("{}.{group}", data.plural),
    };
    let subresource = |name: &str| match name {
        "status" => Some(Subresource::Status),
        "finalize" => Some(Subresource::Finalize),
        "scale" => Some(Subresource::Scale),
        "token" => Some(Subresource::Token),
        "approval" => Some(Subresource::Approval),
        _ => None,
    };
    Some(Resource {
        group: data.group.clone(),
        version: data.version.clone(),
        kind: data.kind.clone(),
        list_kind: format!("{}List", data.kind),
        plural: data.plural.clone(),
        singular: data.singular.clone(),
        short_names: data.short_names.clone(),
        categories: data.categories.clone(),
        scope: if data.namespaced { Scope::Namespaced } else { Scope::Cluster },
        subresources: data.subresources.iter().filter_map(|data| subresource(&data.name)).collect(),
        storage: Storage {
            space,
            api_version: crate::registry::group_version(&data.group, &data.version),
            typing: typing.clone(),
        },
        scale: None,
        review: None,
        typing,
        view: &[],
        conversion: None,
        rules: Rules::default(),
        selectable: Vec::new(),
        columns: Vec::new(),
        deprecation: None,
    })
}

/// What is sent to ask for a token of a ServiceAccount.
pub(crate) fn token_request() -> Option<Resource> {
    static DATA: LazyLock<ResourceData> = LazyLock::new(|| ResourceData {
        group: "authentication.k8s.io".into(),
        version: "v1".into(),
        kind: "TokenRequest".into(),
        plural: "tokenrequests".into(),
        singular: "tokenrequest".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        subresources: Vec::new(),
    });
    describe(&DATA)
}

/// Where the kinds that can be scaled keep their numbers.
fn scale() -> Option<Scale> {
    Scale::read(&json!({
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".spec.selector",
    }))
}

/// A new object has the status of one that nobody has looked at yet.
fn blank_status(object: &mut Object, resource: &Resource) {
    object.remove("status");
    if let Ok(conformed) = resource.conform_stored(object.clone()) {
        *object = conformed.object;
    }
}

/// For kinds with a status: each endpoint changes its own part only.
fn keep_status_apart(object: &mut Object, change: Change<'_>) {
    change.keep(object, if change.subresource == Some(Subresource::Status) { "spec" } else { "status" });
}

/// The same, where what is written at `/status` leaves the metadata alone as well.
fn keep_status_and_metadata_apart(object: &mut Object, change: Change<'_>) {
    keep_status_apart(object, change);
    if change.subresource == Some(Subresource::Status) {
        for key in ["annotations", "finalizers", "labels", "ownerReferences"] {
            change.keep_meta(object, key);
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kinds_that_are_served_are_described_in_the_data() {
        let registry = super::builtins();
        for (group, plural) in
            [("", "configmaps"), ("events.k8s.io", "events"), ("coordination.k8s.io", "leases")]
        {
            assert!(registry.find(group, "v1", plural).is_some(), "{plural}");
        }
    }
}
