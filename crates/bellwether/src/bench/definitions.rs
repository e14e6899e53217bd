//! Custom kinds: how soon each is served after it is defined, and what memory it takes.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use super::connection::{Connection, Content};
use super::contestant::Contender;
use super::statistics::Latencies;

/// How often a kind that is not served yet is asked for.
const GLANCE: Duration = Duration::from_millis(1);
/// How long the memory may settle: Kubernetes publishes what it serves a little later.
const SETTLE: Duration = Duration::from_secs(3);

/// What came of it.
pub(super) struct Ran {
    /// From sending each definition to the first good answer to a list of its objects.
    pub(super) served: Latencies,
    pub(super) total: Duration,
    pub(super) bytes_each: f64,
}

/// Defines so many kinds, one after the other.
pub(super) async fn run(contender: &Contender, count: usize) -> anyhow::Result<Ran> {
    let mut connection = contender.access.connect().await?;
    tokio::time::sleep(SETTLE).await;
    let before = contender.resident_bytes()?;
    let mut served = Latencies::default();
    let begun = Instant::now();
    for at in 0..count {
        let sent = Instant::now();
        define(&mut connection, at).await?;
        served.add(sent.elapsed());
    }
    let total = begun.elapsed();
    tokio::time::sleep(SETTLE).await;
    let grown = contender.resident_bytes()?.saturating_sub(before);
    Ok(Ran { served, total, bytes_each: grown as f64 / count as f64 })
}

async fn define(connection: &mut Connection, at: usize) -> anyhow::Result<()> {
    let body = Content::Json(definition(at).to_string().into_bytes());
    connection.send(Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body).await?;
    let path = format!("/apis/bench{at}.example.com/v1/namespaces/default/gauges");
    while connection.get(&path).await.is_err() {
        tokio::time::sleep(GLANCE).await;
    }
    Ok(())
}

/// A definition of the size that operators' own kinds often have, each in a group of its own.
fn definition(at: usize) -> Value {
    let text = |words: &str| json!({"type": "string", "description": words, "maxLength": 253});
    let condition = json!({
        "type": "object",
        "required": ["type", "status", "lastTransitionTime"],
        "properties": {
            "type": text("What the condition is about."),
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": text("Why, in one word."),
            "message": text("Why, for a person."),
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
                    "source": text("Where the readings come from."),
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
                            "name": text("Its name."), "address": text("Its address."), "port": {"type": "integer", "minimum": 1, "maximum": 65535},
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
    let group = format!("bench{at}.example.com");
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
