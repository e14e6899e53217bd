//! The definitions of well-known projects: they are taken as they are, and objects of their kinds are judged alike.

use bellwether_testkit::{Call, eventually};
use futures::StreamExt as _;
use serde_json::{Map, Value, json};

use crate::compare::{Both, Pair, Tally};
use crate::kinds::DEFINITIONS;
use crate::objects;
use crate::rng::Rng;

/// Names the folder of definitions, which `tests/kube/crds` prints.
const FOLDER: &str = "BELLWETHER_CRDS";
const OBJECTS: u64 = 8;

pub(crate) async fn compare(both: &Both, tally: &mut Tally) {
    let posted = futures::stream::iter(definitions())
        .map(|(about, text)| async move {
            let call = Call::new(http::Method::POST, DEFINITIONS.to_owned()).body("application/yaml", text);
            let answers = tokio::join!(both.kubernetes.send(call.clone()), both.ours.send(call));
            (about, answers)
        })
        .buffered(4);
    let posted: Vec<_> = posted.collect().await;
    let mut names = Vec::new();
    for (about, (theirs, ours)) in posted {
        assert_eq!((theirs.status, ours.status), (201, 201), "{about}: {}", ours.text());
        names.push(ours.json()["metadata"]["name"].as_str().unwrap().to_owned());
        tally.judge("published definitions", &about, &theirs, &ours);
    }
    let kinds: Vec<Vec<Pair>> =
        futures::stream::iter(&names).then(|name| async move { pairs(both, name).await }).collect().await;
    both.compare(kinds.into_iter().flatten().collect(), tally).await;
}

/// All definitions, each with its project and file.
fn definitions() -> Vec<(String, String)> {
    let folder = std::env::var(FOLDER).unwrap_or_else(|_| {
        panic!("{FOLDER} is not set: run `make test`, or set it to what tests/kube/crds prints")
    });
    let mut found = Vec::new();
    for project in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
        for file in std::fs::read_dir(project).unwrap().map(|entry| entry.unwrap().path()) {
            let text = std::fs::read_to_string(&file).unwrap();
            // Files may hold several documents; only definitions count.
            let documents =
                text.split("\n---").filter(|part| part.contains("kind: CustomResourceDefinition"));
            for document in documents {
                let about = file.strip_prefix(&folder).unwrap().display().to_string();
                found.push((about, document.trim_start_matches('-').to_owned()));
            }
        }
    }
    found.sort();
    found
}

/// Objects of every served version of a kind.
async fn pairs(both: &Both, name: &str) -> Vec<Pair> {
    let definition = both.ours.get(format!("{DEFINITIONS}/{name}")).await.expect(200);
    let spec = &definition["spec"];
    let (group, kind) = (spec["group"].as_str().unwrap(), &spec["names"]["kind"]);
    let scope = if spec["scope"] == "Namespaced" { "namespaces/default/" } else { "" };
    let mut pairs = Vec::new();
    for version in spec["versions"].as_array().unwrap().iter().filter(|version| version["served"] == true) {
        let api_version = format!("{group}/{}", version["name"].as_str().unwrap());
        let path = format!("/apis/{api_version}/{scope}{}", spec["names"]["plural"].as_str().unwrap());
        for cluster in [&both.kubernetes, &both.ours] {
            eventually(&path, || async { (cluster.get(&path).await.status == 200).then_some(()) }).await;
        }
        let schema = &version["schema"]["openAPIV3Schema"];
        for seed in 0..OBJECTS {
            let mut rng = Rng::new(seed ^ name.len() as u64);
            let odd = if seed % 3 == 0 { 0 } else { 8 };
            let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
            for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    object[name] = sparse(&mut rng, schema, odd);
                }
            }
            pairs.push(Pair {
                sort: "objects of published kinds",
                about: format!("{path} seed {seed}: {object}"),
                call: Call::post(format!("{path}?dryRun=All"), &object),
            });
        }
    }
    pairs
}

/// A value with few of the fields that it could have: the schemas are too wide for all.
fn sparse(rng: &mut Rng, schema: &Value, odd: usize) -> Value {
    let properties = schema["properties"].as_object().filter(|properties| !properties.is_empty());
    if rng.percent(odd) {
        return objects::near(rng, &json!({}));
    }
    match (schema["type"].as_str(), properties) {
        (Some("object"), Some(properties)) => {
            let names: Vec<&String> = properties.keys().collect();
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let mut chosen: Vec<&str> = required.filter(|_| !rng.percent(odd)).collect();
            for _ in 0..3 {
                chosen.push(rng.pick(&names).as_str());
            }
            let fields = chosen.into_iter().filter_map(|name| Some((name, properties.get(name)?)));
            let fields: Map<String, Value> =
                fields.map(|(name, schema)| (name.to_owned(), sparse(rng, schema, odd))).collect();
            Value::Object(fields)
        }
        (Some("array"), _) => (0..rng.below(3)).map(|_| sparse(rng, &schema["items"], odd)).collect(),
        _ if odd == 0 => objects::fitting(rng, schema),
        _ => objects::near(rng, schema),
    }
}
