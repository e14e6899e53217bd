//! CRDs: how soon each is served after its creation, and how much memory it needs.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::connection::{Connection, Content};
use crate::server::Server;
use crate::statistics::Latencies;

/// How often a new kind is listed until it is served.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// How long to wait before memory is read: Kubernetes updates its OpenAPI documents later.
const SETTLE_TIME: Duration = Duration::from_secs(3);

/// The result of the measurement.
pub(super) struct CrdResult {
    /// From sending each CRD to the first successful list of its objects.
    pub(super) served: Latencies,
    pub(super) total: Duration,
    pub(super) bytes_per_crd: f64,
}

/// Creates `count` CRDs, one after the other.
pub(super) async fn run(server: &Server, count: usize) -> anyhow::Result<CrdResult> {
    let mut connection = server.access.connect().await?;
    tokio::time::sleep(SETTLE_TIME).await;
    let before = server.resident_bytes()?;
    let mut served = Latencies::default();
    let begun = Instant::now();
    for number in 0..count {
        let sent = Instant::now();
        create_and_await(&mut connection, number).await?;
        served.add(sent.elapsed());
    }
    let total = begun.elapsed();
    tokio::time::sleep(SETTLE_TIME).await;
    let grown = server.resident_bytes()?.saturating_sub(before);
    Ok(CrdResult { served, total, bytes_per_crd: grown as f64 / count as f64 })
}

async fn create_and_await(connection: &mut Connection, number: usize) -> anyhow::Result<()> {
    let body = Content::Json(crd(number).to_string().into_bytes());
    connection.send(Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body).await?;
    let path = format!("/apis/bench{number}.example.com/v1/namespaces/default/gauges");
    while connection.get(&path).await.is_err() {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// A CRD of the size that CRDs of operators often have. Each is in its own group.
fn crd(number: usize) -> Value {
    let text = |description: &str| json!({"type": "string", "description": description, "maxLength": 253});
    let condition = json!({
        "type": "object",
        "required": ["type", "status", "lastTransitionTime"],
        "properties": {
            "type": text("The type of the condition."),
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": text("The cause, as one CamelCase word."),
            "message": text("The cause, for people."),
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
        },
    });
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["source"],
                "x-kubernetes-validations": [
                    {"rule": "!has(self.minimum) || self.minimum <= self.maximum", "message": "minimum exceeds maximum"},
                ],
                "properties": {
                    "source": text("The source of the readings."),
                    "interval": {"type": "string", "pattern": "^[0-9]+(s|m|h)$", "default": "30s"},
                    "minimum": {"type": "integer"},
                    "maximum": {"type": "integer", "default": 100},
                    "paused": {"type": "boolean", "default": false},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "targets": {
                        "type": "array",
                        "maxItems": 64,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {
                            "name": text("The name of the target."), "address": text("The address of the target."), "port": {"type": "integer", "minimum": 1, "maximum": 65535},
                        }},
                    },
                },
            },
            "status": {"type": "object", "properties": {
                "conditions": {
                    "type": "array", "items": condition,
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                },
                "reading": {"type": "number"},
            }},
        },
    });
    let group = format!("bench{number}.example.com");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gauges.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "gauges", "kind": "Gauge", "shortNames": ["ga"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Reading", "type": "number", "jsonPath": ".status.reading"}],
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}
