//! The use cases of Ready and Available, with adapters that report what they find on a cluster: each reports the value `available` of
//! a ConfigMap, which the test changes.

use std::collections::BTreeMap;

use axum::http::Method;
use bellwether_fleet::client::{Client, ListOf};
use bellwether_fleet::resource::{AdapterStatus, LogEntry, Resource, Verdict};
use bellwether_testkit::eventually;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tempfile::TempDir;

use crate::pulses::{cluster, condition, create, sqlite, start_kubernetes, update, wait_for_ready};
use crate::server::{FleetApi, Server, bellwether, fleet_api};

const ADAPTERS: [&str; 2] = ["dns", "network"];

const FLEET: &str = "entities: [{kind: Cluster, plural: clusters, required_adapters: [dns, network]}]";

/// Every cluster is pulsed again after a second, also a ready one, so that the tests need not wait for 30 min.
const SENTINEL: &str = r#"
resource_type: clusters
poll_interval: 200ms
message_decision:
  params:
    - {name: ref_time, expr: 'condition("Ready").last_updated_time'}
    - {name: is_new_generation, expr: 'resource.generation > condition("Ready").observed_generation'}
  result: is_new_generation || (ref_time != "" && now - timestamp(ref_time) > duration("1s"))
"#;

const TASK: &str = r#"
params:
  - {name: clusterId, source: event.id, required: true}
  - {name: cluster, source: {api_call: {method: GET, url: "clusters/{{ .clusterId }}"}}, required: true}
  - {name: generation, source: {expression: cluster.generation}, type: int, required: true}
resources:
  - name: work
    transport: {client: kubernetes}
    manifest:
      apiVersion: v1
      kind: ConfigMap
      metadata:
        name: "{{ .cluster.name }}-{{ .adapter.name }}"
        namespace: default
        annotations: {hyperfleet.io/generation: "{{ .generation }}"}
    discovery: {namespace: default, by_name: "{{ .cluster.name }}-{{ .adapter.name }}"}
post:
  payloads:
    - name: statusPayload
      build:
        adapter: "{{ .adapter.name }}"
        observed_generation: {expression: generation}
        observed_time: "{{ now | date \"2006-01-02T15:04:05Z07:00\" }}"
        conditions:
          - {type: Applied, status: "True", reason: Applied, message: ""}
          - type: Available
            status: {expression: "resources.?work.?data.?available.orValue('Unknown')"}
            reason: Found
            message: ""
          - {type: Health, status: "True", reason: Healthy, message: ""}
  post_actions:
    - name: reportStatus
      api_call: {method: PUT, url: "clusters/{{ .clusterId }}/statuses", body: "{{ .statusPayload }}"}
"#;

/// A fleet API, a Sentinel and two adapters, as processes.
struct Fixture {
    api: Client,
    config_maps: Api<ConfigMap>,
    _processes: Vec<Server>,
    _fleet_api: FleetApi,
    _dir: TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (fleet, sentinel, task) =
            (file("fleet.yaml", FLEET), file("sentinel.yaml", SENTINEL), file("task.yaml", TASK));
        let mut command = fleet_api(&sqlite(dir.path(), "fleet.db"));
        let fleet_api = FleetApi::start(&dir.path().join("fleet"), command.args(["--config", &fleet]));
        let kubernetes = start_kubernetes(dir.path());
        let config_maps = Api::namespaced(kubernetes.client("hub").await, "default");
        let kubeconfig = kubernetes.kubeconfig().display().to_string();
        let start = |name: &str, role: &str, arguments: &[&str]| {
            let mut command = bellwether(["run", role, "--listen", "127.0.0.1:0"]);
            command.args(["--api", fleet_api.address(), "--broker", &sqlite(dir.path(), "queue.db")]);
            let process = Server::launch(&dir.path().join(name), command.args(arguments));
            process.role_address(role);
            process
        };
        let mut processes = vec![kubernetes];
        for name in ADAPTERS {
            let config = file(&format!("{name}.yaml"), &format!("adapter: {{name: {name}}}\n"));
            let arguments = ["--config", &config, "--task", &task, "--kubeconfig", &kubeconfig];
            processes.push(start(name, "adapter", &arguments));
        }
        processes.push(start("sentinel", "sentinel", &["--config", &sentinel]));
        let api = fleet_api.client();
        Self { api, config_maps, _processes: processes, _fleet_api: fleet_api, _dir: dir }
    }

    /// A cluster that is Ready at generation 1.
    async fn ready_cluster(&self, name: &str) -> Cluster<'_> {
        for adapter in ADAPTERS {
            let config_map =
                json!({"metadata": {"name": format!("{name}-{adapter}")}, "data": {"available": "True"}});
            let config_map = serde_json::from_value(config_map).unwrap();
            self.config_maps.create(&PostParams::default(), &config_map).await.unwrap();
        }
        create(&self.api, name).await;
        let ready = wait_for_ready(&self.api, name, 1).await;
        assert_conditions(&ready, ("True", 1), ("True", 1));
        Cluster { fixture: self, resource: ready }
    }
}

/// Asserts status and generation of Ready and of Available.
fn assert_conditions(cluster: &Resource, ready: (&str, i64), available: (&str, i64)) {
    for (type_, (status, generation)) in [("Ready", ready), ("Available", available)] {
        assert_eq!(
            condition(cluster, type_),
            Some((status.to_owned(), generation)),
            "{type_} of {cluster:#?}"
        );
    }
}

/// A cluster of the fleet, and what its adapters find.
struct Cluster<'a> {
    fixture: &'a Fixture,
    /// The cluster as it was when it became Ready.
    resource: Resource,
}

impl Cluster<'_> {
    async fn get(&self) -> Resource {
        cluster(&self.fixture.api, &self.resource.name).await.unwrap()
    }

    async fn update(&self, region: &str) -> Resource {
        update(&self.fixture.api, &self.resource, region).await
    }

    /// Changes what an adapter finds.
    async fn set_available(&self, adapter: &str, available: &str) {
        let patch = Patch::Merge(json!({"data": {"available": available}}));
        let name = format!("{}-{adapter}", self.resource.name);
        self.fixture.config_maps.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn list<T: serde::de::DeserializeOwned>(&self, subpath: &str) -> Vec<T> {
        let path = format!("/clusters/{}/{subpath}", self.resource.id);
        let list: ListOf<T> = self.fixture.api.call(Method::GET, &path, None).await.unwrap();
        list.items
    }

    async fn status(&self, adapter: &str) -> AdapterStatus {
        let statuses: Vec<AdapterStatus> = self.list("statuses").await;
        statuses.into_iter().find(|status| status.adapter == adapter).unwrap()
    }

    /// Waits until a report of an adapter with this value of Available, at this generation, has been received.
    async fn wait_for_report(&self, adapter: &str, available: &str, generation: i64) -> LogEntry {
        let what = format!("{adapter} reports Available={available} at generation {generation}");
        eventually(&what, || async {
            let log: Vec<LogEntry> = self.list("statuses/log").await;
            log.into_iter().find(|entry| {
                let conditions: BTreeMap<_, _> =
                    entry.conditions.iter().map(|one| (one.type_.as_str(), one.status.as_str())).collect();
                entry.adapter == adapter
                    && entry.observed_generation == generation
                    && conditions["Available"] == available
            })
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_follow_the_use_cases() {
    let fixture = Fixture::new().await;
    tokio::join!(
        unknown_is_discarded_while_ready(&fixture),
        available_stays_at_the_old_generation_until_all_adapters_report_the_new_one(&fixture),
        unavailable_generation_stays_unavailable_after_an_update(&fixture),
    );
}

/// Use case 1: a task in progress.
async fn unknown_is_discarded_while_ready(fixture: &Fixture) {
    let cluster = fixture.ready_cluster("case-1").await;
    cluster.set_available("dns", "Unknown").await;
    let entry = cluster.wait_for_report("dns", "Unknown", 1).await;
    assert_eq!(entry.verdict, Verdict::Discarded, "{entry:?}");
    let before = cluster.status("dns").await;
    let after = eventually("another report is received", || async {
        let status = cluster.status("dns").await;
        (status.last_report_time > before.last_report_time).then_some(status)
    })
    .await;
    // A discarded report is a sign of life, and changes nothing else.
    assert_eq!(AdapterStatus { last_report_time: before.last_report_time, ..after }, before);
    let found = cluster.get().await;
    assert_conditions(&found, ("True", 1), ("True", 1));
    let transitions = |resource: &Resource| {
        let conditions = &resource.status.conditions;
        conditions.iter().map(|one| (one.type_.clone(), one.last_transition_time)).collect::<Vec<_>>()
    };
    assert_eq!(transitions(&found), transitions(&cluster.resource));
}

/// Use case 2: mixed generations.
async fn available_stays_at_the_old_generation_until_all_adapters_report_the_new_one(fixture: &Fixture) {
    let cluster = fixture.ready_cluster("case-2").await;
    cluster.set_available("network", "Unknown").await;
    assert_conditions(&cluster.update("eu-west-2").await, ("False", 2), ("True", 1));
    let entry = cluster.wait_for_report("dns", "True", 2).await;
    assert_eq!(entry.verdict, Verdict::Accepted, "{entry:?}");
    cluster.wait_for_report("network", "Unknown", 2).await;
    assert_conditions(&cluster.get().await, ("False", 2), ("True", 1));
    assert_eq!(cluster.status("network").await.observed_generation, 1);

    cluster.set_available("network", "True").await;
    let ready = wait_for_ready(&fixture.api, "case-2", 2).await;
    assert_conditions(&ready, ("True", 2), ("True", 2));
}

/// Use case 3: an update of a cluster that is not available.
async fn unavailable_generation_stays_unavailable_after_an_update(fixture: &Fixture) {
    let cluster = fixture.ready_cluster("case-3").await;
    cluster.set_available("dns", "False").await;
    cluster.wait_for_report("dns", "False", 1).await;
    assert_conditions(&cluster.get().await, ("False", 1), ("False", 1));

    cluster.set_available("network", "Unknown").await;
    assert_conditions(&cluster.update("eu-west-2").await, ("False", 2), ("False", 1));
    // From here on, no report of dns is about generation 1.
    cluster.wait_for_report("dns", "False", 2).await;
    cluster.set_available("dns", "True").await;
    let entry = cluster.wait_for_report("dns", "True", 2).await;
    assert_eq!(entry.verdict, Verdict::Accepted, "{entry:?}");
    assert_conditions(&cluster.get().await, ("False", 2), ("False", 1));

    cluster.set_available("network", "True").await;
    let ready = wait_for_ready(&fixture.api, "case-3", 2).await;
    assert_conditions(&ready, ("True", 2), ("True", 2));
}
