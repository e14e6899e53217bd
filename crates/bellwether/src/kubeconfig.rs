//! Writes kubeconfigs: the administrator's, with a context for the hub and for every spoke, and those of users of the hub
//! alone.

use std::path::Path;

use anyhow::Context as _;
use base64::Engine as _;
use bellwether_apiserver::HUB;
use bellwether_apiserver::pki::{Credential, Pki, write_private};
use serde_json::{Value, json};

/// Writes the administrator's kubeconfig, readable by its owner only. It is JSON, which is valid YAML.
pub(crate) fn write(path: &Path, url: &str, clusters: &[String], pki: &Pki) -> anyhow::Result<()> {
    let names = std::iter::once(HUB).chain(clusters.iter().map(String::as_str));
    put(path, &document(url, names, "admin", None, pki, &pki.admin))
}

/// Writes the kubeconfig of a user of the hub; `namespace` is the default namespace of its context.
pub(crate) fn write_one(
    path: &Path,
    url: &str,
    user: &str,
    namespace: Option<&str>,
    pki: &Pki,
    credential: &Credential,
) -> anyhow::Result<()> {
    put(path, &document(url, std::iter::once(HUB), user, namespace, pki, credential))
}

fn put(path: &Path, document: &Value) -> anyhow::Result<()> {
    let text = serde_json::to_vec_pretty(document)?;
    if std::fs::read(path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    write_private(path, &text).with_context(|| format!("cannot write the kubeconfig {}", path.display()))
}

fn document<'a>(
    url: &str,
    names: impl Iterator<Item = &'a str> + Clone,
    user: &str,
    namespace: Option<&str>,
    pki: &Pki,
    credential: &Credential,
) -> Value {
    let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
    let names = || names.clone();
    let context = |name: &str| match namespace {
        Some(namespace) => json!({"cluster": name, "user": user, "namespace": namespace}),
        None => json!({"cluster": name, "user": user}),
    };
    let server = |name: &str| if name == HUB { url.to_owned() } else { format!("{url}/clusters/{name}") };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": HUB,
        "clusters": names()
            .map(|name| json!({
                "name": name,
                "cluster": {"server": server(name), "certificate-authority-data": encode(&pki.ca)},
            }))
            .collect::<Vec<_>>(),
        "users": [{
            "name": user,
            "user": {
                "client-certificate-data": encode(&credential.certificate),
                "client-key-data": encode(&credential.key),
            },
        }],
        "contexts": names()
            .map(|name| json!({"name": name, "context": context(name)}))
            .collect::<Vec<_>>(),
    })
}
