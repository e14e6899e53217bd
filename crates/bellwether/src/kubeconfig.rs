//! The kubeconfig of the administrator: one context for the hub and one for every spoke.

use std::path::Path;

use anyhow::Context as _;
use base64::Engine as _;
use bellwether_apiserver::HUB;
use bellwether_apiserver::pki::{Pki, write_private};
use serde_json::{Value, json};

/// Writes the kubeconfig, readable by its owner only. JSON is YAML, so there is no second format to get right.
pub(crate) fn write(path: &Path, url: &str, clusters: &[String], pki: &Pki) -> anyhow::Result<()> {
    let document = document(url, clusters, pki);
    let text = serde_json::to_vec_pretty(&document)?;
    if std::fs::read(path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    write_private(path, &text).context("the kubeconfig could not be written")
}

fn document(url: &str, clusters: &[String], pki: &Pki) -> Value {
    let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
    let names = || std::iter::once(HUB).chain(clusters.iter().map(String::as_str));
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
            "name": "admin",
            "user": {
                "client-certificate-data": encode(&pki.admin.certificate),
                "client-key-data": encode(&pki.admin.key),
            },
        }],
        "contexts": names()
            .map(|name| json!({"name": name, "context": {"cluster": name, "user": "admin"}}))
            .collect::<Vec<_>>(),
    })
}
