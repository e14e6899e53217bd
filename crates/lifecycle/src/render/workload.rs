//! Applies an AddOnDeploymentConfig to workloads: environment variables, node placement, images, proxies and resources.
//! Other objects stay unchanged.

use bellwether_api::addon::{AddOnDeploymentConfigSpec, ContainerResources, ImageMirror, ProxyConfig};
use serde_json::{Map, Value, json};

use super::{list_field, object_field};

/// The directory in containers where the CA bundle of the proxy is mounted.
const CA_DIRECTORY: &str = "/managed/proxy-ca";
const CA_FILE: &str = "ca-bundle.crt";
const CA_VOLUME: &str = "proxy-ca";

/// The kinds of workloads that configurations apply to, with their resource names.
const WORKLOADS: [(&str, &str); 4] = [
    ("Deployment", "deployments"),
    ("DaemonSet", "daemonsets"),
    ("StatefulSet", "statefulsets"),
    ("ReplicaSet", "replicasets"),
];

/// Applies a configuration to a workload; other objects stay unchanged.
pub(super) fn apply_config(manifest: &mut Value, addon: &str, config: &AddOnDeploymentConfigSpec) {
    let text = |path: &str| manifest.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = text("/kind");
    let Some((_, plural)) = WORKLOADS.iter().find(|(name, _)| *name == kind) else { return };
    let name = text("/metadata/name");
    let Some(pod) = manifest.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut) else {
        return;
    };
    set_node_placement(pod, config);
    let proxy = config.proxy_config.as_ref();
    if proxy.is_some_and(|proxy| proxy.ca_bundle.is_some()) {
        add_ca_volume(pod, addon);
    }
    for list in ["initContainers", "containers"] {
        let containers = pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            for variable in &config.customized_variables {
                set_variable(container, &variable.name, &variable.value);
            }
            if let Some(proxy) = proxy {
                set_proxy(container, proxy);
            }
            replace_image(container, &config.registries);
            set_resources(container, plural, &name, &config.resource_requirements);
        }
    }
}

/// A ConfigMap with the CA bundle of the proxy, if a configuration has one.
pub(super) fn ca_config_map(
    addon: &str,
    namespace: &str,
    configs: &[&AddOnDeploymentConfigSpec],
) -> Option<Value> {
    let proxy = configs.iter().rev().find_map(|config| config.proxy_config.as_ref())?;
    let bundle = proxy.ca_bundle.as_ref()?;
    Some(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": ca_config_map_name(addon), "namespace": namespace},
        "binaryData": {CA_FILE: bundle},
    }))
}

fn ca_config_map_name(addon: &str) -> String {
    format!("{addon}-proxy-ca")
}

/// Sets node selector and tolerations, each if the configuration has it.
fn set_node_placement(pod: &mut Map<String, Value>, config: &AddOnDeploymentConfigSpec) {
    let Some(placement) = &config.node_placement else { return };
    if !placement.node_selector.is_empty() {
        pod.insert("nodeSelector".to_owned(), json!(placement.node_selector));
    }
    if !placement.tolerations.is_empty() {
        pod.insert("tolerations".to_owned(), json!(placement.tolerations));
    }
}

fn set_variable(container: &mut Map<String, Value>, name: &str, value: &str) {
    let Some(variables) = list_field(container, "env") else { return };
    variables.retain(|variable| variable.get("name").and_then(Value::as_str) != Some(name));
    variables.push(json!({"name": name, "value": value}));
}

fn set_proxy(container: &mut Map<String, Value>, proxy: &ProxyConfig) {
    let variables = [
        ("HTTP_PROXY", &proxy.http_proxy),
        ("HTTPS_PROXY", &proxy.https_proxy),
        ("NO_PROXY", &proxy.no_proxy),
    ];
    for (name, value) in variables.into_iter().filter(|(_, value)| !value.is_empty()) {
        // Some programs read the upper-case variable, others the lower-case one.
        set_variable(container, name, value);
        set_variable(container, &name.to_lowercase(), value);
    }
    if proxy.ca_bundle.is_some() {
        set_variable(container, "CA_BUNDLE_FILE_PATH", &format!("{CA_DIRECTORY}/{CA_FILE}"));
        let Some(mounts) = list_field(container, "volumeMounts") else { return };
        mounts.retain(|mount| mount.get("name").and_then(Value::as_str) != Some(CA_VOLUME));
        mounts.push(json!({"name": CA_VOLUME, "mountPath": CA_DIRECTORY, "readOnly": true}));
    }
}

fn add_ca_volume(pod: &mut Map<String, Value>, addon: &str) {
    let Some(volumes) = list_field(pod, "volumes") else { return };
    volumes.retain(|volume| volume.get("name").and_then(Value::as_str) != Some(CA_VOLUME));
    volumes.push(json!({"name": CA_VOLUME, "configMap": {"name": ca_config_map_name(addon)}}));
}

/// Replaces the registry of the image: the last mirror whose source is a prefix of the image applies.
fn replace_image(container: &mut Map<String, Value>, registries: &[ImageMirror]) {
    let Some(image) = container.get("image").and_then(Value::as_str) else { return };
    if let Some(image) = registries.iter().rev().find_map(|mirror| mirrored_image(image, mirror)) {
        container.insert("image".to_owned(), image.into());
    }
}

fn mirrored_image(image: &str, ImageMirror { source, mirror }: &ImageMirror) -> Option<String> {
    let (source, mirror) = (source.trim_end_matches('/'), mirror.trim_end_matches('/'));
    if source.is_empty() {
        let name = image.rsplit('/').next()?;
        return Some(format!("{mirror}/{name}"));
    }
    // `quay.io/org` must not match `quay.io/organisation/image`.
    let rest = image.strip_prefix(source)?;
    (rest.is_empty() || rest.starts_with(['/', ':', '@'])).then(|| format!("{mirror}{rest}"))
}

/// Sets the resource requirements of the container: the last entry that matches it applies.
fn set_resources(
    container: &mut Map<String, Value>,
    plural: &str,
    workload: &str,
    all: &[ContainerResources],
) {
    let name = container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let matches = |one: &&ContainerResources| {
        let mut parts = one.container_id.splitn(3, ':');
        let mut matches_part =
            |expected: &str| parts.next().is_some_and(|part| part == "*" || part == expected);
        matches_part(plural) && matches_part(workload) && matches_part(&name)
    };
    let Some(found) = all.iter().rev().find(matches) else { return };
    let Some(resources) = object_field(container, "resources") else { return };
    if let Value::Object(required) = json!(found.resources) {
        resources.extend(required);
    }
}
