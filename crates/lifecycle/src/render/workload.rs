//! What configurations do to workloads: variables as environment, nodes, images, proxies, resources.

use bellwether_api::addon::{AddOnDeploymentConfigSpec, ContainerResources, ImageMirror, ProxyConfig};
use serde_json::{Map, Value, json};

use super::{items, part};

/// Where the certificates of a proxy are found by containers.
const CA_FOLDER: &str = "/managed/proxy-ca";
const CA_FILE: &str = "ca-bundle.crt";
const CA_VOLUME: &str = "proxy-ca";

/// Workloads that configurations are for, by their plural.
const WORKLOADS: [(&str, &str); 4] = [
    ("Deployment", "deployments"),
    ("DaemonSet", "daemonsets"),
    ("StatefulSet", "statefulsets"),
    ("ReplicaSet", "replicasets"),
];

/// Makes a workload what a configuration asks for; leaves other objects as they are.
pub(super) fn adapt(manifest: &mut Value, addon: &str, config: &AddOnDeploymentConfigSpec) {
    let text = |path: &str| manifest.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = text("/kind");
    let Some((_, plural)) = WORKLOADS.iter().find(|(name, _)| *name == kind) else { return };
    let name = text("/metadata/name");
    let Some(pod) = manifest.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut) else {
        return;
    };
    place(pod, config);
    let proxy = config.proxy_config.as_ref();
    if proxy.is_some_and(|proxy| proxy.ca_bundle.is_some()) {
        mount(pod, addon);
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
            mirror(container, &config.registries);
            require(container, plural, &name, &config.resource_requirements);
        }
    }
}

/// The certificates of proxies, as objects for the cluster.
pub(super) fn certificates(
    addon: &str,
    namespace: &str,
    configs: &[&AddOnDeploymentConfigSpec],
) -> Option<Value> {
    let proxy = configs.iter().rev().find_map(|config| config.proxy_config.as_ref())?;
    let bundle = proxy.ca_bundle.as_ref()?;
    Some(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": certificates_name(addon), "namespace": namespace},
        "binaryData": {CA_FILE: bundle},
    }))
}

fn certificates_name(addon: &str) -> String {
    format!("{addon}-proxy-ca")
}

/// On which nodes it runs. Tolerations count also where there is no selector.
fn place(pod: &mut Map<String, Value>, config: &AddOnDeploymentConfigSpec) {
    let Some(placement) = &config.node_placement else { return };
    if !placement.node_selector.is_empty() {
        pod.insert("nodeSelector".to_owned(), json!(placement.node_selector));
    }
    if !placement.tolerations.is_empty() {
        pod.insert("tolerations".to_owned(), json!(placement.tolerations));
    }
}

fn set_variable(container: &mut Map<String, Value>, name: &str, value: &str) {
    let Some(variables) = items(container, "env") else { return };
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
        // Programs look for one or the other.
        set_variable(container, name, value);
        set_variable(container, &name.to_lowercase(), value);
    }
    if proxy.ca_bundle.is_some() {
        set_variable(container, "CA_BUNDLE_FILE_PATH", &format!("{CA_FOLDER}/{CA_FILE}"));
        let Some(mounts) = items(container, "volumeMounts") else { return };
        mounts.retain(|mount| mount.get("name").and_then(Value::as_str) != Some(CA_VOLUME));
        mounts.push(json!({"name": CA_VOLUME, "mountPath": CA_FOLDER, "readOnly": true}));
    }
}

fn mount(pod: &mut Map<String, Value>, addon: &str) {
    let Some(volumes) = items(pod, "volumes") else { return };
    volumes.retain(|volume| volume.get("name").and_then(Value::as_str) != Some(CA_VOLUME));
    volumes.push(json!({"name": CA_VOLUME, "configMap": {"name": certificates_name(addon)}}));
}

/// From where the image comes: the last mirror whose source the image begins with.
fn mirror(container: &mut Map<String, Value>, registries: &[ImageMirror]) {
    let Some(image) = container.get("image").and_then(Value::as_str) else { return };
    if let Some(image) = registries.iter().rev().find_map(|mirror| mirrored(image, mirror)) {
        container.insert("image".to_owned(), image.into());
    }
}

fn mirrored(image: &str, ImageMirror { source, mirror }: &ImageMirror) -> Option<String> {
    let (source, mirror) = (source.trim_end_matches('/'), mirror.trim_end_matches('/'));
    if source.is_empty() {
        let name = image.rsplit('/').next()?;
        return Some(format!("{mirror}/{name}"));
    }
    // `quay.io/org` is no beginning of `quay.io/organisation/image`.
    let rest = image.strip_prefix(source)?;
    (rest.is_empty() || rest.starts_with(['/', ':', '@'])).then(|| format!("{mirror}{rest}"))
}

/// What the container needs: the last that fits it.
fn require(container: &mut Map<String, Value>, plural: &str, workload: &str, all: &[ContainerResources]) {
    let name = container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let fits = |one: &&ContainerResources| {
        let mut parts = one.container_id.splitn(3, ':');
        let mut is = |wanted: &str| parts.next().is_some_and(|part| part == "*" || part == wanted);
        is(plural) && is(workload) && is(&name)
    };
    let Some(found) = all.iter().rev().find(fits) else { return };
    let Some(resources) = part(container, "resources") else { return };
    if let Value::Object(wanted) = json!(found.resources) {
        resources.extend(wanted);
    }
}
