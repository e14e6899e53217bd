//! Kinds made up at random, on both servers, and the requests to make of them.

use bellwether_testkit::{Call, Cluster, eventually};
use serde_json::{Map, Value, json};

use crate::compare::{Both, Pair, Tally};
use crate::objects;
use crate::rng::Rng;
use crate::schemas;

pub(crate) const GROUP: &str = "differential.example.com";
/// How many fields of its spec a kind has: each is a schema of its own.
const FIELDS: usize = 8;
const OBJECTS: usize = 26;
const DEPTH: usize = 3;

/// A generated kind.
pub(crate) struct Kind {
    seed: u64,
    name: String,
    properties: Map<String, Value>,
}

impl Kind {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let depth = |rng: &mut Rng| rng.below(DEPTH + 1);
        let properties = (0..FIELDS)
            .map(|at| {
                let depth = depth(&mut rng);
                (format!("f{at}"), schemas::schema(&mut rng, depth))
            })
            .collect();
        Self { seed, name: format!("Kind{seed}"), properties }
    }

    fn plural(&self) -> String {
        self.name.to_lowercase()
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// The fields of its spec, each with its schema.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.properties.iter()
    }

    pub(crate) fn objects_path(&self) -> String {
        format!("/apis/{GROUP}/v1/namespaces/default/{}", self.plural())
    }

    fn definition_of(&self, properties: &Map<String, Value>) -> Value {
        let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "phase": {"type": "string", "enum": ["Up", "Down"]}, "count": {"type": "integer", "default": 7},
        }});
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": properties}, "status": status,
        }});
        definition(GROUP, &self.name, schema)
    }

    /// Drops the fields whose schemas are refused; the judgement of each is a pair.
    pub(crate) async fn prepare(&mut self, both: &Both, tally: &mut Tally) {
        let mut pairs = Vec::new();
        for (name, schema) in &self.properties {
            let definition = self.definition_of(&Map::from_iter([(name.clone(), schema.clone())]));
            pairs.push(Pair {
                sort: "schemas",
                about: format!("seed {} {name}: {schema}", self.seed),
                call: Call::post(format!("{DEFINITIONS}?dryRun=All"), &definition),
            });
        }
        let names: Vec<String> = self.properties.keys().cloned().collect();
        for (name, accepted) in names.iter().zip(both.compare(pairs, tally).await) {
            if !accepted {
                self.properties.remove(name);
            }
        }
    }

    pub(crate) async fn create(&self, cluster: &Cluster) {
        let definition = self.definition_of(&self.properties);
        let answer = cluster.post(DEFINITIONS, &definition).await;
        assert_eq!(answer.status, 201, "{} {definition}", answer.text());
    }

    pub(crate) async fn served(&self, cluster: &Cluster) {
        let path = self.objects_path();
        eventually(&path, || async { (cluster.get(&path).await.status == 200).then_some(()) }).await;
    }

    pub(crate) fn object(&self, spec: Value) -> Value {
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": self.name, "metadata": {"name": "x"}, "spec": spec})
    }

    /// Dry-run creates of objects at the edge of the kind's schema.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        let mut rng = Rng::new(self.seed ^ 0x5EED);
        let names: Vec<&String> = self.properties.keys().collect();
        if names.is_empty() {
            return Vec::new();
        }
        (0..OBJECTS).map(|at| self.pair(&mut rng, at, &names)).collect()
    }

    fn pair(&self, rng: &mut Rng, at: usize, names: &[&String]) -> Pair {
        let name = names[at % names.len()];
        let schema = &self.properties[name];
        let value = if at < names.len() { objects::fitting(rng, schema) } else { objects::near(rng, schema) };
        let about = format!("seed {} {name}: {schema}\n    value: {value}", self.seed);
        let mut object = self.object(json!({name.as_str(): value}));
        if rng.percent(8) {
            oddities(rng, &mut object);
        }
        let path = format!("{}?dryRun=All", self.objects_path());
        let post =
            |path: String, text: String| Call::new(http::Method::POST, path).body("application/json", text);
        match rng.below(10) {
            0 => {
                let text = objects::with_duplicate(rng, &object);
                Pair {
                    sort: "strict duplicates",
                    about: format!("{about}\n    text: {text}"),
                    call: post(format!("{path}&fieldValidation=Strict"), text),
                }
            }
            1 => {
                let text = objects::with_duplicate(rng, &object);
                Pair {
                    sort: "warned duplicates",
                    about: format!("{about}\n    text: {text}"),
                    call: post(path, text),
                }
            }
            2 | 3 => Pair {
                sort: "strict objects",
                about,
                call: Call::post(format!("{path}&fieldValidation=Strict"), &object),
            },
            4 => Pair {
                sort: "ignorant objects",
                about,
                call: Call::post(format!("{path}&fieldValidation=Ignore"), &object),
            },
            _ => Pair { sort: "objects", about, call: Call::post(path, &object) },
        }
    }
}

/// Something odd outside of the spec.
fn oddities(rng: &mut Rng, object: &mut Value) {
    match rng.below(16) {
        0 => object["metadata"]["odd"] = json!({"a": 1}),
        1 => object["odd"] = json!(1),
        2 => object["metadata"]["labels"] = json!({"a": 5}),
        3 => object["metadata"]["labels"] = json!({"a b": "c d"}),
        4 => object["metadata"]["name"] = "No_Name".into(),
        5 => object["metadata"]["finalizers"] = json!(["bare"]),
        6 => object["status"] = json!({"phase": "Odd", "more": {"x": 1}}),
        7 => object["spec"]["unknown"] = json!([{"a": 1}]),
        8 => object["kind"] = "Other".into(),
        9 => object["apiVersion"] = "other.example.com/v1".into(),
        10 => object["apiVersion"] = format!("{GROUP}/v2").into(),
        11 => object["metadata"]["namespace"] = "other".into(),
        12 => object["metadata"]["generateName"] = "x-".into(),
        13 => object["metadata"]["annotations"] = json!({"a": "b", "c d": ""}),
        14 => object["metadata"]["finalizers"] = json!(["a.example.com", "example.com/x", "orphan"]),
        _ => object["metadata"]["ownerReferences"] = json!([{"name": "x", "odd": 2}]),
    }
}

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition with one version.
pub(crate) fn definition(group: &str, kind: &str, schema: Value) -> Value {
    let plural = kind.to_lowercase();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    })
}
