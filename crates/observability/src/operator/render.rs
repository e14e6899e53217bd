//! The objects of a metrics collector, from the settings of the add-on. Pure: the same settings give the same objects.

use serde_json::{Value, json};

use super::allowlist::Allowlist;
use crate::vocabulary::Component;

/// The label by which the objects of a collector are found.
pub(super) const COMPONENT_LABEL: &str = "component";
/// The port on which a collector serves its metrics.
const PORT: u16 = 8080;
/// The Secrets with the certificates of the receiving API and of the collector.
const RECEIVER_CA_SECRET: &str = "observability-managed-cluster-certs";
const CLIENT_SECRET: &str =
    "observability-controller-open-cluster-management.io-observability-signer-client-cert";

/// Where a collector reads from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The address of Prometheus.
    pub url: String,
    /// The CA certificates of Prometheus in the collector's pod, if not those of the image.
    pub ca_file: Option<String>,
    /// The bearer token for Prometheus in the collector's pod, if it needs one.
    pub token_file: Option<String>,
}

/// What a collector does.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Collector<'a> {
    pub(super) component: Component,
    pub(super) namespace: &'a str,
    pub(super) owner: &'a Value,
    pub(super) image: &'a str,
    pub(super) source: &'a Source,
    pub(super) receiver: &'a str,
    pub(super) cluster: &'a str,
    pub(super) interval_seconds: i32,
    pub(super) size_limit_bytes: i64,
    pub(super) workers: i32,
    pub(super) resources: Option<&'a Value>,
    pub(super) vocabulary: &'a str,
    pub(super) allowlist: &'a Allowlist,
}

/// Whether the collector runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Running,
    Stopped,
}

/// The value of the component label, and the prefix of object names.
pub(super) const fn label_of(component: Component) -> &'static str {
    match component {
        Component::Platform => "metrics-collector",
        Component::UserWorkload => "uwl-metrics-collector",
    }
}

/// The name of the Deployment.
pub(super) fn deployment_name(component: Component) -> String {
    format!("{}-deployment", label_of(component))
}

impl Collector<'_> {
    /// The objects other than the Deployment: identity, permissions, and the Service of its metrics.
    pub(super) fn supporting_objects(&self) -> Vec<Value> {
        let name = label_of(self.component);
        let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
        let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": self.namespace}]);
        let group = "observability.open-cluster-management.io";
        vec![
            self.object("v1", "ServiceAccount", name, json!({})),
            self.object(
                "rbac.authorization.k8s.io/v1",
                "Role",
                name,
                json!({"rules": [
                    {"apiGroups": [group], "resources": ["observabilityaddons"], "verbs": ["get"]},
                    {"apiGroups": [group], "resources": ["observabilityaddons/status"], "verbs": ["update"]},
                ]}),
            ),
            self.object(
                "rbac.authorization.k8s.io/v1",
                "RoleBinding",
                name,
                json!({"roleRef": role_ref, "subjects": subjects}),
            ),
            self.object(
                "v1",
                "Service",
                name,
                json!({"spec": {
                    "selector": {COMPONENT_LABEL: name},
                    "ports": [{"name": "metrics", "port": PORT, "targetPort": "metrics", "protocol": "TCP"}],
                }}),
            ),
        ]
    }

    /// The Deployment.
    pub(super) fn deployment(&self, scale: Scale) -> Value {
        let name = label_of(self.component);
        let labels = json!({COMPONENT_LABEL: name});
        let secret = |volume: &str, name: &str| json!({"name": volume, "secret": {"secretName": name, "optional": true}});
        let mut container = json!({
            "name": "metrics-collector",
            "image": self.image,
            "args": self.arguments(),
            "ports": [{"name": "metrics", "containerPort": PORT, "protocol": "TCP"}],
            "volumeMounts": [
                {"name": "receiver-ca", "mountPath": "/tlscerts/ca", "readOnly": true},
                {"name": "client-certificate", "mountPath": "/tlscerts/certs", "readOnly": true},
            ],
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}},
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": "metrics"}},
            "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true},
        });
        if let (Some(resources), Some(container)) = (self.resources, container.as_object_mut()) {
            container.insert("resources".to_owned(), resources.clone());
        }
        let replicas = match scale {
            Scale::Running => 1,
            Scale::Stopped => 0,
        };
        let spec = json!({
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": name,
                    "containers": [container],
                    "volumes": [
                        secret("receiver-ca", RECEIVER_CA_SECRET),
                        secret("client-certificate", CLIENT_SECRET),
                    ],
                },
            },
        });
        self.object("apps/v1", "Deployment", &deployment_name(self.component), json!({"spec": spec}))
    }

    /// The arguments of the collector's process.
    fn arguments(&self) -> Vec<String> {
        let component = match self.component {
            Component::Platform => "platform",
            Component::UserWorkload => "uwl",
        };
        let mut arguments = vec!["run".to_owned(), "collector".to_owned()];
        let mut add = |flag: &str, value: &str| arguments.push(format!("--{flag}={value}"));
        add("component", component);
        add("namespace", self.namespace);
        add("from", &self.source.url);
        if let Some(file) = &self.source.ca_file {
            add("from-ca-file", file);
        }
        if let Some(file) = &self.source.token_file {
            add("from-token-file", file);
        }
        add("to-upload", self.receiver);
        if self.receiver.starts_with("https:") {
            add("to-upload-ca", "/tlscerts/ca/ca.crt");
            add("to-upload-cert", "/tlscerts/certs/tls.crt");
            add("to-upload-key", "/tlscerts/certs/tls.key");
        }
        add("interval", &format!("{}s", self.interval_seconds));
        add("limit-bytes", &self.size_limit_bytes.to_string());
        add("worker-number", &self.workers.to_string());
        add("label", &format!("cluster={}", self.cluster));
        add("vocabulary", self.vocabulary);
        add("listen", &format!("0.0.0.0:{PORT}"));
        for selector in &self.allowlist.matches {
            add("match", selector);
        }
        for (old, new) in &self.allowlist.renames {
            add("rename", &format!("{old}={new}"));
        }
        for (name, query) in &self.allowlist.recording_rules {
            add("recordingrule", &json!({"name": name, "query": query}).to_string());
        }
        arguments
    }

    /// An object that the add-on owns.
    fn object(&self, api_version: &str, kind: &str, name: &str, fields: Value) -> Value {
        let mut object = json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {COMPONENT_LABEL: label_of(self.component)},
                "ownerReferences": [self.owner],
            },
        });
        if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
            object.extend(fields);
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(receiver: &str) -> Vec<String> {
        let allowlist = Allowlist::parse(
            "names: [up]\nrenames: {a: b}\nrecording_rules: [{record: r, expr: sum(up)}]",
            None,
        )
        .unwrap();
        let source = Source {
            url: "https://prometheus:9091".into(),
            ca_file: Some("/ca".into()),
            token_file: Some("/token".into()),
        };
        let collector = Collector {
            component: Component::Platform,
            namespace: "ns",
            owner: &json!({}),
            image: "image",
            source: &source,
            receiver,
            cluster: "spoke-1",
            interval_seconds: 300,
            size_limit_bytes: 1 << 30,
            workers: 1,
            resources: None,
            vocabulary: "seed",
            allowlist: &allowlist,
        };
        collector.arguments()
    }

    #[test]
    fn arguments_describe_the_collector() {
        let wanted = [
            "run",
            "collector",
            "--component=platform",
            "--namespace=ns",
            "--from=https://prometheus:9091",
            "--from-ca-file=/ca",
            "--from-token-file=/token",
            "--to-upload=http://receiver/write",
            "--interval=300s",
            "--limit-bytes=1073741824",
            "--worker-number=1",
            "--label=cluster=spoke-1",
            "--vocabulary=seed",
            "--listen=0.0.0.0:8080",
            r#"--match={__name__="up"}"#,
            "--rename=a=b",
            r#"--recordingrule={"name":"r","query":"sum(up)"}"#,
        ];
        assert_eq!(arguments("http://receiver/write"), wanted);
    }

    #[test]
    fn client_certificate_is_used_only_with_tls() {
        let tls = arguments("https://receiver/write");
        assert!(tls.contains(&"--to-upload-cert=/tlscerts/certs/tls.crt".to_owned()), "{tls:?}");
    }
}
