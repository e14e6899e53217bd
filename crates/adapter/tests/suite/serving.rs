//! Events from a broker: order, duplicates, faults and shutdown.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bellwether_adapter::serve::Adapter;
use bellwether_broker::{Broker, BrokerError, CloudEvent, Delivery, Settlement, Subscriber};
use bellwether_runtime::{Health, Metrics, Shutdown};
use bellwether_testkit::{Cluster, embedded, eventually, on_paused_time};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::fixture::{Fixture, Mode, config_of, example};

const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(30);

/// A queue in memory. It delivers again what was rejected, or neither answered nor extended.
#[derive(Clone, Default)]
struct Queue(Arc<State>);

#[derive(Default)]
struct State {
    events: Mutex<VecDeque<(CloudEvent, u32)>>,
    settled: Mutex<Vec<String>>,
    deliveries: Mutex<usize>,
    /// How many subscriptions and deliveries fail.
    failures: Mutex<u32>,
    arrived: Notify,
}

impl Queue {
    fn publish_data(&self, data: Value) -> String {
        let event =
            CloudEvent::new("test", "com.redhat.hyperfleet.cluster.reconcile", data, Timestamp::UNIX_EPOCH);
        let id = event.id.clone();
        self.put(event, 1);
        id
    }

    fn put(&self, event: CloudEvent, attempt: u32) {
        self.0.events.lock().push_back((event, attempt));
        self.0.arrived.notify_one();
    }

    fn settled(&self) -> Vec<String> {
        self.0.settled.lock().clone()
    }

    fn fails(&self) -> Result<(), BrokerError> {
        let mut failures = self.0.failures.lock();
        if *failures == 0 {
            return Ok(());
        }
        *failures -= 1;
        Err(BrokerError::Unreachable { address: "test".into(), cause: "cut".into() })
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Queue")
    }
}

#[async_trait]
impl Broker for Queue {
    async fn publish(&self, _topic: &str, event: &CloudEvent) -> Result<(), BrokerError> {
        self.put(event.clone(), 1);
        Ok(())
    }

    async fn subscribe(&self, _topic: &str, _subscription: &str) -> Result<Box<dyn Subscriber>, BrokerError> {
        self.fails()?;
        Ok(Box::new(self.clone()))
    }

    async fn health(&self) -> Result<(), BrokerError> {
        Ok(())
    }
}

#[async_trait]
impl Subscriber for Queue {
    async fn next(&mut self) -> Result<Delivery, BrokerError> {
        loop {
            self.fails()?;
            let next = self.0.events.lock().pop_front();
            if let Some((event, attempt)) = next {
                *self.0.deliveries.lock() += 1;
                let deadline = Arc::new(Mutex::new(Some(Instant::now() + VISIBILITY_TIMEOUT)));
                tokio::spawn(deliver_again(self.clone(), event.clone(), attempt, deadline.clone()));
                let settlement = Settling { queue: self.clone(), event: event.clone(), attempt, deadline };
                return Ok(Delivery::new(event, attempt, Box::new(settlement)));
            }
            self.0.arrived.notified().await;
        }
    }
}

struct Settling {
    queue: Queue,
    event: CloudEvent,
    attempt: u32,
    /// When the event is delivered again; none once it was answered.
    deadline: Arc<Mutex<Option<Instant>>>,
}

async fn deliver_again(queue: Queue, event: CloudEvent, attempt: u32, deadline: Arc<Mutex<Option<Instant>>>) {
    loop {
        let Some(next) = *deadline.lock() else { return };
        if next <= Instant::now() {
            return queue.put(event, attempt + 1);
        }
        tokio::time::sleep_until(next).await;
    }
}

#[async_trait]
impl Settlement for Settling {
    async fn ack(self: Box<Self>) -> Result<(), BrokerError> {
        *self.deadline.lock() = None;
        self.queue.0.settled.lock().push(format!("ack {}", self.event.id));
        Ok(())
    }

    async fn nack(self: Box<Self>, delay: Duration) -> Result<(), BrokerError> {
        *self.deadline.lock() = None;
        let Self { queue, event, attempt, .. } = *self;
        if attempt >= bellwether_broker::MAX_ATTEMPTS {
            queue.0.settled.lock().push(format!("dead {}", event.id));
            return Ok(());
        }
        queue.0.settled.lock().push(format!("nack {}", event.id));
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            queue.put(event, attempt + 1);
        });
        Ok(())
    }

    async fn extend(&self) -> Result<(), BrokerError> {
        if let Some(deadline) = &mut *self.deadline.lock() {
            *deadline = Instant::now() + VISIBILITY_TIMEOUT;
        }
        Ok(())
    }

    fn visibility_timeout(&self) -> Duration {
        VISIBILITY_TIMEOUT
    }
}

struct Running {
    queue: Queue,
    metrics: Metrics,
    health: Health,
    shutdown: Shutdown,
}

fn start(fixture: &Fixture, queue: Queue) -> Running {
    let (metrics, health, shutdown) = (Metrics::default(), Health::default(), Shutdown::default());
    let adapter = Adapter {
        executor: fixture.executor.clone(),
        topic: "clusters".into(),
        subscription: "namespace".into(),
        parallelism: 4,
        drain_timeout: Duration::from_secs(25),
        metrics: metrics.clone(),
        health: health.clone(),
        shutdown: shutdown.clone(),
    };
    shutdown.spawn(adapter.run(Arc::new(queue.clone())));
    Running { queue, metrics, health, shutdown }
}

async fn fixture() -> (Cluster, Fixture) {
    let cluster = embedded::in_process().await;
    let fixture = Fixture::new(example("namespace"), &cluster);
    (cluster, fixture)
}

async fn until(running: &Running, settled: &[String]) {
    let what = format!("{settled:?}");
    eventually(&what, || async { (running.queue.settled() == settled).then_some(()) }).await;
}

#[test]
fn event_is_acknowledged_after_its_report() {
    on_paused_time(async {
        let (_cluster, fixture) = fixture().await;
        let running = start(&fixture, Queue::default());
        let id = running.queue.publish_data(json!({"id": "c1", "generation": 1}));
        until(&running, &[format!("ack {id}")]).await;
        assert_eq!(fixture.api.reports.lock().len(), 1);
        assert!(running.health.not_ready().is_empty());
        let text = running.metrics.text();
        for line in [
            "hyperfleet_adapter_up 1",
            "hyperfleet_adapter_events_processed_total{status=\"success\"} 1",
            "hyperfleet_adapter_build_info{version=\"",
            "hyperfleet_adapter_event_processing_duration_seconds_count 1",
            "hyperfleet_adapter_resource_deletions_in_progress 0",
            "hyperfleet_adapter_resource_deletion_duration_seconds_count 0",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        running.shutdown.finish().await;
    });
}

#[test]
fn event_is_retried_while_the_api_is_down_and_nothing_is_lost() {
    on_paused_time(async {
        let (_cluster, fixture) = fixture().await;
        fixture.api.set_mode(Mode::Down);
        let running = start(&fixture, Queue::default());
        let id = running.queue.publish_data(json!({"id": "c1", "generation": 1}));
        until(&running, &[format!("nack {id}"), format!("nack {id}")]).await;
        fixture.api.set_mode(Mode::Up);
        until(&running, &[format!("nack {id}"), format!("nack {id}"), format!("ack {id}")]).await;
        assert_eq!(fixture.api.condition("Available").0, "True");
    });
}

#[test]
fn duplicates_and_older_generations_that_wait_collapse_into_the_newest() {
    on_paused_time(async {
        let (_cluster, fixture) = fixture().await;
        *fixture.api.delay.lock() = Duration::from_secs(1);
        let running = start(&fixture, Queue::default());
        let first = running.queue.publish_data(json!({"id": "c1", "generation": 1}));
        let old = running.queue.publish_data(json!({"id": "c1", "generation": 1}));
        let same = running.queue.publish_data(json!({"id": "c1", "generation": 2}));
        let newest = running.queue.publish_data(json!({"id": "c1", "generation": 2}));
        eventually("all are settled", || async { (running.queue.settled().len() == 4).then_some(()) }).await;
        let settled = running.queue.settled();
        assert_eq!(settled, [old, same, first, newest].map(|id| format!("ack {id}")));
        assert_eq!(*fixture.api.reads.lock(), 2, "two of four were run");
    });
}

#[test]
fn events_of_one_resource_never_overlap_and_others_do() {
    const TASK: &str = "params:\n  - {name: clusterId, source: event.id}\n  - name: cluster\n    source: {api_call: {method: GET, url: \"clusters/{{ .clusterId }}\"}}\n";
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(config_of(TASK), &cluster);
        *fixture.api.delay.lock() = Duration::from_secs(10);
        let running = start(&fixture, Queue::default());
        let begin = Instant::now();
        for id in ["c1", "c2", "c3", "c1"] {
            running.queue.publish_data(json!({"id": id}));
        }
        eventually("all are settled", || async { (running.queue.settled().len() == 4).then_some(()) }).await;
        let took = begin.elapsed().as_secs();
        assert!((20..22).contains(&took), "three at once, and the second of c1 after the first: {took} s");
    });
}

#[test]
fn events_that_take_or_wait_longer_than_the_visibility_timeout_are_delivered_once() {
    on_paused_time(async {
        let (_cluster, fixture) = fixture().await;
        *fixture.api.delay.lock() = Duration::from_secs(200);
        let running = start(&fixture, Queue::default());
        let first = running.queue.publish_data(json!({"id": "c1"}));
        let second = running.queue.publish_data(json!({"id": "c1"}));
        tokio::time::sleep(Duration::from_secs(390)).await;
        until(&running, &[format!("ack {first}"), format!("ack {second}")]).await;
        assert_eq!((*running.queue.0.deliveries.lock(), *fixture.api.reads.lock()), (2, 2));
    });
}

#[test]
fn event_that_takes_too_long_is_reported_as_unavailable() {
    on_paused_time(async {
        let (_cluster, fixture) = fixture().await;
        *fixture.api.delay.lock() = Duration::from_secs(3600);
        let running = start(&fixture, Queue::default());
        let id = running.queue.publish_data(json!({"id": "c1", "generation": 1}));
        tokio::time::sleep(Duration::from_secs(290)).await;
        assert!(fixture.api.reports.lock().is_empty());
        until(&running, &[format!("ack {id}")]).await;
        assert_eq!(fixture.api.condition("Available"), ("False".into(), "EventTimeout".into()));
        assert_eq!(fixture.api.last_report()["observed_generation"], 1);
    });
}

#[test]
fn deletion_step_by_step_needs_one_pulse_only() {
    on_paused_time(async {
        let (_cluster, fixture) = fixture().await;
        let running = start(&fixture, Queue::default());
        let created = running.queue.publish_data(json!({"id": "c1", "generation": 1}));
        until(&running, &[format!("ack {created}")]).await;
        fixture.api.cluster.lock()["deleted_time"] = json!("2026-05-01T00:00:00Z");
        let deleted = running.queue.publish_data(json!({"id": "c1", "generation": 1}));
        until(&running, &[format!("ack {created}"), format!("ack {deleted}")]).await;
        assert_eq!(fixture.api.condition("Finalized").0, "False", "first the ConfigMap, then the Namespace");
        eventually("both are gone", || async {
            (fixture.api.condition("Finalized").0 == "True").then_some(())
        })
        .await;
        assert_eq!(*running.queue.0.deliveries.lock(), 2);
    });
}

#[test]
fn missing_field_of_a_template_is_reported_once_and_not_retried() {
    const TASK: &str = r#"
params:
  - {name: clusterId, source: event.id}
  - name: cluster
    source: {api_call: {method: GET, url: "clusters/{{ .clusterId }}"}}
resources:
  - name: config
    manifest:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: zone, namespace: default}
      data: {zone: "{{ .cluster.spec.zone }}"}
    discovery: {namespace: default, by_name: zone}
post:
  payloads:
    - name: status
      build:
        observed_generation: {expression: "cluster.generation"}
        conditions: [{type: Available, status: "True", reason: Fine, message: fine}]
  post_actions:
    - {name: report, api_call: {method: PUT, url: "clusters/{{ .clusterId }}/statuses", body: "{{ .status }}"}}
"#;
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(config_of(TASK), &cluster);
        let running = start(&fixture, Queue::default());
        let id = running.queue.publish_data(json!({"id": "c1", "generation": 1}));
        until(&running, &[format!("ack {id}")]).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!((*running.queue.0.deliveries.lock(), fixture.api.reports.lock().len()), (1, 1));
        assert_eq!(fixture.api.condition("Available"), ("False".into(), "ResourceApplyFailed".into()));
        let message = fixture.api.last_report()["conditions"][0]["message"].to_string();
        assert!(message.contains("zone"), "{message}");
    });
}

#[test]
fn event_without_an_id_ends_in_the_dead_letters() {
    on_paused_time(async {
        let (_cluster, fixture) = fixture().await;
        let running = start(&fixture, Queue::default());
        let id = running.queue.publish_data(json!({"generation": 1}));
        eventually("a dead letter", || async {
            running.queue.settled().contains(&format!("dead {id}")).then_some(())
        })
        .await;
        assert!(fixture.api.reports.lock().is_empty());
    });
}

#[test]
fn lost_broker_is_reconnected_with_backoff_and_shown_in_health() {
    on_paused_time(async {
        let (_cluster, fixture) = fixture().await;
        let queue = Queue::default();
        *queue.0.failures.lock() = 3;
        let running = start(&fixture, queue);
        eventually("not ready", || async { (!running.health.not_ready().is_empty()).then_some(()) }).await;
        let id = running.queue.publish_data(json!({"id": "c1", "generation": 1}));
        until(&running, &[format!("ack {id}")]).await;
        assert!(running.health.not_ready().is_empty(), "{:?}", running.health);
    });
}

#[test]
fn shutdown_finishes_what_runs() {
    on_paused_time(async {
        let (_cluster, fixture) = fixture().await;
        *fixture.api.delay.lock() = Duration::from_secs(5);
        let running = start(&fixture, Queue::default());
        let id = running.queue.publish_data(json!({"id": "c1", "generation": 1}));
        tokio::time::sleep(Duration::from_secs(1)).await;
        running.shutdown.finish().await;
        assert_eq!(running.queue.settled(), [format!("ack {id}")]);
    });
}
