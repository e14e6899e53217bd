//! The transport `kubernetes` on the embedded API server.

use bellwether_testkit::{embedded, eventually, on_paused_time};
use serde_json::json;

use crate::fixture::{Fixture, config_of, example, operations};

const NAMESPACE: &str = "/api/v1/namespaces/cluster-c1";
const CONFIG: &str = "/api/v1/namespaces/cluster-c1/configmaps/cluster-config";

#[test]
fn objects_are_created_and_reported_and_then_kept() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(example("namespace"), &cluster);
        let trace = fixture.pulse().await;
        assert_eq!(operations(&trace), ["create", "create"], "{:?}", trace.errors);
        let config = cluster.get(CONFIG).await.expect(200);
        assert_eq!(config["data"], json!({"cluster_id": "c1", "name": "one", "region": "eu"}));
        assert_eq!(config["metadata"]["annotations"]["hyperfleet.io/generation"], "1");
        assert_eq!(fixture.api.condition("Available"), ("True".into(), "Active".into()));
        assert_eq!(fixture.api.condition("Health").0, "True");
        assert_eq!(fixture.api.last_report()["observed_generation"], 1);

        let trace = fixture.pulse().await;
        assert_eq!(operations(&trace), ["skip", "skip"]);
        assert_eq!(fixture.api.reports.lock().len(), 2, "every event is reported");
        let again = cluster.get(CONFIG).await.expect(200);
        assert_eq!(again["metadata"]["resourceVersion"], config["metadata"]["resourceVersion"]);
    });
}

#[test]
fn drift_is_repaired_at_the_same_generation() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(example("namespace"), &cluster);
        fixture.pulse().await;
        cluster.merge(CONFIG, &json!({"data": {"region": "moon", "extra": "kept"}})).await.expect(200);
        let trace = fixture.pulse().await;
        assert_eq!(operations(&trace), ["skip", "update"], "{:?}", trace.errors);
        let config = cluster.get(CONFIG).await.expect(200);
        assert_eq!((&config["data"]["region"], &config["data"]["extra"]), (&json!("eu"), &json!("kept")));
        cluster.delete(CONFIG).await.expect(200);
        assert_eq!(operations(&fixture.pulse().await), ["skip", "create"]);
    });
}

#[test]
fn deployment_is_repaired_and_created_again_after_a_deletion_by_hand() {
    const TASK: &str = r#"
resources:
  - name: web
    manifest:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: web, namespace: default, annotations: {hyperfleet.io/generation: "1"}}
      spec:
        replicas: 2
        selector: {matchLabels: {app: web}}
        template:
          metadata: {labels: {app: web}}
          spec:
            containers:
              - {name: web, image: "web:1", ports: [{containerPort: 80}], resources: {limits: {cpu: 1000m}}}
    discovery: {namespace: default, by_name: web}
"#;
    const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(config_of(TASK), &cluster);
        let trace = fixture.pulse().await;
        assert_eq!(operations(&trace), ["create"], "{:?}", trace.errors);
        assert_eq!(operations(&fixture.pulse().await), ["skip"], "defaults of the API server are no drift");

        let changed = json!({"metadata": {"labels": {"by": "hand"}}, "spec": {"replicas": 5, "template": {"spec": {
            "containers": [{"name": "web", "image": "web:2"}], "terminationGracePeriodSeconds": 5}}}});
        cluster.merge(DEPLOYMENT, &changed).await.expect(200);
        let trace = fixture.pulse().await;
        assert_eq!(operations(&trace), ["update"], "{:?}", trace.errors);
        let live = cluster.get(DEPLOYMENT).await.expect(200);
        let pod = &live["spec"]["template"]["spec"];
        let repaired = (&live["spec"]["replicas"], &pod["containers"][0]["image"]);
        assert_eq!(repaired, (&json!(2), &json!("web:1")));
        let kept = (&live["metadata"]["labels"]["by"], &pod["terminationGracePeriodSeconds"]);
        assert_eq!(kept, (&json!("hand"), &json!(5)), "fields that the manifest does not name stay");
        assert_eq!(operations(&fixture.pulse().await), ["skip"]);

        cluster.delete(DEPLOYMENT).await.expect(200);
        assert_eq!(operations(&fixture.pulse().await), ["create"]);
    });
}

const ONE_CONFIG_MAP: &str = r#"
params:
  - {name: clusterId, source: event.id, required: true}
  - name: cluster
    source: {api_call: {method: GET, url: "clusters/{{ .clusterId }}"}}
    required: true
resources:
  - name: config
    manifest: |
      apiVersion: v1
      kind: ConfigMap
      metadata:
        name: generations
        namespace: default
        annotations:
          hyperfleet.io/generation: "{{ .cluster.generation }}"
      data:
        generation: "{{ .cluster.generation }}"
        {{ if lt .cluster.generation 2 }}old: "yes"{{ end }}
    discovery: {namespace: default, by_name: generations}
"#;

#[test]
fn newer_generation_replaces_an_older_one_and_never_the_reverse() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(config_of(ONE_CONFIG_MAP), &cluster);
        let path = "/api/v1/namespaces/default/configmaps/generations";
        assert_eq!(operations(&fixture.pulse_at(1).await), ["create"]);
        let trace = fixture.pulse_at(2).await;
        assert_eq!(operations(&trace), ["update"], "{:?}", trace.errors);
        let data = cluster.get(path).await.expect(200)["data"].clone();
        assert_eq!(data, json!({"generation": "2"}), "a field that the manifest no longer has is removed");

        let trace = fixture.pulse_at(1).await;
        assert_eq!(operations(&trace), ["skip"]);
        assert!(trace.resources[0].reason.as_ref().unwrap().contains("older generation 1"), "{trace:?}");
        assert_eq!(cluster.get(path).await.expect(200)["data"]["generation"], "2");
        assert_eq!(operations(&fixture.pulse_at(10).await), ["update"]);
        assert_eq!(operations(&fixture.pulse_at(9).await), ["skip"]);
    });
}

#[test]
fn recreate_on_change_deletes_and_creates() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let task =
            ONE_CONFIG_MAP.replace("  - name: config\n", "  - name: config\n    recreate_on_change: true\n");
        let fixture = Fixture::new(config_of(&task), &cluster);
        let path = "/api/v1/namespaces/default/configmaps/generations";
        fixture.pulse_at(1).await;
        let before = cluster.get(path).await.expect(200)["metadata"]["uid"].clone();
        assert_eq!(operations(&fixture.pulse_at(2).await), ["recreate"]);
        assert_ne!(cluster.get(path).await.expect(200)["metadata"]["uid"], before);
    });
}

#[test]
fn resources_are_deleted_in_their_order_and_finalized() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(example("namespace"), &cluster);
        fixture.pulse().await;
        fixture.api.cluster.lock()["deleted_time"] = json!("2026-01-01T00:00:00Z");
        let trace = fixture.pulse_at(2).await;
        assert_eq!(operations(&trace).last().unwrap(), "delete", "{trace:?}");
        assert_eq!(cluster.get(CONFIG).await.status, 404);
        assert_eq!(fixture.api.condition("Finalized").0, "False");
        let trace = fixture.pulse_at(2).await;
        assert_eq!(operations(&trace), ["delete", "skip"], "{trace:?}");
        eventually("the namespace is gone", || async {
            (cluster.get(NAMESPACE).await.status == 404).then_some(())
        })
        .await;
        fixture.pulse_at(2).await;
        assert_eq!(fixture.api.condition("Finalized").0, "True");
        assert_eq!(fixture.api.condition("Available").0, "False");
    });
}

#[test]
fn rejected_manifest_is_reported_and_later_resources_are_not_applied() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let task = ONE_CONFIG_MAP
            .replace("name: generations\n", "name: Not_Valid\n")
            .replace("by_name: generations", "by_name: x")
            + r#"
  - name: later
    manifest: {apiVersion: v1, kind: ConfigMap, metadata: {name: later, namespace: default}}
    discovery: {namespace: default, by_name: later}
post:
  payloads:
    - name: status
      build:
        observed_generation: {expression: "cluster.generation"}
        conditions:
          - {type: Available, status: "True", reason: Fine, message: fine}
          - type: Health
            status: {expression: "adapter.executionStatus == 'success' ? 'True' : 'False'"}
            reason: {expression: "adapter.errorReason"}
            message: {expression: "adapter.resourceErrors.config.message"}
  post_actions:
    - {name: report, api_call: {method: PUT, url: "clusters/c1/statuses", body: "{{ .status }}"}}
"#;
        let fixture = Fixture::new(config_of(&task), &cluster);
        let trace = fixture.pulse().await;
        let error = trace.resources[0].error.clone().unwrap();
        assert!(error.contains("was rejected by the API server"), "{error}");
        assert_eq!(trace.resources.len(), 1, "{:?}", trace.resources);
        assert_eq!(cluster.get("/api/v1/namespaces/default/configmaps/later").await.status, 404);
        assert_eq!(fixture.api.condition("Available"), ("False".into(), "ResourceApplyFailed".into()));
        assert_eq!(fixture.api.condition("Health"), ("False".into(), "ResourceApplyFailed".into()));
    });
}

#[test]
fn kind_that_is_not_served_is_an_error_that_says_so() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let task = ONE_CONFIG_MAP
            .replace("kind: ConfigMap", "kind: Widget")
            .replace("apiVersion: v1", "apiVersion: example.com/v1");
        let trace = Fixture::new(config_of(&task), &cluster).pulse().await;
        let error = trace.resources[0].error.clone().unwrap();
        assert!(error.contains("does not serve Widget of example.com/v1"), "{error}");
    });
}

#[test]
fn delete_condition_that_fails_applies_and_deletes_nothing() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let resource = |name: &str, when: &str| {
            format!(
                r#"
  - name: {name}
    manifest:
      apiVersion: v1
      kind: ConfigMap
      metadata: {{name: {name}, namespace: default, annotations: {{hyperfleet.io/generation: "{{{{ .cluster.generation }}}}"}}}}
      data: {{generation: "{{{{ .cluster.generation }}}}"}}
    discovery: {{namespace: default, by_name: {name}}}
    lifecycle: {{delete: {{when: {{expression: "{when}"}}}}}}"#
            )
        };
        let params = ONE_CONFIG_MAP.split("resources:").next().unwrap();
        let resources = resource("first", "cluster.spec.delete == true")
            + &resource("second", "cluster.spec.deelte == true");
        let fixture = Fixture::new(config_of(&format!("{params}resources:{resources}\n")), &cluster);
        fixture.api.cluster.lock()["spec"] = json!({"delete": false, "deelte": false});
        assert_eq!(operations(&fixture.pulse_at(1).await), ["create", "create"]);

        fixture.api.cluster.lock()["spec"] = json!({"delete": true});
        let trace = fixture.pulse_at(2).await;
        let error = trace.errors.values().next().unwrap();
        assert!(error.contains("nothing was applied or deleted") && error.contains("deelte"), "{error}");
        for name in ["first", "second"] {
            let live = cluster.get(format!("/api/v1/namespaces/default/configmaps/{name}")).await.expect(200);
            assert_eq!(live["data"]["generation"], "1", "{name} must be neither deleted nor applied");
        }
    });
}

#[test]
fn create_condition_gates_only_the_first_creation() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let task = ONE_CONFIG_MAP.to_owned()
            + "    lifecycle: {create: {when: {expression: \"cluster.spec.region == 'eu'\"}}}\n";
        let fixture = Fixture::new(config_of(&task), &cluster);
        fixture.api.cluster.lock()["spec"]["region"] = json!("us");
        assert_eq!(operations(&fixture.pulse_at(1).await), ["skip"]);
        fixture.api.cluster.lock()["spec"]["region"] = json!("eu");
        assert_eq!(operations(&fixture.pulse_at(1).await), ["create"]);
        fixture.api.cluster.lock()["spec"]["region"] = json!("us");
        assert_eq!(operations(&fixture.pulse_at(2).await), ["update"]);
    });
}

#[test]
fn concurrent_events_of_two_generations_end_at_the_newer() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let task = ONE_CONFIG_MAP
            .replace(".cluster.generation", ".generation")
            .replace("resources:", "  - {name: generation, source: event.generation}\nresources:");
        let fixture = Fixture::new(config_of(&task), &cluster);
        for generation in (2..40).step_by(2) {
            let (older, newer) = (crate::fixture::event(generation), crate::fixture::event(generation + 1));
            let executor = &fixture.executor;
            futures::future::join(executor.execute(&newer), executor.execute(&older)).await;
            let live = cluster.get("/api/v1/namespaces/default/configmaps/generations").await.expect(200);
            assert_eq!(live["data"]["generation"], (generation + 1).to_string());
        }
    });
}
