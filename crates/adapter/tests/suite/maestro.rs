//! The transport `maestro`: a ManifestWork on the hub, applied by the agent of the target cluster, and its feedback.

use std::sync::Arc;

use bellwether_agent::{Agent, HubHash, work};
use bellwether_api::Place;
use bellwether_runtime::Context;
use bellwether_testkit::{Cluster, HubAndSpoke, SteadyClock, eventually, on_paused_time};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fixture::{Fixture, config_of, operations};
use crate::jobs::finish;

const WORK: &str = "/apis/work.open-cluster-management.io/v1/namespaces/spoke-1/manifestworks/mw-c1";
const TASK: &str = r#"
params:
  - {name: clusterId, source: event.id, required: true}
  - name: cluster
    source: {api_call: {method: GET, url: "clusters/{{ .clusterId }}"}}
    required: true
resources:
  - name: work
    transport: {client: maestro, maestro: {target_cluster: "spoke-1"}}
    manifest:
      apiVersion: work.open-cluster-management.io/v1
      kind: ManifestWork
      metadata:
        name: "mw-{{ .clusterId }}"
        annotations: {hyperfleet.io/generation: "{{ .cluster.generation }}"}
      spec:
        workload:
          manifests:
            - apiVersion: v1
              kind: Namespace
              metadata: {name: "{{ .clusterId }}", labels: {kind: namespace}}
            - apiVersion: v1
              kind: ConfigMap
              metadata: {name: cluster-config, namespace: "{{ .clusterId }}"}
              data: {generation: "{{ .cluster.generation }}"}
    discovery: {by_name: "mw-{{ .clusterId }}"}
    nested_discoveries:
      - {name: ns, discovery: {by_selectors: {label_selector: {kind: namespace}}}}
      - {name: config, discovery: {by_name: cluster-config}}
    lifecycle: {delete: {when: {expression: "cluster.?deleted_time.hasValue()"}}}
post:
  payloads:
    - name: status
      build:
        observed_generation: {expression: "cluster.generation"}
        conditions:
          - type: Applied
            status: {expression: "conditionStatus(resources.?work.?status.?conditions.orValue([]), 'Applied')"}
          - type: Available
            status: {expression: "statusFeedbackValue(resources.?ns.?statusFeedback.orValue({}), 'phase') == 'Active' ? 'True' : 'Unknown'"}
            message: {expression: "resources.?ns.?status.?phase.orValue('none')"}
          - {type: Health, status: {expression: "adapter.executionStatus == 'success' ? 'True' : 'False'"}}
          - {type: Finalized, status: {expression: "resources.?work.hasValue() ? 'False' : 'True'"}}
  post_actions:
    - {name: report, api_call: {method: PUT, url: "clusters/c1/statuses", body: "{{ .status }}"}}
"#;

async fn clusters() -> HubAndSpoke {
    let clusters = HubAndSpoke::embedded().await;
    let crds = |without: Place| {
        let all = bellwether_api::crds().into_iter().filter(move |crd| crd.place != without);
        all.map(|crd| serde_json::to_value(crd.crd).unwrap())
    };
    clusters.hub.install_crds(crds(Place::Spokes)).await;
    clusters.spoke.install_crds(crds(Place::Hub)).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "spoke-1"}});
    clusters.hub.post("/api/v1/namespaces", &namespace).await.expect(201);
    clusters
}

fn start_agent(clusters: &HubAndSpoke) -> JoinSet<()> {
    let agent = Agent {
        hub: clusters.hub.client(),
        cluster: "spoke-1".parse().unwrap(),
        hub_hash: HubHash::of("hub"),
        agent_id: "agent".into(),
    };
    let context =
        Context { clock: Arc::new(SteadyClock::default()), ..Context::standalone(clusters.spoke.client()) };
    let mut tasks = JoinSet::new();
    tasks.spawn(work::run(agent, context));
    tasks
}

async fn wait_for_feedback(hub: &Cluster) -> Value {
    eventually("feedback", || async {
        let work = hub.get(WORK).await.expect(200);
        work.pointer("/status/resourceStatus/manifests/0/statusFeedback/values/0").is_some().then_some(work)
    })
    .await
}

#[test]
fn manifests_reach_the_target_cluster_and_their_status_comes_back() {
    on_paused_time(async {
        let clusters = clusters().await;
        let fixture = Fixture::new(config_of(TASK), &clusters.hub);
        let trace = fixture.pulse_at(1).await;
        assert_eq!(operations(&trace), ["create"], "{:?}", trace.errors);
        assert_eq!(fixture.api.condition("Available").0, "Unknown", "nothing is reported back yet");
        let _agent = start_agent(&clusters);

        let work = wait_for_feedback(&clusters.hub).await;
        assert_eq!(
            work["spec"]["workload"]["manifests"][1]["metadata"]["annotations"]["hyperfleet.io/generation"],
            "1"
        );
        assert_eq!(operations(&fixture.pulse_at(1).await), ["skip"]);
        assert_eq!(fixture.api.condition("Applied").0, "True");
        assert_eq!(fixture.api.condition("Available").0, "True");
        assert_eq!(fixture.api.last_report()["conditions"][1]["message"], "Active");

        assert_eq!(operations(&fixture.pulse_at(2).await), ["update"]);
        let config = "/api/v1/namespaces/c1/configmaps/cluster-config";
        eventually("generation 2 on the cluster", || async {
            (clusters.spoke.get(config).await.expect(200)["data"]["generation"] == "2").then_some(())
        })
        .await;
        assert_eq!(operations(&fixture.pulse_at(1).await), ["skip"], "an older generation");
    });
}

#[test]
fn report_of_the_last_generation_does_not_count_for_the_next() {
    on_paused_time(async {
        let clusters = clusters().await;
        let fixture = Fixture::new(config_of(TASK), &clusters.hub);
        let mut agent = start_agent(&clusters);
        fixture.pulse_at(1).await;
        wait_for_feedback(&clusters.hub).await;
        fixture.pulse_at(1).await;
        assert_eq!(fixture.api.condition("Available").0, "True");
        agent.shutdown().await;

        for operation in ["update", "skip"] {
            assert_eq!(operations(&fixture.pulse_at(2).await), [operation]);
            assert_eq!(fixture.api.condition("Available").0, "Unknown", "after {operation}");
            assert_eq!(fixture.api.condition("Applied").0, "Unknown", "after {operation}");
        }
        let _agent = start_agent(&clusters);
        eventually("the report of generation 2", || async {
            fixture.pulse_at(2).await;
            (fixture.api.condition("Available").0 == "True").then_some(())
        })
        .await;
        assert_eq!(fixture.api.condition("Applied").0, "True");
    });
}

#[test]
fn work_is_deleted_with_what_it_applied() {
    on_paused_time(async {
        let clusters = clusters().await;
        let _agent = start_agent(&clusters);
        let fixture = Fixture::new(config_of(TASK), &clusters.hub);
        fixture.pulse_at(1).await;
        wait_for_feedback(&clusters.hub).await;
        fixture.api.cluster.lock()["deleted_time"] = json!("2026-01-01T00:00:00Z");
        let trace = fixture.pulse_at(2).await;
        assert_eq!(operations(&trace), ["delete"], "{:?}", trace.errors);
        eventually("the work is gone", || async {
            (clusters.hub.get(WORK).await.status == 404).then_some(())
        })
        .await;
        let config = clusters.spoke.get("/api/v1/namespaces/c1/configmaps/cluster-config").await;
        assert_eq!(config.status, 404);
        fixture.pulse_at(2).await;
        assert_eq!(fixture.api.condition("Finalized").0, "True");
    });
}

#[test]
fn target_cluster_that_does_not_exist_is_reported() {
    on_paused_time(async {
        let clusters = clusters().await;
        let task = TASK.replace("target_cluster: \"spoke-1\"", "target_cluster: nowhere");
        let fixture = Fixture::new(config_of(&task), &clusters.hub);
        let trace = fixture.pulse_at(1).await;
        let error = trace.resources[0].error.clone().unwrap();
        assert!(error.contains("nowhere"), "{error}");
        assert_eq!(fixture.api.condition("Available").0, "False");
    });
}

const JOB_TASK: &str = r#"
params:
  - {name: clusterId, source: event.id, required: true}
  - {name: generation, source: event.generation, required: true}
resources:
  - name: work
    transport: {client: maestro, maestro: {target_cluster: "spoke-1"}}
    manifest:
      apiVersion: batch/v1
      kind: Job
      metadata:
        name: "validate-{{ .clusterId }}"
        namespace: default
        annotations: {hyperfleet.io/generation: "{{ .generation }}"}
      spec:
        template:
          spec: {restartPolicy: Never, containers: [{name: validate, image: validator}]}
    discovery: {by_name: "validate-{{ .clusterId }}"}
    nested_discoveries:
      - {name: job, discovery: {by_name: "validate-{{ .clusterId }}"}}
post:
  payloads:
    - name: status
      build:
        observed_generation: {expression: "generation"}
        conditions:
          - type: Available
            status:
              expression: |
                triState(statusFeedbackValue(resources.?job.?statusFeedback.orValue({}), 'JobComplete') == 'True',
                  statusFeedbackValue(resources.?job.?statusFeedback.orValue({}), 'JobFailed') == 'True')
  post_actions:
    - {name: report, api_call: {method: PUT, url: "clusters/c1/statuses", body: "{{ .status }}"}}
"#;

#[test]
fn result_of_a_job_on_the_target_cluster_is_reported() {
    const JOB: &str = "/apis/batch/v1/namespaces/default/jobs/validate-c1";
    on_paused_time(async {
        let clusters = clusters().await;
        let _agent = start_agent(&clusters);
        for (kind, expected) in [("Complete", "True"), ("Failed", "False")] {
            let fixture = Fixture::new(config_of(JOB_TASK), &clusters.hub);
            assert_eq!(operations(&fixture.pulse().await), ["create"]);
            eventually("the Job", || async { (clusters.spoke.get(JOB).await.status == 200).then_some(()) })
                .await;
            let trace = fixture.pulse().await;
            assert!(trace.has_running_job());
            assert_eq!(fixture.api.condition("Available").0, "Unknown");
            finish(&clusters.spoke, JOB, kind).await;
            eventually("the result", || async {
                let trace = fixture.pulse().await;
                let is_reported = fixture.api.condition("Available").0 == expected;
                assert_ne!(trace.has_running_job(), is_reported);
                is_reported.then_some(())
            })
            .await;
            let work =
                "/apis/work.open-cluster-management.io/v1/namespaces/spoke-1/manifestworks/validate-c1";
            clusters.hub.delete(work).await.expect(200);
            eventually("the ManifestWork is gone", || async {
                (clusters.hub.get(work).await.status == 404).then_some(())
            })
            .await;
        }
    });
}
