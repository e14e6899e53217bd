//! What pods are made of, wherever it is written: in a Pod, or in the template of whatever makes pods.
//! The checks are the ones that people run into; nothing here ever starts a container.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::cells::text_of;
use super::defaults::{Row, To, each, fill};
use crate::field::FieldError;
use crate::names;
use crate::object::Object;

const SPEC: &[Row] = &[
    ("", "dnsPolicy", To::Text("ClusterFirst")),
    ("", "restartPolicy", To::Text("Always")),
    ("", "schedulerName", To::Text("default-scheduler")),
    ("", "securityContext", To::Empty),
    ("", "terminationGracePeriodSeconds", To::Number(30)),
    ("volumes[].secret", "defaultMode", To::Number(MODE)),
    ("volumes[].configMap", "defaultMode", To::Number(MODE)),
    ("volumes[].downwardAPI", "defaultMode", To::Number(MODE)),
    ("volumes[].downwardAPI.items[].fieldRef", "apiVersion", To::Text("v1")),
    ("volumes[].projected", "defaultMode", To::Number(MODE)),
    ("volumes[].projected.sources[].serviceAccountToken", "expirationSeconds", To::Number(3600)),
    ("volumes[].projected.sources[].downwardAPI.items[].fieldRef", "apiVersion", To::Text("v1")),
    ("volumes[].hostPath", "type", To::Text("")),
    ("volumes[].iscsi", "iscsiInterface", To::Text("default")),
    ("volumes[].rbd", "keyring", To::Text("/etc/ceph/keyring")),
    ("volumes[].rbd", "pool", To::Text("rbd")),
    ("volumes[].rbd", "user", To::Text("admin")),
    ("volumes[].azureDisk", "cachingMode", To::Text("ReadWrite")),
    ("volumes[].azureDisk", "fsType", To::Text("ext4")),
    ("volumes[].azureDisk", "kind", To::Text("Shared")),
    ("volumes[].azureDisk", "readOnly", To::No),
    ("volumes[].ephemeral.volumeClaimTemplate.spec", "volumeMode", To::Text("Filesystem")),
];
/// 0644, as files are.
const MODE: i64 = 420;

const CONTAINER: &[Row] = &[
    ("", "terminationMessagePath", To::Text("/dev/termination-log")),
    ("", "terminationMessagePolicy", To::Text("File")),
    ("ports[]", "protocol", To::Text("TCP")),
    ("env[].valueFrom.fieldRef", "apiVersion", To::Text("v1")),
    ("lifecycle.preStop.httpGet", "path", To::Text("/")),
    ("lifecycle.preStop.httpGet", "scheme", To::Text("HTTP")),
    ("lifecycle.postStart.httpGet", "path", To::Text("/")),
    ("lifecycle.postStart.httpGet", "scheme", To::Text("HTTP")),
];

const PROBE: &[Row] = &[
    ("", "failureThreshold", To::Number(3)),
    ("", "periodSeconds", To::Number(10)),
    ("", "successThreshold", To::Number(1)),
    ("", "timeoutSeconds", To::Number(1)),
    ("httpGet", "path", To::Text("/")),
    ("httpGet", "scheme", To::Text("HTTP")),
    ("grpc", "service", To::Text("")),
];

const CONTAINERS: [&str; 2] = ["containers[]", "initContainers[]"];
const VOLUME_NAME: &str = "name";

/// Fills in what Kubernetes fills in.
pub(super) fn default(spec: &mut Object) {
    each(spec, "volumes[]", &mut |volume| {
        if volume.keys().all(|key| key == VOLUME_NAME) {
            volume.insert("emptyDir".into(), Value::Object(Map::new()));
        }
    });
    fill(spec, SPEC);
    if let Some(account) = spec.get("serviceAccountName").filter(|account| account.as_str() != Some("")) {
        let account = account.clone();
        spec.insert("serviceAccount".into(), account);
    } else if let Some(account) = spec.get("serviceAccount").cloned() {
        spec.insert("serviceAccountName".into(), account);
    }
    // A wait that is none is the shortest.
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|wait| wait < 0) {
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
    for containers in CONTAINERS {
        each(spec, containers, &mut default_container);
    }
}

fn default_container(container: &mut Object) {
    fill(container, CONTAINER);
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = if is_moving(image) { "Always" } else { "IfNotPresent" };
    container.entry("imagePullPolicy").or_insert_with(|| policy.into());
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        each(container, probe, &mut |probe| fill(probe, PROBE));
    }
}

/// What a pod gets beyond its template's defaults: requests follow limits, and ports of the host those of containers.
pub(super) fn default_pod(spec: &mut Object) {
    default(spec);
    let on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for containers in CONTAINERS {
        each(spec, containers, &mut |container| {
            each(container, "resources", &mut requests_follow_limits);
            if on_host {
                each(container, "ports[]", &mut |port| {
                    if let Some(number) = port.get("containerPort").cloned() {
                        port.entry("hostPort").or_insert(number);
                    }
                });
            }
        });
    }
    fill(spec, &[("", "enableServiceLinks", To::Yes)]);
}

fn requests_follow_limits(resources: &mut Object) {
    let limits = resources.get("limits").and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, limit) in limits {
        let requests = resources.entry("requests").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(requests) = requests {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// Whether a name of an image may mean another image tomorrow.
fn is_moving(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// What is wrong with a spec at a path.
pub(super) fn validate(spec: Option<&Value>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let list = |key: &str| {
        let items = spec.and_then(|spec| spec.get(key)).and_then(Value::as_array);
        items.map(Vec::as_slice).unwrap_or_default()
    };
    let volumes = list("volumes");
    unique_names(volumes, &format!("{path}.volumes"), &mut errors);
    let mounted: Vec<&str> = volumes
        .iter()
        .enumerate()
        .filter(|(at, volume)| one_source(volume, &format!("{path}.volumes[{at}]"), &mut errors))
        .map(|(_, volume)| text_of(volume, "name"))
        .collect();
    let containers = list("containers");
    if containers.is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut seen = HashSet::new();
    for (key, containers) in [("containers", containers), ("initContainers", list("initContainers"))] {
        for (at, container) in containers.iter().enumerate() {
            let path = format!("{path}.{key}[{at}]");
            validate_container(container, &mounted, &path, &mut errors);
            let name = text_of(container, "name");
            if !(name.is_empty() || seen.insert(name)) {
                errors.push(FieldError::duplicate(format!("{path}.name"), name));
            }
        }
    }
    let one_of = |key: &str, allowed: &[&str], errors: &mut Vec<FieldError>| {
        let given = spec.map(|spec| text_of(spec, key)).unwrap_or_default();
        if !given.is_empty() && !allowed.contains(&given) {
            errors.push(FieldError::not_supported(format!("{path}.{key}"), given, allowed));
        }
    };
    one_of("restartPolicy", &["Always", "OnFailure", "Never"], &mut errors);
    one_of("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], &mut errors);
    for (at, toleration) in list("tolerations").iter().enumerate() {
        if text_of(toleration, "key").is_empty() && text_of(toleration, "operator") != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            let field = format!("{path}.tolerations[{at}].operator");
            errors.push(FieldError::invalid(field, text_of(toleration, "operator"), detail));
        }
    }
    errors
}

/// The kinds of volumes, in the order in which Kubernetes looks for them.
const SOURCES: [&str; 29] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Whether a volume is of one kind.
fn one_source(volume: &Value, path: &str, errors: &mut Vec<FieldError>) -> bool {
    let mut more = SOURCES.iter().filter(|source| volume.get(source).is_some()).skip(1).peekable();
    let fits = more.peek().is_none();
    for source in more {
        let detail = "may not specify more than 1 volume type";
        errors.push(FieldError::forbidden(format!("{path}.{source}"), detail));
    }
    fits
}

fn unique_names(items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    for (at, item) in items.iter().enumerate() {
        let name = text_of(item, "name");
        let field = format!("{path}[{at}].name");
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        for problem in names::label(name) {
            errors.push(FieldError::invalid(&field, name, problem));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(field, name));
        }
    }
}

fn validate_container(container: &Value, volumes: &[&str], path: &str, errors: &mut Vec<FieldError>) {
    let field = |key: &str| format!("{path}.{key}");
    match text_of(container, "name") {
        "" => errors.push(FieldError::required(field("name"), "")),
        name => {
            for problem in names::label(name) {
                errors.push(FieldError::invalid(field("name"), name, problem));
            }
        }
    }
    if text_of(container, "image").is_empty() {
        errors.push(FieldError::required(field("image"), ""));
    }
    let items = |key: &str| container.get(key).and_then(Value::as_array).into_iter().flatten().enumerate();
    for (at, port) in items("ports") {
        validate_port(port, &field(&format!("ports[{at}]")), errors);
    }
    for (at, variable) in items("env") {
        if text_of(variable, "name").is_empty() {
            errors.push(FieldError::required(field(&format!("env[{at}].name")), ""));
        }
    }
    for (at, mount) in items("volumeMounts") {
        let name = text_of(mount, "name");
        if !volumes.contains(&name) {
            errors.push(FieldError::not_found(field(&format!("volumeMounts[{at}].name")), name));
        }
        if text_of(mount, "mountPath").is_empty() {
            errors.push(FieldError::required(field(&format!("volumeMounts[{at}].mountPath")), ""));
        }
    }
    const POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
    let policy = text_of(container, "imagePullPolicy");
    if !policy.is_empty() && !POLICIES.contains(&policy) {
        errors.push(FieldError::not_supported(field("imagePullPolicy"), policy, &POLICIES));
    }
}

fn validate_port(port: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let name = text_of(port, "name");
    if !name.is_empty() {
        for problem in names::port_name(name) {
            errors.push(FieldError::invalid(format!("{path}.name"), name, problem));
        }
    }
    let field = format!("{path}.containerPort");
    match port.get("containerPort").and_then(Value::as_i64).unwrap_or(0) {
        0 => errors.push(FieldError::required(field, "")),
        1..=65535 => {}
        other => {
            errors.push(FieldError::invalid(field, other, "must be between 1 and 65535, inclusive"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_image_without_a_fixed_tag_is_pulled_always() {
        for (image, moving) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.2", false),
            ("registry:5000/nginx", true),
            ("registry:5000/nginx:1", false),
            ("nginx@sha256:abc", false),
        ] {
            assert_eq!(is_moving(image), moving, "{image}");
        }
    }

    #[test]
    fn the_requests_of_a_pod_follow_its_limits_and_a_volume_without_source_is_empty() {
        let mut spec = json!({
            "containers": [{"name": "a", "image": "x", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}}],
            "volumes": [{"name": "v"}],
        });
        default_pod(spec.as_object_mut().unwrap());
        assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
        assert_eq!(spec["volumes"][0], json!({"name": "v", "emptyDir": {}}));
    }
}
