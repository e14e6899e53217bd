//! The built-in kinds: what each is called, and the rules that are its own.

mod config_map;
mod event;
mod lease;
mod namespace;
mod secret;
mod service;
mod service_account;

use serde_json::{Value, json};

use crate::object::Object;
use crate::registry::{Registry, Resource, Rules, Scope, Storage};

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

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}

/// The kinds that every logical cluster serves.
pub(crate) fn builtins() -> Registry {
    Registry::new(vec![
        config_map::resource(),
        event::core(),
        namespace::resource(),
        secret::resource(),
        service_account::resource(),
        service::resource(),
        lease::resource(),
        event::events(),
    ])
}

/// The parts of a description that differ from kind to kind.
struct Names {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short: &'static [&'static str],
    shape: &'static str,
}

/// A kind of version v1 that is stored as it is served.
fn describe(names: Names, scope: Scope, rules: Rules) -> Resource {
    let space = match names.group {
        "" => names.plural.to_owned(),
        group => format!("{}.{group}", names.plural),
    };
    Resource {
        group: names.group.into(),
        version: "v1".into(),
        kind: names.kind.into(),
        plural: names.plural.into(),
        singular: names.singular.into(),
        short_names: names.short.iter().map(|name| (*name).to_owned()).collect(),
        categories: Vec::new(),
        scope,
        subresources: Vec::new(),
        shape: names.shape,
        storage: Storage {
            space,
            api_version: crate::registry::group_version(names.group, "v1"),
            shape: names.shape,
        },
        view: &[],
        rules,
        selectable: &[],
        columns: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::shape::BUILTINS;

    #[test]
    fn every_kind_has_its_shape() {
        for resource in super::builtins().all() {
            assert!(BUILTINS.knows(resource.shape), "{}", resource.shape);
        }
    }
}
