//! The kinds that are kept and that nobody here acts on: one good object of each, as it is and as a table, and what
//! people get wrong about it.

use serde_json::{Value, json};

use super::{NAMESPACE, Step, delete, get, merge, post};
use crate::behaviour::difference::Difference;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Of what Kubernetes changes by itself, only what is answered at once is the same.
const EVERYTHING_AFTER: &[&str] = &["get", "table", "merge", "delete"];

/// A kind by its path, one good object of it, and bad ones.
struct Kind {
    api: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    good: Value,
    bad: Vec<Value>,
    differs: Option<Difference>,
    /// The steps that say nothing: Kubernetes acts on the object on its own time, or at once.
    skips: &'static [&'static str],
}

fn kind(api: &'static str, plural: &'static str, kind: &'static str, good: Value, bad: Vec<Value>) -> Kind {
    Kind { api, plural, kind, namespaced: false, good, bad, differs: None, skips: &[] }
}

impl Kind {
    fn inside(mut self) -> Self {
        self.namespaced = true;
        self
    }

    fn without(mut self, skips: &'static [&'static str]) -> Self {
        self.skips = skips;
        self
    }

    fn unlike(mut self, difference: Difference) -> Self {
        self.differs = Some(difference);
        self
    }

    fn steps(&self) -> Vec<Step> {
        let root = if self.api == "v1" { "/api/v1".into() } else { format!("/apis/{}", self.api) };
        let all = match self.namespaced {
            true => format!("{root}/namespaces/{NAMESPACE}/{}", self.plural),
            false => format!("{root}/{}", self.plural),
        };
        let object = |name: &str, rest: &Value| {
            let mut object = json!({"kind": self.kind, "apiVersion": self.api, "metadata": {"name": name}});
            for (key, value) in rest.as_object().expect("an object") {
                object[key] = value.clone();
            }
            object
        };
        let marked = |step: Step| match self.differs {
            Some(difference) => step.unlike(difference),
            None => step,
        };
        let at = format!("{all}/probe-passive");
        let steps = [
            ("create", marked(post(all.clone(), object("probe-passive", &self.good)))),
            ("get", get(at.clone())),
            ("table", get(at.clone()).accept(TABLE)),
            ("merge", marked(merge(at.clone(), json!({"metadata": {"labels": {"a": "b"}}})))),
            ("select", get(format!("{all}?fieldSelector=spec.odd%3Dx"))),
            ("delete", delete(at)),
        ];
        let steps = steps.into_iter().filter(|(name, _)| !self.skips.contains(name)).map(|(_, step)| step);
        let bad = self.bad.iter().map(|bad| post(all.clone(), object("probe-bad", bad)));
        steps.chain(bad).collect()
    }
}

pub(super) fn steps() -> Vec<Step> {
    kinds().iter().flat_map(Kind::steps).collect()
}

fn kinds() -> Vec<Kind> {
    [networking(), storage(), devices(), flows(), policies(), workloads()].into_iter().flatten().collect()
}

fn networking() -> Vec<Kind> {
    let api = "networking.k8s.io/v1";
    let backend = json!({"service": {"name": "a", "port": {"number": 80}}});
    let rule =
        |path: Value| json!({"spec": {"rules": [{"host": "a.example.com", "http": {"paths": [path]}}]}});
    vec![
        kind(
            api,
            "ingresses",
            "Ingress",
            rule(json!({"path": "/", "pathType": "Prefix", "backend": backend})),
            vec![
                json!({}),
                rule(json!({"path": "/", "backend": backend})),
                rule(json!({"path": "a", "pathType": "Exact", "backend": backend})),
                rule(json!({"path": "/a//b", "pathType": "Prefix", "backend": backend})),
                rule(json!({"path": "/", "pathType": "Odd", "backend": backend})),
                rule(json!({"path": "/", "pathType": "Prefix", "backend": {}})),
                json!({"spec": {"defaultBackend": {"service": {"name": "A", "port": {"number": 0}}}}}),
                json!({"spec": {"rules": [{"host": "10.0.0.1"}, {"host": "*.a"}, {"host": "*a.b"}]}}),
                json!({"spec": {"defaultBackend": backend, "tls": [{"hosts": ["A"], "secretName": "B"}]}}),
            ],
        )
        .inside(),
        kind(
            api,
            "ingressclasses",
            "IngressClass",
            json!({"spec": {"controller": "example.com/x", "parameters": {"kind": "A", "name": "a"}}}),
            vec![
                json!({}),
                json!({"spec": {"controller": "odd"}}),
                json!({"spec": {"controller": "example.com/x", "parameters": {"kind": "A", "name": "a", "scope": "Odd"}}}),
                json!({"spec": {"controller": "example.com/x", "parameters": {"kind": "A", "name": "a", "namespace": "b"}}}),
            ],
        ),
        kind(
            api,
            "networkpolicies",
            "NetworkPolicy",
            json!({"spec": {"podSelector": {"matchLabels": {"a": "b"}}, "egress": [{"ports": [{"port": 80}]}]}}),
            vec![
                json!({"spec": {"podSelector": {}, "policyTypes": ["Odd"]}}),
                json!({"spec": {"podSelector": {}, "ingress": [{"from": [{}], "ports": [{"port": 0}, {"endPort": 5}]}]}}),
                json!({"spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "x"}}]}]}}),
            ],
        )
        .inside(),
        kind(
            api,
            "servicecidrs",
            "ServiceCIDR",
            json!({"spec": {"cidrs": ["10.9.0.0/24"]}}),
            vec![json!({}), json!({"spec": {"cidrs": ["10.9.0.0/24", "10.8.0.0/24"]}})],
        ),
    ]
}

fn storage() -> Vec<Kind> {
    let api = "storage.k8s.io/v1";
    vec![
        kind(
            api,
            "storageclasses",
            "StorageClass",
            json!({"provisioner": "example.com/x", "allowVolumeExpansion": true}),
            vec![
                json!({}),
                json!({"provisioner": "a b", "reclaimPolicy": "Odd", "volumeBindingMode": "Odd"}),
            ],
        ),
        kind(
            api,
            "volumeattributesclasses",
            "VolumeAttributesClass",
            json!({"driverName": "example.com", "parameters": {"a": "b"}}),
            vec![json!({}), json!({"driverName": "example.com"})],
        )
        .unlike(Difference::NoVolumeProtection)
        .without(EVERYTHING_AFTER),
        kind(
            api,
            "csidrivers",
            "CSIDriver",
            json!({"spec": {}}),
            vec![
                json!({"spec": {"fsGroupPolicy": "Odd", "volumeLifecycleModes": ["Odd"]}}),
                json!({"spec": {"tokenRequests": [{"audience": "a", "expirationSeconds": 5}, {"audience": "a"}]}}),
            ],
        ),
        kind(
            api,
            "csinodes",
            "CSINode",
            json!({"spec": {"drivers": [{"name": "a", "nodeID": "b"}]}}),
            vec![json!({"spec": {"drivers": [{"name": "a", "nodeID": ""}]}})],
        ),
        kind(
            api,
            "csistoragecapacities",
            "CSIStorageCapacity",
            json!({"storageClassName": "a", "capacity": "1Gi"}),
            vec![json!({}), json!({"storageClassName": "a", "capacity": "-1"})],
        )
        .inside(),
        kind(
            api,
            "volumeattachments",
            "VolumeAttachment",
            json!({"spec": {"attacher": "a", "nodeName": "b", "source": {"persistentVolumeName": "c"}}}),
            vec![json!({"spec": {"attacher": "a", "nodeName": "b", "source": {}}})],
        ),
        kind(
            "node.k8s.io/v1",
            "runtimeclasses",
            "RuntimeClass",
            json!({"handler": "x"}),
            vec![json!({}), json!({"handler": "X"})],
        ),
    ]
}

fn devices() -> Vec<Kind> {
    let api = "resource.k8s.io/v1";
    let claim = |request: Value| json!({"devices": {"requests": [request]}});
    let good = claim(json!({"name": "a", "exactly": {"deviceClassName": "b"}}));
    let bad = [
        json!({"name": "a"}),
        json!({"name": "A", "exactly": {"deviceClassName": "b"}}),
        json!({"name": "a", "exactly": {"deviceClassName": "b", "allocationMode": "All", "count": 2}}),
    ];
    vec![
        kind(api, "deviceclasses", "DeviceClass", json!({"spec": {}}), vec![]),
        kind(
            api,
            "resourceclaims",
            "ResourceClaim",
            json!({"spec": good}),
            bad.iter().map(|bad| json!({"spec": claim(bad.clone())})).collect(),
        )
        .inside(),
        kind(
            api,
            "resourceclaimtemplates",
            "ResourceClaimTemplate",
            json!({"spec": {"spec": good}}),
            bad.iter().map(|bad| json!({"spec": {"spec": claim(bad.clone())}})).collect(),
        )
        .inside(),
        kind(
            api,
            "resourceslices",
            "ResourceSlice",
            json!({"spec": {"driver": "a.example.com", "nodeName": "b", "pool": {"name": "c", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "d"}]}}),
            vec![
                json!({"spec": {"driver": "a.example.com", "pool": {"name": "c", "generation": 1, "resourceSliceCount": 1}}}),
            ],
        )
        // Kubernetes words it differently for this kind alone.
        .without(&["select"]),
    ]
}

fn flows() -> Vec<Kind> {
    let api = "flowcontrol.apiserver.k8s.io/v1";
    let level = json!({"name": "a"});
    let limited =
        |response: Value| json!({"spec": {"type": "Limited", "limited": {"limitResponse": response}}});
    vec![
        kind(
            api,
            "prioritylevelconfigurations",
            "PriorityLevelConfiguration",
            limited(json!({"type": "Queue", "queuing": {}})),
            vec![
                json!({"spec": {"type": "Limited"}}),
                json!({"spec": {"type": "Exempt"}}),
                limited(json!({"type": "Queue"})),
            ],
        ),
        kind(
            api,
            "flowschemas",
            "FlowSchema",
            json!({"spec": {"priorityLevelConfiguration": level, "distinguisherMethod": {"type": "ByUser"}}}),
            vec![
                json!({"spec": {}}),
                json!({"spec": {"priorityLevelConfiguration": level, "matchingPrecedence": 10001}}),
                json!({"spec": {"priorityLevelConfiguration": level, "rules": [{}]}}),
                json!({"spec": {"priorityLevelConfiguration": level, "rules": [{"subjects": [{"kind": "User"}, {"kind": "Odd"}], "resourceRules": [{"verbs": ["odd"]}]}]}}),
            ],
        )
        .without(EVERYTHING_AFTER),
    ]
}

fn policies() -> Vec<Kind> {
    let api = "admissionregistration.k8s.io/v1";
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["odds"]}]);
    let hook = json!({
        "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "a", "name": "b"}}, "rules": rules,
    });
    let with = |key: &str, value: Value| {
        let mut hook = hook.clone();
        hook[key] = value;
        json!({"webhooks": [hook]})
    };
    let bad_hooks = || {
        vec![
            with("sideEffects", Value::Null),
            with("timeoutSeconds", json!(31)),
            with("clientConfig", json!({})),
            with("admissionReviewVersions", json!([])),
            with("failurePolicy", json!("Odd")),
        ]
    };
    let policy = |rest: Value| {
        let mut spec = json!({"matchConstraints": {"resourceRules": rules}});
        for (key, value) in rest.as_object().expect("an object") {
            spec[key] = value.clone();
        }
        json!({"spec": spec})
    };
    vec![
        kind(
            api,
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            json!({"webhooks": [hook]}),
            bad_hooks(),
        ),
        kind(
            api,
            "mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
            json!({"webhooks": [hook]}),
            bad_hooks(),
        ),
        kind(
            api,
            "validatingadmissionpolicies",
            "ValidatingAdmissionPolicy",
            policy(json!({"validations": [{"expression": "true"}]})),
            vec![json!({"spec": {"validations": [{"expression": "true"}]}}), policy(json!({}))],
        ),
        kind(
            api,
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
            json!({"spec": {"policyName": "probe-absent", "validationActions": ["Deny"]}}),
            vec![
                json!({"spec": {}}),
                json!({"spec": {"policyName": "a", "validationActions": ["Deny", "Warn"]}}),
            ],
        ),
        kind(
            api,
            "mutatingadmissionpolicies",
            "MutatingAdmissionPolicy",
            policy(json!({"reinvocationPolicy": "Never", "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}},
            ]})),
            vec![policy(json!({"reinvocationPolicy": "Odd"}))],
        ),
        kind(
            api,
            "mutatingadmissionpolicybindings",
            "MutatingAdmissionPolicyBinding",
            json!({"spec": {"policyName": "probe-absent"}}),
            vec![json!({"spec": {}})],
        ),
    ]
    .into_iter()
    .map(|kind| kind.unlike(Difference::NotEnforced))
    .collect()
}

fn workloads() -> Vec<Kind> {
    let pods =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
    let target = json!({"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"});
    vec![
        kind(
            "v1",
            "replicationcontrollers",
            "ReplicationController",
            json!({"spec": {"template": pods, "replicas": 0}}),
            vec![json!({"spec": {}}), json!({"spec": {"template": pods, "selector": {"a": "c"}, "replicas": -1}})],
        )
        .inside()
        // Kubernetes orphans the pods of this kind alone, if nobody says what to do with them.
        .without(&["delete"]),
        kind(
            "apps/v1",
            "controllerrevisions",
            "ControllerRevision",
            json!({"revision": 2, "data": {"a": 1}}),
            vec![json!({"revision": -1, "data": {"a": 1}}), json!({"revision": 1})],
        )
        .inside(),
        kind(
            "autoscaling/v2",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            json!({"spec": {"scaleTargetRef": target, "maxReplicas": 3, "behavior": {"scaleDown": {}}}}),
            vec![json!({"spec": {}}), json!({"spec": {"scaleTargetRef": target, "maxReplicas": 1, "minReplicas": 2}})],
        )
        .inside(),
        kind(
            "autoscaling/v1",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            json!({"spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}}),
            vec![],
        )
        .inside(),
    ]
}
