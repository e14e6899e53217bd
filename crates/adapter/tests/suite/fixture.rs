//! A fleet API in memory, and adapters with the configurations of the examples or of a test.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bellwether_adapter::api::{Api, ApiError, ApiRequest, ApiResponse};
use bellwether_adapter::config::{Config, Overrides};
use bellwether_adapter::execute::{Clients, Event, Executor};
use bellwether_adapter::kubernetes::KubernetesTransport;
use bellwether_adapter::trace::Trace;
use bellwether_testkit::{Cluster, SteadyClock};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// What the API does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Up,
    /// Every call gets a 500.
    Failing,
    /// No call gets a response.
    Down,
    /// Reads work, reports get a 500.
    ReportsFail,
    /// Every resource is missing.
    Missing,
}

/// A fleet API with one cluster.
pub(crate) struct FleetApi {
    pub(crate) cluster: Mutex<Value>,
    pub(crate) mode: Mutex<Mode>,
    pub(crate) reports: Mutex<Vec<Value>>,
    pub(crate) reads: Mutex<usize>,
    /// How long a read takes.
    pub(crate) delay: Mutex<Duration>,
}

impl FleetApi {
    pub(crate) fn new(generation: u64) -> Arc<Self> {
        let cluster = json!({"id": "c1", "name": "one", "generation": generation, "spec": {"region": "eu"}, "status": {"conditions": []}});
        Arc::new(Self {
            cluster: Mutex::new(cluster),
            mode: Mutex::new(Mode::Up),
            reports: Mutex::default(),
            reads: Mutex::default(),
            delay: Mutex::default(),
        })
    }

    pub(crate) fn set_generation(&self, generation: u64) {
        self.cluster.lock()["generation"] = json!(generation);
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        *self.mode.lock() = mode;
    }

    pub(crate) fn last_report(&self) -> Value {
        self.reports.lock().last().cloned().expect("a report")
    }

    /// The status and reason of a condition of the last report.
    pub(crate) fn condition(&self, kind: &str) -> (String, String) {
        let report = self.last_report();
        let conditions = report["conditions"].as_array().unwrap().clone();
        let found = conditions.into_iter().find(|condition| condition["type"] == kind).expect(kind);
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"))
    }
}

#[async_trait]
impl Api for FleetApi {
    async fn call(&self, request: &ApiRequest) -> Result<ApiResponse, ApiError> {
        let answer = |status, body: Value| Ok(ApiResponse { status, body: body.to_string() });
        let is_report = request.method == "PUT";
        let delay = *self.delay.lock();
        if !is_report && !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        match (*self.mode.lock(), is_report) {
            (Mode::Failing, _) | (Mode::ReportsFail, true) => {
                answer(500, json!({"code": "HYPERFLEET-INT-001"}))
            }
            (Mode::Down, _) => Err(ApiError::Unreachable {
                method: request.method.clone(),
                url: request.url.clone(),
                attempts: request.attempts,
                cause: "connection refused".into(),
            }),
            (Mode::Missing, _) => answer(404, json!({"code": "HYPERFLEET-NTF-001"})),
            (Mode::Up | Mode::ReportsFail, false) => {
                *self.reads.lock() += 1;
                answer(200, self.cluster.lock().clone())
            }
            (Mode::Up, true) => {
                assert!(request.url.ends_with("/statuses"), "{}", request.url);
                self.reports.lock().push(serde_json::from_str(request.body.as_ref().unwrap()).unwrap());
                answer(201, json!({}))
            }
        }
    }
}

pub(crate) fn example(name: &str) -> Config {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples/adapter").join(name))
}

pub(crate) fn load(directory: &Path) -> Config {
    let (adapter, task): (PathBuf, PathBuf) = (directory.join("adapter.yaml"), directory.join("task.yaml"));
    Config::load(&adapter, &task, &Overrides::default()).unwrap_or_else(|errors| panic!("{errors}"))
}

/// A configuration with this task.
pub(crate) fn config_of(task: &str) -> Config {
    let directory = tempfile::tempdir().unwrap();
    let adapter = "adapter: {name: test}\nclients: {hyperfleet_api: {base_url: 'http://127.0.0.1:1'}}\n";
    std::fs::write(directory.path().join("adapter.yaml"), adapter).unwrap();
    std::fs::write(directory.path().join("task.yaml"), task).unwrap();
    load(directory.path())
}

/// An adapter on a cluster, which is also its hub.
pub(crate) struct Fixture {
    pub(crate) api: Arc<FleetApi>,
    pub(crate) executor: Executor,
}

impl Fixture {
    pub(crate) fn new(config: Config, cluster: &Cluster) -> Self {
        let api = FleetApi::new(1);
        let transport = Arc::new(KubernetesTransport::new(cluster.client(), &config.adapter.name));
        let clients = Clients {
            api: api.clone(),
            kubernetes: transport.clone(),
            hub: transport,
            clock: Arc::new(SteadyClock::default()),
        };
        Self { api, executor: Executor::new(Arc::new(config), clients, []) }
    }

    /// Runs an event of cluster `c1`.
    pub(crate) async fn pulse(&self) -> Trace {
        self.executor.execute(&event(1)).await
    }

    /// Changes the generation and runs an event.
    pub(crate) async fn pulse_at(&self, generation: u64) -> Trace {
        self.api.set_generation(generation);
        self.pulse().await
    }
}

pub(crate) fn event(generation: u64) -> Event {
    Event {
        id: "e1".into(),
        event_type: "com.redhat.hyperfleet.cluster.reconcile".into(),
        data: json!({"id": "c1", "kind": "Cluster", "generation": generation}),
    }
}

/// The operation on each resource.
pub(crate) fn operations(trace: &Trace) -> Vec<String> {
    let operation = |resource: &bellwether_adapter::trace::TracedResource| {
        json!(resource.operation).as_str().unwrap().to_owned()
    };
    trace.resources.iter().map(operation).collect()
}
