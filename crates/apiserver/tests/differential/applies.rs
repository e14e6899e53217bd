//! Objects that several managers write, in turn and in every way: created, applied with and without force, replaced,
//! patched, given a status, scaled. After each step both servers must agree on the answer, on the object, on who owns
//! what, and on whether the time of each entry is a new one.

use bellwether_testkit::{Answer, Call, Cluster, eventually};
use futures::StreamExt as _;
use http::Method;
use serde_json::{Value, json};

use crate::compare::{Both, Owned, Tally};
use crate::kinds::DEFINITIONS;
use crate::rng::Rng;
use crate::writers::{self, Sort};

const SEQUENCES: u64 = 1_050;
const AT_ONCE: usize = 12;
const MANAGERS: [&str; 5] = ["alpha", "beta", "gamma", "kubectl", "delta"];

/// One request of a sequence.
#[derive(Clone, Debug)]
enum Step {
    Create(Value),
    Apply {
        body: Value,
        force: bool,
        subresource: &'static str,
    },
    /// What is there, with these parts replaced.
    Replace {
        parts: Value,
        disowns: bool,
        subresource: &'static str,
    },
    Merge {
        patch: Value,
        subresource: &'static str,
    },
    Strategic(Value),
    Json(Value),
    Scale {
        count: u64,
        how: &'static str,
    },
}

/// What a sequence does, by whom.
struct Sequence {
    seed: u64,
    sort: &'static Sort,
    steps: Vec<(&'static str, Step)>,
}

pub(crate) async fn compare(both: &Both, tally: &mut Tally) {
    for cluster in [&both.kubernetes, &both.ours] {
        cluster.post(DEFINITIONS, &writers::definition()).await.expect(201);
        eventually("objects", || async { (cluster.get(writers::CUSTOM).await.status == 200).then_some(()) })
            .await;
    }
    let mut told = futures::stream::iter((0..SEQUENCES).map(Sequence::new))
        .map(|sequence| async move { sequence.run(both).await })
        .buffered(AT_ONCE);
    while let Some(told) = told.next().await {
        for (sort, about, theirs, ours) in told {
            let [theirs, ours] = [&theirs, &ours].map(|(answer, before)| Owned { answer, before });
            tally.judge_owners(sort, &about, &theirs, &ours);
        }
    }
}

/// A pair of answers, each with what was there before.
type Told = (&'static str, String, (Answer, Value), (Answer, Value));

impl Sequence {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0xA991);
        let sort = writers::sort(seed);
        let count = 4 + rng.below(5);
        let steps = (0..count).map(|at| (*rng.pick(&MANAGERS), Step::new(&mut rng, sort, at))).collect();
        Self { seed, sort, steps }
    }

    fn name(&self) -> String {
        self.sort.name_of(self.seed)
    }

    /// Both servers take each step at once; a difference ends the sequence, as everything after it would differ.
    async fn run(&self, both: &Both) -> Vec<Told> {
        let mut told = Vec::new();
        let mut before = (Value::Null, Value::Null);
        let mut about = format!("applies, seed {}", self.seed);
        for (at, (manager, step)) in self.steps.iter().enumerate() {
            about.push_str(&format!("\n  {manager}: {step:?}"));
            let (theirs, ours) = tokio::join!(
                self.take(&both.kubernetes, manager, step, &before.0),
                self.take(&both.ours, manager, step, &before.1),
            );
            let same = theirs.status == ours.status;
            let sort = step.sort();
            told.push((sort, about.clone(), (theirs, before.0.clone()), (ours, before.1.clone())));
            if !same {
                return told;
            }
            let (theirs, ours) = tokio::join!(self.rest(&both.kubernetes, at), self.rest(&both.ours, at));
            let Some((theirs, ours)) = theirs.zip(ours) else { continue };
            let now = (theirs.json(), ours.json());
            told.push(("the past", about.clone(), (theirs, before.0), (ours, before.1)));
            before = now;
        }
        told
    }

    async fn take(&self, cluster: &Cluster, manager: &str, step: &Step, before: &Value) -> Answer {
        let path = format!("{}/{}", self.sort.path, self.name());
        let by = format!("?fieldManager={manager}");
        let mut call = match step {
            Step::Create(part) => {
                Call::post(format!("{}{by}", self.sort.path), &self.sort.object(&self.name(), part))
            }
            Step::Apply { body, force, subresource } => {
                let body = self.sort.object(&self.name(), body);
                let force = if *force { "&force=true" } else { "" };
                Call::new(Method::PATCH, format!("{path}{subresource}{by}{force}"))
                    .body("application/apply-patch+yaml", body.to_string())
            }
            Step::Replace { parts, disowns, subresource } => {
                let mut object = match before.is_null() {
                    true => self.sort.object(&self.name(), &json!({})),
                    false => before.clone(),
                };
                writers::overlay(&mut object, parts);
                if *disowns && let Some(meta) = object["metadata"].as_object_mut() {
                    meta.remove("managedFields");
                }
                Call::put(format!("{path}{subresource}{by}"), &object)
            }
            Step::Merge { patch, subresource } => Call::merge(format!("{path}{subresource}{by}"), patch),
            Step::Strategic(patch) => Call::new(Method::PATCH, format!("{path}{by}"))
                .body("application/strategic-merge-patch+json", patch.to_string()),
            Step::Json(patch) => Call::json_patch(format!("{path}{by}"), patch),
            Step::Scale { count, how } => self.scale(&path, &by, *count, how),
        };
        if manager == "delta" {
            // Who does not say a name is known by what the client calls itself.
            call.path = call.path.replace("?fieldManager=delta&", "?").replace("?fieldManager=delta", "");
            call = call.header("user-agent", "delta/v1.2 (test) something");
            if matches!(step, Step::Apply { .. } | Step::Scale { how: "apply", .. }) {
                let mark = if call.path.contains('?') { "&" } else { "?" };
                call.path = format!("{}{mark}fieldManager=delta", call.path);
            }
        }
        cluster.send(call).await
    }

    fn scale(&self, path: &str, by: &str, count: u64, how: &str) -> Call {
        let path = format!("{path}/scale{by}");
        let mut scale = json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": self.name()}, "spec": {"replicas": count},
        });
        match how {
            "merge" => Call::merge(path, &json!({"spec": {"replicas": count}})),
            "apply" | "force" => {
                let force = if how == "force" { "&force=true" } else { "" };
                Call::new(Method::PATCH, format!("{path}{force}"))
                    .body("application/apply-patch+yaml", scale.to_string())
            }
            _ => {
                scale["metadata"]["namespace"] = "default".into();
                Call::put(path, &scale)
            }
        }
    }

    /// Moves all times into the past, so that the next new one shows. An entry of nobody comes or goes with that:
    /// when only times change, nothing does.
    async fn rest(&self, cluster: &Cluster, at: usize) -> Option<Answer> {
        let path = format!("{}/{}", self.sort.path, self.name());
        let there = self.settled(cluster, &path).await;
        let object = there.json();
        let Some(entries) = object["metadata"]["managedFields"].as_array() else {
            return (there.status == 200).then_some(there);
        };
        let mut kept: Vec<Value> =
            entries.iter().filter(|entry| entry["manager"] != "clock").cloned().collect();
        for entry in &mut kept {
            if entry["time"].as_str().is_some_and(|time| !time.starts_with("2020-")) {
                entry["time"] = format!("2020-01-01T00:00:{at:02}Z").into();
            }
        }
        if kept.len() == entries.len() {
            kept.push(json!({
                "manager": "clock", "operation": "Update", "apiVersion": self.sort.api_version,
                "time": "2020-01-01T00:00:59Z", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:annotations": {"f:tick": {}}}},
            }));
        }
        let patch = json!([{"op": "replace", "path": "/metadata/managedFields", "value": kept}]);
        Some(cluster.send(Call::json_patch(format!("{path}?fieldManager=clock"), &patch)).await)
    }
}

impl Sequence {
    /// The object, once controllers are done with it.
    async fn settled(&self, cluster: &Cluster, path: &str) -> Answer {
        eventually("a settled object", || async {
            let there = cluster.get(path).await;
            let is_definition = self.sort.path.ends_with("customresourcedefinitions");
            let text = there.text();
            (!is_definition || there.status != 200 || text.contains("InitialNamesAccepted")).then_some(there)
        })
        .await
    }
}

impl Step {
    fn new(rng: &mut Rng, sort: &Sort, at: usize) -> Self {
        if at == 0 {
            let part = (sort.part)(rng);
            return match rng.below(3) {
                0 => Self::Create(writers::joined(sort.base(), part)),
                _ => Self::Apply { body: writers::joined(sort.base(), part), force: false, subresource: "" },
            };
        }
        let status = |rng: &mut Rng| sort.status.map(|status| (status(rng), "/status"));
        let main = |rng: &mut Rng| {
            let part = (sort.part)(rng);
            // Objects of some kinds need parts that only the base has.
            if rng.percent(60) { writers::joined(sort.base(), part) } else { part }
        };
        match rng.below(20) {
            0..=7 => Self::Apply { body: main(rng), force: rng.percent(35), subresource: "" },
            8 | 9 => match status(rng) {
                Some((body, subresource)) => Self::Apply { body, force: rng.percent(35), subresource },
                None => Self::Apply { body: main(rng), force: true, subresource: "" },
            },
            10..=12 => Self::Replace { parts: (sort.part)(rng), disowns: rng.percent(30), subresource: "" },
            13 => match status(rng) {
                Some((parts, subresource)) => Self::Replace { parts, disowns: false, subresource },
                None => Self::Merge { patch: (sort.part)(rng), subresource: "" },
            },
            14 => match status(rng) {
                Some((patch, subresource)) => Self::Merge { patch, subresource },
                None => Self::Merge { patch: (sort.part)(rng), subresource: "" },
            },
            15 => {
                let part = (sort.part)(rng);
                Self::Merge { patch: writers::with_nulls(rng, part), subresource: "" }
            }
            16 if sort.strategic => Self::Strategic((sort.part)(rng)),
            17 => Self::Json(json_patch(rng, sort)),
            18 | 19 if sort.scales => Self::Scale {
                count: rng.below(4) as u64,
                how: *rng.pick(&["put", "merge", "apply", "force"]),
            },
            _ => Self::Merge { patch: (sort.part)(rng), subresource: "" },
        }
    }

    fn sort(&self) -> &'static str {
        match self {
            Self::Create(_) => "creates",
            Self::Apply { subresource: "", .. } => "applies",
            Self::Apply { .. } => "applies of a status",
            Self::Replace { subresource: "", .. } => "replaces",
            Self::Replace { .. } => "replaces of a status",
            Self::Merge { subresource: "", .. } => "merge patches",
            Self::Merge { .. } => "merge patches of a status",
            Self::Strategic(_) => "strategic merges",
            Self::Json(_) => "JSON patches by managers",
            Self::Scale { .. } => "scales",
        }
    }
}

fn json_patch(rng: &mut Rng, sort: &Sort) -> Value {
    let label = json!({"op": "add", "path": "/metadata/labels", "value": {"patched": "yes", "by": "json"}});
    match rng.below(6) {
        0 => json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]),
        1 => json!([{"op": "replace", "path": "/metadata/managedFields", "value": []}, label]),
        2 => {
            json!([{"op": "add", "path": "/metadata/managedFields", "value": [{"manager": "odd", "operation": "Other"}]}, label])
        }
        3 => json!([{"op": "remove", "path": "/metadata/managedFields"}, label]),
        4 => {
            let part = (sort.part)(rng);
            let first = part.as_object().and_then(|part| part.iter().find(|part| part.0 != "metadata"));
            match first {
                Some((key, value)) => json!([{"op": "add", "path": format!("/{key}"), "value": value}]),
                None => json!([label]),
            }
        }
        _ => json!([label]),
    }
}
