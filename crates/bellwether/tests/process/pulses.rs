//! Pulses and adapters: a cluster becomes ready by itself, in `up` and with the roles as processes of their own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use axum::http::Method;
use bellwether_api::addon::ManagedClusterAddOn;
use bellwether_fleet::client::{Client, ListOf};
use bellwether_fleet::resource::Resource;
use bellwether_testkit::eventually;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::fleet_cli::cells;
use crate::pulse_observer::PulseObserver;
use crate::server::{Ended, FleetApi, Server, bellwether, run, up};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/examples/adapter");

/// How long a pulse may take after the commit of its change, and how long a cluster may take to be ready. The targets are 1 s and
/// 5 s. Other tests share the machine, so the limits are larger; a Sentinel that polls every 10 s exceeds them all the same.
const PULSE_LIMIT: Duration = Duration::from_secs(3);
const READY_LIMIT: Duration = Duration::from_secs(8);

/// The cluster of a name, if it exists.
pub(crate) async fn cluster(api: &Client, name: &str) -> Option<Resource> {
    let found: ListOf<Resource> =
        api.call(Method::GET, &format!("/clusters?search=name='{name}'"), None).await.unwrap();
    found.items.into_iter().next()
}

/// The status and the generation of a condition.
pub(crate) fn condition(cluster: &Resource, type_: &str) -> Option<(String, i64)> {
    let found = cluster.status.conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((found.status.to_string(), found.observed_generation))
}

pub(crate) async fn wait_for_ready(api: &Client, name: &str, generation: i64) -> Resource {
    eventually(&format!("{name} is ready at generation {generation}"), || async {
        let found = cluster(api, name).await?;
        (condition(&found, "Ready") == Some(("True".to_owned(), generation))).then_some(found)
    })
    .await
}

pub(crate) async fn create(api: &Client, name: &str) -> Resource {
    let body = json!({"kind": "Cluster", "name": name, "spec": {"region": "eu-west-1"}});
    api.call(Method::POST, "/clusters", Some(&body)).await.unwrap()
}

pub(crate) async fn update(api: &Client, cluster: &Resource, region: &str) -> Resource {
    let body = json!({"spec": {"region": region}});
    api.call(Method::PATCH, &format!("/clusters/{}", cluster.id), Some(&body)).await.unwrap()
}

/// A change of the spec makes a cluster not ready at once, and the last known good generation stays available.
fn assert_not_ready_after_update(cluster: &Resource) {
    let (generation, last) = (cluster.generation, cluster.generation - 1);
    assert_eq!(condition(cluster, "Ready"), Some(("False".to_owned(), generation)));
    assert_eq!(condition(cluster, "Available"), Some(("True".to_owned(), last)));
}

/// Waits until a change is pulsed and the cluster is ready, both in time.
async fn wait_for_ready_in_time(api: &Client, observer: &PulseObserver, changed: &Resource) -> Resource {
    let pulse = observer.wait_for_pulse(changed.id, changed.generation).await;
    let ready = wait_for_ready(api, &changed.name, changed.generation).await;
    let since_change =
        |time: Timestamp| Duration::try_from(time.duration_since(changed.updated_time)).unwrap_or_default();
    let (pulsed, ready_after) = (since_change(pulse.published_at), since_change(Timestamp::now()));
    println!("generation {}: pulsed after {pulsed:?}, ready after {ready_after:?}", changed.generation);
    assert!(pulsed <= PULSE_LIMIT, "{pulsed:?}");
    assert!(ready_after <= READY_LIMIT, "{ready_after:?}");
    ready
}

/// `bellwether cluster get NAME --watch`.
struct ClusterWatch {
    process: Server,
    last: String,
}

impl ClusterWatch {
    /// Starts to watch a cluster that does not exist yet.
    async fn start(directory: &Path, api: &str, name: &str) -> Self {
        let mut command = bellwether(["cluster", "get", name, "--watch", "--api", api]);
        let process = Server::launch(&directory.join("watch"), &mut command);
        eventually("the watch waits", || async { process.log().contains("waiting for it").then_some(()) })
            .await;
        Self { process, last: String::new() }
    }

    /// Waits for the next line with another state: READY, AVAILABLE and GENERATION, or `deleted`.
    fn next_state(&mut self) -> String {
        loop {
            let line = self.process.line();
            let cells = cells(&line);
            let state = match cells[0] {
                "EVENT" => continue,
                "DELETED" => "deleted".to_owned(),
                _ => cells[2..5].join(" "),
            };
            if state != self.last {
                self.last.clone_from(&state);
                return state;
            }
        }
    }

    fn assert_next_states(&mut self, expected: &[&str]) {
        for state in expected {
            assert_eq!(self.next_state(), *state);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_becomes_ready_by_itself_in_the_demo() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let server = Server::start(&dir, up(&dir).args(["--spokes", "1", "--simulate-delay", "100ms"]));
    let api = Client::new(&server.address("http"), None).unwrap();
    // The spoke is ready when its add-ons are available and its Job has succeeded.
    wait_for_ready(&api, "spoke-1", 1).await;
    let observer = PulseObserver::new(&dir.join("queue.db")).await;
    let mut watch = ClusterWatch::start(parent.path(), &server.address("http"), "another").await;

    let created = create(&api, "another").await;
    assert_eq!(condition(&created, "Ready"), Some(("False".to_owned(), 1)));
    let ready = wait_for_ready_in_time(&api, &observer, &created).await;
    watch.assert_next_states(&["False False 1", "True True 1"]);
    let jobs: Api<Job> = Api::namespaced(server.client("spoke-1").await, "default");
    let job = format!("validate-{}", ready.id);
    assert!(jobs.get_opt(&job).await.unwrap().is_some(), "the adapter runs a Job on the spoke");

    let updated = update(&api, &ready, "eu-west-2").await;
    assert_not_ready_after_update(&updated);
    let ready = wait_for_ready_in_time(&api, &observer, &updated).await;
    assert_eq!(condition(&ready, "Available"), Some(("True".to_owned(), 2)));
    watch.assert_next_states(&["False True@1 2", "True True 2"]);

    let path = format!("/clusters/{}", ready.id);
    api.call_raw(Method::DELETE, &path, None).await.unwrap();
    eventually("the cluster is gone", || async { cluster(&api, "another").await.is_none().then_some(()) })
        .await;
    watch.assert_next_states(&["False (deleting) True@2 3", "deleted"]);
    assert_eq!(watch.process.terminate().code(), Some(0), "{}", watch.process.log());
    assert!(jobs.get_opt(&job).await.unwrap().is_none(), "the adapter has cleaned up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unavailable_add_on_makes_its_cluster_not_ready_at_once() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let server = Server::start(&dir, up(&dir).args(["--spokes", "1", "--simulate-delay", "100ms"]));
    let api = Client::new(&server.address("http"), None).unwrap();
    wait_for_ready(&api, "spoke-1", 1).await;
    let addons: Api<ManagedClusterAddOn> = Api::namespaced(server.client("hub").await, "spoke-1");
    let addon = json!({"metadata": {"name": "extra"}, "spec": {}});
    addons.create(&Default::default(), &serde_json::from_value(addon).unwrap()).await.unwrap();
    let set_available = async |status: &str| {
        let condition = json!({
            "type": "Available", "status": status, "reason": "Probed", "message": "no response", "lastTransitionTime": "2026-05-01T00:00:00Z",
        });
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        addons.patch_status("extra", &PatchParams::default(), &patch).await.unwrap();
    };
    set_available("False").await;
    let found = eventually("the cluster is not ready", || async {
        let found = cluster(&api, "spoke-1").await?;
        (condition(&found, "Ready")?.0 == "False").then_some(found)
    })
    .await;
    let reported =
        found.status.conditions.iter().find(|condition| condition.type_ == "AddonsSuccessful").unwrap();
    assert_eq!(reported.reason.as_deref(), Some("AddOnsUnavailable"));
    assert_eq!(reported.message.as_deref(), Some("extra: Available=False (Probed): no response"));
    set_available("True").await;
    wait_for_ready(&api, "spoke-1", 1).await;
}

/// Starts an embedded API server with one cluster.
pub(crate) fn start_kubernetes(directory: &Path) -> Server {
    let data = directory.join("kubernetes");
    let mut command = bellwether(["run", "apiserver", "--listen", "127.0.0.1:0", "--data-dir"]);
    Server::start(&data, command.arg(&data))
}

/// The roles as processes: fleet API, Sentinel, and the adapter of the example `namespace` on an API server.
pub(crate) struct Roles {
    directory: PathBuf,
    database: String,
    broker: String,
    api: Option<FleetApi>,
    /// The address of the fleet API, which stays the same after a restart.
    address: String,
    pub(crate) kubernetes: Server,
    sentinel: Option<Server>,
    adapter: Option<Server>,
}

/// A role that can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killed {
    Api,
    Sentinel,
    Adapter,
}

impl Roles {
    pub(crate) fn start(directory: &Path, database: &str, broker: &str) -> Self {
        let text = "entities: [{kind: Cluster, plural: clusters, name_min_len: 3, name_max_len: 53, required_adapters: [namespace]}]";
        std::fs::write(directory.join("fleet.yaml"), text).unwrap();
        let kubernetes = start_kubernetes(directory);
        let mut roles = Self {
            directory: directory.to_owned(),
            database: database.to_owned(),
            broker: broker.to_owned(),
            api: None,
            address: "http://127.0.0.1:0".to_owned(),
            kubernetes,
            sentinel: None,
            adapter: None,
        };
        roles.start_api();
        roles.start_adapter();
        roles.start_sentinel();
        roles
    }

    /// A client of the fleet API with its own connections.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.address, None).unwrap()
    }

    /// Kills a role, and starts it again.
    pub(crate) fn restart(&mut self, role: Killed) {
        match role {
            Killed::Api => {
                drop(self.api.take());
                self.start_api();
            }
            Killed::Sentinel => {
                drop(self.sentinel.take());
                self.start_sentinel();
            }
            Killed::Adapter => {
                drop(self.adapter.take());
                self.start_adapter();
            }
        }
    }

    fn start_api(&mut self) {
        let listen = self.address.trim_start_matches("http://").to_owned();
        let mut command =
            bellwether(["run", "fleet-api", "--listen", &listen, "--database", &self.database, "--config"]);
        let api =
            FleetApi::start(&self.directory.join("fleet"), command.arg(self.directory.join("fleet.yaml")));
        self.address = api.address().to_owned();
        self.api = Some(api);
    }

    fn start_sentinel(&mut self) {
        let mut command =
            bellwether(["run", "sentinel", "--resource-type", "clusters", "--listen", "127.0.0.1:0"]);
        command.args(["--api", &self.address, "--poll-interval", "1s"]);
        self.sentinel = Some(self.launch("sentinel", &mut command));
    }

    fn start_adapter(&mut self) {
        let mut command = bellwether(["run", "adapter", "--listen", "127.0.0.1:0", "--api", &self.address]);
        command.arg("--config").arg(format!("{EXAMPLES}/namespace/adapter.yaml"));
        command.arg("--task").arg(format!("{EXAMPLES}/namespace/task.yaml"));
        command.arg("--kubeconfig").arg(self.kubernetes.kubeconfig());
        self.adapter = Some(self.launch("adapter", &mut command));
    }

    fn launch(&self, name: &str, command: &mut Command) -> Server {
        let command = command.env("BELLWETHER_BROKER", &self.broker);
        let server = Server::launch(&self.directory.join(name), command);
        server.role_address(name);
        server
    }

    /// Creates, changes and deletes a cluster, with a kill of each role in between.
    async fn run_loop(mut self) {
        let api = self.client();
        let created = create(&api, "abc").await;
        wait_for_ready(&api, "abc", 1).await;
        let client = self.kubernetes.client("hub").await;
        let namespace = format!("cluster-{}", created.id);
        let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let region =
            async || config_maps.get("cluster-config").await.unwrap().data.unwrap()["region"].clone();
        assert_eq!(region().await, "eu-west-1");

        // What changes while a role is away is done when it is back.
        drop(self.adapter.take());
        assert_not_ready_after_update(&update(&api, &created, "eu-west-2").await);
        assert_not_ready_after_update(&cluster(&api, "abc").await.unwrap());
        self.start_adapter();
        wait_for_ready(&api, "abc", 2).await;
        assert_eq!(region().await, "eu-west-2");
        drop(self.sentinel.take());
        assert_not_ready_after_update(&update(&api, &created, "eu-west-3").await);
        self.start_sentinel();
        let ready = wait_for_ready(&api, "abc", 3).await;
        assert_eq!(condition(&ready, "Available"), Some(("True".to_owned(), 3)));
        assert_eq!(region().await, "eu-west-3");

        api.call_raw(Method::DELETE, &format!("/clusters/{}", created.id), None).await.unwrap();
        eventually("the cluster is gone", || async { cluster(&api, "abc").await.is_none().then_some(()) })
            .await;
        let namespaces: Api<Namespace> = Api::all(client);
        assert!(namespaces.get_opt(&namespace).await.unwrap().is_none(), "the adapter has cleaned up");
    }
}

pub(crate) fn sqlite(directory: &Path, name: &str) -> String {
    format!("sqlite:{}", directory.join(name).display())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_make_a_cluster_ready_with_sqlite_and_the_built_in_queue() {
    let dir = tempfile::tempdir().unwrap();
    Roles::start(dir.path(), &sqlite(dir.path(), "fleet.db"), &sqlite(dir.path(), "queue.db"))
        .run_loop()
        .await;
}

#[cfg(all(feature = "real-postgres", feature = "real-brokers"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_make_a_cluster_ready_with_postgresql_and_nats() {
    let (dir, nats) = (tempfile::tempdir().unwrap(), bellwether_testkit::nats::Nats::start());
    let postgres = bellwether_testkit::postgres::Postgres::start();
    Roles::start(dir.path(), postgres.url(), &nats.url()).run_loop().await;
}

#[cfg(all(feature = "real-postgres", feature = "real-brokers"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_make_a_cluster_ready_with_postgresql_and_rabbitmq() {
    let (dir, rabbitmq) = (tempfile::tempdir().unwrap(), bellwether_testkit::rabbitmq::RabbitMq::start());
    let postgres = bellwether_testkit::postgres::Postgres::start();
    Roles::start(dir.path(), postgres.url(), &rabbitmq.url()).run_loop().await;
}

fn try_role(arguments: &[&str]) -> Ended {
    let mut command = bellwether(["run"].iter().chain(arguments).copied());
    run(command.env_remove("BELLWETHER_BROKER").env_remove("BELLWETHER_API"))
}

#[test]
fn invalid_settings_are_rejected_with_the_place_and_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let config = file("sentinel.yaml", "resource_type: clusters\npoll_intervall: 5s\n");
    let adapter = format!("{EXAMPLES}/namespace/adapter.yaml");
    let task = file("task.yaml", "params:\n  - name: a\n    source: {expression: 'b +'}\n");
    let rows: [(&[&str], i32, &str); 7] = [
        (&["sentinel", "--config", &config], 1, "sentinel.yaml:2:1: unknown field `poll_intervall`"),
        (&["sentinel", "--resource-type", "clusters"], 1, "no fleet API is given: name one with --api"),
        (
            &["sentinel", "--resource-type", "clusters", "--api", "http://127.0.0.1:1"],
            1,
            "no broker is given: name one with --broker",
        ),
        (
            &[
                "sentinel",
                "--resource-type",
                "clusters",
                "--api",
                "https://me:s3cret@fleet/",
                "--dump-config",
            ],
            1,
            "base_url must not have a user or a password: use auth.token_path",
        ),
        (&["sentinel", "--resource-type", "clusters", "--broker", "kafka://a"], 2, "--broker"),
        (&["sentinel", "--resource-type", "clusters", "--shard", "3/3"], 2, "INDEX from 0 to COUNT-1"),
        (&["adapter", "--config", &adapter, "--task", &task], 1, "task.yaml:3:"),
    ];
    for (arguments, code, message) in rows {
        let ended = try_role(arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(message), "{arguments:?}: {}", ended.stderr);
        assert!(!(ended.stdout + &ended.stderr).contains("s3cret"), "{arguments:?}");
    }
}

#[test]
fn dumped_configuration_has_all_settings_and_no_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let api = "hyperfleet_api: {base_url: 'http://fleet:8000', auth: {token_path: token}";
    let files = [
        ("token", "s3cret".to_owned()),
        ("sentinel.yaml", format!("resource_type: clusters\nclients: {{{api}}}}}\n")),
        (
            "adapter.yaml",
            format!("adapter: {{name: dns}}\nclients: {{{api}, default_headers: {{X-Api-Key: s3cret}}}}}}\n"),
        ),
        ("task.yaml", "params: [{name: password, source: env.DB_PASSWORD}]\n".to_owned()),
    ];
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let rows: [(&[&str], &[&str]); 2] = [
        (
            &["sentinel", "--config", "sentinel.yaml"],
            &["poll_interval: 5s", "http://fleet:8000", "topic: clusters"],
        ),
        (
            &["adapter", "--config", "adapter.yaml", "--task", "task.yaml"],
            &["name: dns", "X-Api-Key", "DB_PASSWORD"],
        ),
    ];
    for (arguments, shown) in rows {
        let mut command = bellwether(["run"].iter().chain(arguments).copied());
        command.env("BELLWETHER_BROKER", "amqp://me:s3cret@rabbitmq/").env("DB_PASSWORD", "s3cret");
        let dumped = run(command.arg("--dump-config").env_remove("BELLWETHER_API").current_dir(dir.path()));
        assert_eq!((dumped.code, dumped.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        assert!(!dumped.stdout.contains("s3cret"), "{arguments:?}: {}", dumped.stdout);
        for text in shown {
            assert!(dumped.stdout.contains(text), "{arguments:?}: {text:?} is missing in {}", dumped.stdout);
        }
    }
}

#[test]
fn dry_run_prints_what_would_happen() {
    let file = |name: &str| format!("{EXAMPLES}/namespace/{name}");
    let (config, task) = (file("adapter.yaml"), file("task.yaml"));
    let (event, responses) = (file("event.json"), file("responses.json"));
    let ended = try_role(&[
        "adapter",
        "--config",
        &config,
        "--task",
        &task,
        "--dry-run-event",
        &event,
        "--dry-run-api-responses",
        &responses,
        "--dry-run-output",
        "json",
    ]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let trace: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(trace["status"], "success", "{trace}");
    let operations: Vec<&str> =
        trace["resources"].as_array().unwrap().iter().map(|one| one["operation"].as_str().unwrap()).collect();
    assert_eq!(operations, ["create", "create"]);
}
