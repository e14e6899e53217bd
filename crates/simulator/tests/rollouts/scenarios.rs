//! What becomes of workloads. Each scenario has a namespace of its own.

use std::time::Duration;

use bellwether_simulator::ANNOTATION;
use bellwether_testkit::{Cluster, eventually};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{delay, simulate};

const APPS: &str = "/apis/apps/v1";
const BATCH: &str = "/apis/batch/v1";

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    })
}

fn object(kind: &str, annotation: Option<&str>, spec: Value) -> Value {
    let annotations = annotation.map(|value| json!({ANNOTATION: value}));
    json!({"kind": kind, "metadata": {"name": "x", "annotations": annotations}, "spec": spec})
}

fn deployment(replicas: i32, annotation: Option<&str>) -> Value {
    let selector = json!({"matchLabels": {"app": "x"}});
    let spec = json!({"replicas": replicas, "selector": selector, "template": template("a")});
    let mut object = object("Deployment", annotation, spec);
    object["apiVersion"] = json!("apps/v1");
    object
}

fn job(annotation: Option<&str>, more: Value) -> Value {
    let mut template = template("a");
    template["spec"]["restartPolicy"] = json!("Never");
    let mut object = object("Job", annotation, json!({"template": template}));
    object["apiVersion"] = json!("batch/v1");
    object["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// One object of a kind, in a namespace of its own.
struct Subject<'a> {
    cluster: &'a Cluster,
    namespace: String,
    path: String,
    created: Instant,
}

impl<'a> Subject<'a> {
    async fn create(cluster: &'a Cluster, group: &str, plural: &str, object: &Value) -> Self {
        let namespace = cluster.namespace().await;
        let collection = format!("{group}/namespaces/{namespace}/{plural}");
        cluster.post(&collection, object).await.expect(201);
        Self { cluster, namespace, path: format!("{collection}/x"), created: Instant::now() }
    }

    async fn deployment(cluster: &'a Cluster, object: &Value) -> Self {
        Self::create(cluster, APPS, "deployments", object).await
    }

    async fn read(&self) -> Value {
        self.cluster.get(&self.path).await.expect(200)
    }

    async fn merge(&mut self, patch: Value) {
        self.cluster.merge(&self.path, &patch).await.expect(200);
        self.created = Instant::now();
    }

    /// The status, once its fields are these.
    async fn until(&self, wanted: &[(&str, Value)]) -> Value {
        eventually(&format!("{} has {wanted:?}", self.path), || async {
            let status = self.read().await["status"].take();
            wanted.iter().all(|(field, value)| status[*field] == *value).then_some(status)
        })
        .await
    }

    /// Waits until a condition has this status and reason.
    async fn until_condition(&self, kind: &str, status: &str, reason: &str) -> Value {
        let what = format!("{} has {kind}={status}/{reason}", self.path);
        eventually(&what, || async {
            let object = self.read().await;
            let found = condition(&object["status"], kind);
            (found["status"] == status && found["reason"] == reason).then_some(object["status"].clone())
        })
        .await
    }

    /// How long it took. Real time has no upper bound worth stating.
    fn took(&self, least: Duration) {
        let took = self.created.elapsed();
        // The answer to a write may arrive after the simulator has seen what was written.
        let slack = Duration::from_millis(if self.cluster.is_kubernetes() { 250 } else { 50 });
        assert!(took + slack >= least, "{}: it took only {took:?}", self.path);
        assert!(
            self.cluster.is_kubernetes() || took < least + Duration::from_millis(500),
            "it took {took:?}"
        );
    }
}

fn condition(status: &Value, kind: &str) -> Value {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

/// Lets time pass. On paused time this takes none.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

pub(crate) async fn a_deployment_becomes_available_after_the_delay(cluster: &Cluster) {
    let _simulator = simulate(cluster);
    let subject = Subject::deployment(cluster, &deployment(3, None)).await;
    let begun = subject.until(&[("observedGeneration", json!(1))]).await;
    assert_eq!(begun.get("readyReplicas"), None, "{begun:#}");
    assert_eq!(condition(&begun, "Available")["reason"], "MinimumReplicasUnavailable");
    assert_eq!(condition(&begun, "Progressing")["reason"], "ReplicaSetUpdated");

    let done = subject.until_condition("Progressing", "True", "NewReplicaSetAvailable").await;
    subject.took(delay(cluster));
    for field in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(done[field], 3, "{field}");
    }
    assert_eq!(done.get("unavailableReplicas"), None);
    assert_eq!(condition(&done, "Available")["reason"], "MinimumReplicasAvailable");
}

pub(crate) async fn a_new_template_rolls_out_while_the_old_replicas_stay_available(cluster: &Cluster) {
    let _simulator = simulate(cluster);
    let mut subject = Subject::deployment(cluster, &deployment(3, None)).await;
    subject.until(&[("availableReplicas", json!(3))]).await;
    subject.merge(json!({"spec": {"template": template("b")}})).await;
    let begun = subject.until(&[("observedGeneration", json!(2))]).await;
    assert_eq!((begun.get("updatedReplicas"), &begun["availableReplicas"]), (None, &json!(3)), "{begun:#}");
    assert_eq!(condition(&begun, "Available")["status"], "True");
    subject.until(&[("updatedReplicas", json!(3)), ("availableReplicas", json!(3))]).await;
    subject.took(delay(cluster));
}

pub(crate) async fn a_deployment_scales_to_zero_and_back(cluster: &Cluster) {
    let _simulator = simulate(cluster);
    let mut subject = Subject::deployment(cluster, &deployment(2, None)).await;
    subject.until(&[("availableReplicas", json!(2))]).await;
    subject.merge(json!({"spec": {"replicas": 0}})).await;
    let empty = subject.until(&[("observedGeneration", json!(2))]).await;
    for field in ["replicas", "readyReplicas", "availableReplicas"] {
        assert!(empty[field].is_null() || empty[field] == 0, "{empty:#}");
    }
    assert_eq!(
        condition(&empty, "Available")["status"],
        "True",
        "nothing is asked for, and nothing is missing"
    );
    subject.merge(json!({"spec": {"replicas": 2}})).await;
    subject.until(&[("observedGeneration", json!(3)), ("availableReplicas", json!(2))]).await;
    subject.took(delay(cluster));
}

pub(crate) async fn a_failing_deployment_misses_its_deadline_and_recovers_when_it_may(cluster: &Cluster) {
    let _simulator = simulate(cluster);
    let mut subject = Subject::deployment(cluster, &deployment(2, Some("fail"))).await;
    let failed = subject.until_condition("Progressing", "False", "ProgressDeadlineExceeded").await;
    subject.took(delay(cluster));
    assert_eq!(condition(&failed, "Available")["status"], "False");
    assert_eq!((failed.get("readyReplicas"), &failed["unavailableReplicas"]), (None, &json!(2)));
    subject.merge(json!({"metadata": {"annotations": {ANNOTATION: null}}})).await;
    subject.until_condition("Progressing", "True", "NewReplicaSetAvailable").await;
    subject.took(delay(cluster));
}

pub(crate) async fn what_never_becomes_ready_stays_as_it_begins(cluster: &Cluster) {
    let _simulator = simulate(cluster);
    let mut object = deployment(2, None);
    object["spec"]["template"]["metadata"]["annotations"] = json!({ANNOTATION: "never"});
    let subject = Subject::deployment(cluster, &object).await;
    let begun = subject.until(&[("observedGeneration", json!(1))]).await;
    pass(delay(cluster) * 2).await;
    assert_eq!(subject.read().await["status"], begun);
    assert_eq!(begun.get("readyReplicas"), None);
}

pub(crate) async fn a_delay_of_its_own_counts(cluster: &Cluster) {
    let _simulator = simulate(cluster);
    for (annotation, delay) in
        [("delay=5s", Duration::from_secs(5)), ("delay=500ms", Duration::from_millis(500))]
    {
        let subject = Subject::deployment(cluster, &deployment(1, Some(annotation))).await;
        subject.until(&[("availableReplicas", json!(1))]).await;
        subject.took(delay);
    }
}

pub(crate) async fn a_stateful_set_becomes_ready_and_changes_its_revision(cluster: &Cluster) {
    let _simulator = simulate(cluster);
    let mut object = deployment(3, None);
    object["kind"] = json!("StatefulSet");
    object["spec"]["serviceName"] = json!("x");
    let mut subject = Subject::create(cluster, APPS, "statefulsets", &object).await;
    let begun = subject.until(&[("observedGeneration", json!(1))]).await;
    assert_eq!((begun.get("readyReplicas"), &begun["replicas"]), (None, &json!(3)));
    let done = subject.until(&[("readyReplicas", json!(3)), ("availableReplicas", json!(3))]).await;
    subject.took(delay(cluster));
    assert_eq!((&done["currentReplicas"], &done["updatedReplicas"]), (&json!(3), &json!(3)));
    assert_eq!(done["currentRevision"], done["updateRevision"]);

    subject.merge(json!({"spec": {"template": template("b")}})).await;
    let begun = subject.until(&[("observedGeneration", json!(2))]).await;
    assert_eq!((begun.get("updatedReplicas"), &begun["readyReplicas"]), (None, &json!(3)));
    assert_eq!(begun["currentRevision"], done["currentRevision"]);
    assert_ne!(begun["updateRevision"], done["updateRevision"]);
    let updated = subject.until(&[("updatedReplicas", json!(3))]).await;
    assert_eq!(updated["currentRevision"], begun["updateRevision"]);
}

pub(crate) async fn a_daemon_set_runs_on_every_schedulable_node(cluster: &Cluster) {
    let _simulator = simulate(cluster);
    let mut object = deployment(1, None);
    object["kind"] = json!("DaemonSet");
    object["spec"].as_object_mut().unwrap().remove("replicas");
    let subject = Subject::create(cluster, APPS, "daemonsets", &object).await;
    let counts = |number: i32| {
        [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "numberAvailable",
            "updatedNumberScheduled",
        ]
        .map(|field| (field, json!(number)))
    };
    subject.until(&counts(1)).await;
    subject.took(delay(cluster));
    for (name, unschedulable) in [("one", false), ("two", false), ("three", true)] {
        let metadata = json!({"name": name});
        let node = json!({"kind": "Node", "apiVersion": "v1", "metadata": metadata, "spec": {"unschedulable": unschedulable}});
        cluster.post("/api/v1/nodes", &node).await.expect(201);
        if cluster.is_kubernetes() {
            // Admission keeps new nodes out until a controller has seen them; there is none here.
            cluster.merge(format!("/api/v1/nodes/{name}"), &json!({"spec": {"taints": null}})).await;
        }
    }
    subject.until(&counts(2)).await;
    for name in ["one", "two", "three"] {
        cluster.delete(format!("/api/v1/nodes/{name}")).await.expect(200);
    }
    subject.until(&counts(1)).await;
}

pub(crate) async fn a_job_completes(cluster: &Cluster) {
    let _simulator = simulate(cluster);
    let spec = json!({"completions": 5, "parallelism": 2, "completionMode": "Indexed"});
    let subject = Subject::create(cluster, BATCH, "jobs", &job(None, spec)).await;
    let begun = subject.until(&[("active", json!(2))]).await;
    assert!(begun["startTime"].is_string());
    let done = subject.until_condition("Complete", "True", "CompletionsReached").await;
    subject.took(delay(cluster));
    assert_eq!(condition(&done, "SuccessCriteriaMet")["status"], "True");
    assert_eq!((&done["succeeded"], &done["completedIndexes"]), (&json!(5), &json!("0-4")));
    assert_eq!(done["startTime"], begun["startTime"]);
    assert!(done["completionTime"].is_string() && done.get("active").is_none(), "{done:#}");
}

pub(crate) async fn a_job_fails(cluster: &Cluster) {
    let _simulator = simulate(cluster);
    let subject =
        Subject::create(cluster, BATCH, "jobs", &job(Some("fail"), json!({"backoffLimit": 1}))).await;
    let failed = subject.until_condition("Failed", "True", "BackoffLimitExceeded").await;
    subject.took(delay(cluster));
    assert_eq!(condition(&failed, "FailureTarget")["status"], "True");
    assert_eq!((&failed["failed"], failed.get("completionTime")), (&json!(2), None));
}

pub(crate) async fn a_suspended_job_waits(cluster: &Cluster) {
    let _simulator = simulate(cluster);
    let mut subject = Subject::create(cluster, BATCH, "jobs", &job(None, json!({"suspend": true}))).await;
    let waiting = subject.until_condition("Suspended", "True", "JobSuspended").await;
    pass(delay(cluster) * 2).await;
    assert_eq!(subject.read().await["status"], waiting);
    assert_eq!(waiting.get("startTime"), None);
    subject.merge(json!({"spec": {"suspend": false}})).await;
    let done = subject.until_condition("Complete", "True", "CompletionsReached").await;
    subject.took(delay(cluster));
    assert_eq!(condition(&done, "Suspended")["status"], "False");
}

pub(crate) async fn an_unreadable_annotation_is_told_once_and_ignored(cluster: &Cluster) {
    let _simulator = simulate(cluster);
    let subject = Subject::deployment(cluster, &deployment(1, Some("perhaps"))).await;
    subject.until(&[("availableReplicas", json!(1))]).await;
    let events = format!("/apis/events.k8s.io/v1/namespaces/{}/events", subject.namespace);
    let events: Value = cluster.get(events).await.expect(200);
    let told = events["items"].as_array().unwrap();
    assert_eq!(told.len(), 1, "{told:#?}");
    assert_eq!(told[0]["reason"], "UnreadableAnnotation");
    assert!(told[0]["note"].as_str().unwrap().contains("\"perhaps\""), "{}", told[0]["note"]);
    assert_eq!(told[0]["regarding"]["name"], "x");
}

pub(crate) async fn nothing_is_written_when_nothing_changes(cluster: &Cluster) {
    let simulator = simulate(cluster);
    let mut subject = Subject::deployment(cluster, &deployment(2, None)).await;
    subject.until(&[("availableReplicas", json!(2))]).await;
    subject.merge(json!({"metadata": {"labels": {"touched": "yes"}}})).await;
    let version = subject.read().await["metadata"]["resourceVersion"].clone();
    pass(delay(cluster) * 2).await;
    assert_eq!(subject.read().await["metadata"]["resourceVersion"], version);
    drop(simulator);
}

pub(crate) async fn a_restart_leaves_what_is_ready_alone_and_finishes_what_was_begun(cluster: &Cluster) {
    let simulator = simulate(cluster);
    let ready = Subject::deployment(cluster, &deployment(2, None)).await;
    ready.until(&[("availableReplicas", json!(2))]).await;
    let version = ready.read().await["metadata"]["resourceVersion"].clone();
    let begun = Subject::create(cluster, BATCH, "jobs", &job(None, json!({}))).await;
    let started = begun.until(&[("active", json!(1))]).await["startTime"].clone();
    drop(simulator);

    let _simulator = simulate(cluster);
    let done = begun.until_condition("Complete", "True", "CompletionsReached").await;
    assert_eq!(done["startTime"], started);
    pass(delay(cluster)).await;
    assert_eq!(ready.read().await["metadata"]["resourceVersion"], version, "nothing was written");
}
