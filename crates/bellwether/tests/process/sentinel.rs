//! `bellwether run sentinel` as a process: health and metrics while the API and the broker are down, and replicas of a shard.

use std::path::Path;

use bellwether_testkit::eventually;

use crate::pulse_observer::PulseObserver;
use crate::pulses::{create, sqlite, start_kubernetes, update};
use crate::server::{FleetApi, Server, bellwether, fleet_api, get};

const PUBLISHED: &str = "hyperfleet_sentinel_events_published_total";
const CYCLES: &str = "hyperfleet_sentinel_poll_duration_seconds_count";

/// A running Sentinel for clusters. On drop it is killed, as in a crash.
struct Sentinel {
    process: Server,
    address: String,
}

impl Sentinel {
    fn start(directory: &Path, name: &str, api: &str, broker: &str, arguments: &[&str]) -> Self {
        let mut command =
            bellwether(["run", "sentinel", "--resource-type", "clusters", "--listen", "127.0.0.1:0"]);
        command.args(["--api", api, "--poll-interval", "200ms"]).args(arguments);
        let process = Server::launch(&directory.join(name), command.env("BELLWETHER_BROKER", broker));
        let address = process.role_address("sentinel of clusters");
        Self { process, address }
    }

    fn readiness(&self) -> (u16, String) {
        get(&self.address, "/readyz")
    }

    async fn wait_until_ready(&self) {
        eventually("the Sentinel is ready", || async { (self.readiness().0 == 200).then_some(()) }).await;
    }

    /// The sum of a metric over all labels; 0 if it is missing.
    fn metric(&self, name: &str) -> u64 {
        let (_, metrics) = get(&self.address, "/metrics");
        let samples = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        samples.filter_map(|sample| sample.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
    }

    /// Waits until all resources have been evaluated, from the beginning.
    async fn wait_for_cycle(&self) {
        // The one that runs now may have begun before.
        let cycles = self.metric(CYCLES) + 2;
        eventually("a cycle of the Sentinel", || async { (self.metric(CYCLES) >= cycles).then_some(()) })
            .await;
    }
}

#[cfg(feature = "real-brokers")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_is_alive_without_api_and_broker_and_pulses_when_they_are_up() {
    use bellwether_testkit::nats::Nats;

    let dir = tempfile::tempdir().unwrap();
    let mut nats = Nats::start();
    // The subscription exists before the pulse.
    drop(subscribe(&nats).await);
    nats.kill();
    let database = sqlite(dir.path(), "fleet.db");
    let start_api = |listen: &str| {
        let mut command = bellwether(["run", "fleet-api", "--listen", listen, "--database", &database]);
        FleetApi::start(&dir.path().join("fleet"), &mut command)
    };
    let mut api = start_api("127.0.0.1:0");
    let address = api.address().to_owned();
    api.kill();

    let sentinel = Sentinel::start(dir.path(), "sentinel", &address, &nats.url(), &[]);
    eventually("/readyz names the fleet API and the broker with the causes", || async {
        let (status, text) = sentinel.readiness();
        let causes = [
            format!("not ready: sentinel of clusters: fleet API: no response from {address}: "),
            format!("not ready: sentinel of clusters: broker: the broker at {} is unreachable: ", nats.url()),
        ];
        (status == 503 && causes.iter().all(|cause| text.contains(cause))).then_some(())
    })
    .await;
    assert_eq!(get(&sentinel.address, "/healthz"), (200, "ok\n".to_owned()));

    let api = start_api(address.trim_start_matches("http://"));
    let created = create(&api.client(), "abc").await;
    eventually("the pulse cannot be published", || async {
        (sentinel.metric("hyperfleet_sentinel_broker_errors_total") > 0).then_some(())
    })
    .await;
    let (status, text) = sentinel.readiness();
    assert!(status == 503 && !text.contains("fleet API") && text.contains("broker: "), "{status}: {text}");
    assert_eq!(get(&sentinel.address, "/healthz").0, 200);

    nats.start_again();
    let mut subscriber = subscribe(&nats).await;
    let pulse = tokio::time::timeout(crate::server::WAIT_TIMEOUT, subscriber.next()).await.unwrap().unwrap();
    assert_eq!(pulse.event.data["id"], created.id.to_string());
    sentinel.wait_until_ready().await;
    sentinel.wait_for_cycle().await;
    assert_metrics_of_upstream(&sentinel);
}

/// Subscribes to the pulses of clusters.
#[cfg(feature = "real-brokers")]
async fn subscribe(nats: &bellwether_testkit::nats::Nats) -> Box<dyn bellwether_broker::Subscriber> {
    let config = bellwether_broker::BrokerConfig::from_url(nats.url().parse().unwrap());
    let clock = std::sync::Arc::new(bellwether_clock::SystemClock);
    let broker = bellwether_broker::connect(&config, clock).unwrap();
    broker.subscribe(crate::pulse_observer::CLUSTERS, "test").await.unwrap()
}

/// The metrics of HyperFleet's Sentinel that alerts and dashboards use, with its labels.
#[cfg(feature = "real-brokers")]
fn assert_metrics_of_upstream(sentinel: &Sentinel) {
    let (_, metrics) = get(&sentinel.address, "/metrics");
    let labels = format!(
        r#"component="sentinel",version="{}",resource_type="clusters",resource_selector="all""#,
        env!("CARGO_PKG_VERSION")
    );
    for (name, label) in [
        ("pending_resources", ""),
        ("events_published_total", r#"reason="message decision matched""#),
        ("resources_skipped_total", r#"reason="message decision result is false""#),
        ("poll_duration_seconds_count", ""),
        ("api_errors_total", r#"error_type="fetch_error""#),
        ("broker_errors_total", r#"error_type="publish_error""#),
        ("last_successful_poll_timestamp_seconds", ""),
    ] {
        let start = format!("hyperfleet_sentinel_{name}{{{labels}");
        let found = metrics.lines().any(|line| line.starts_with(&start) && line.contains(label));
        assert!(found, "{start},{label} is missing in\n{metrics}");
    }
    assert!(metrics.contains("hyperfleet_broker_messages_published_total{"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standby_pulses_changes_after_the_leader_is_killed_and_no_change_is_pulsed_twice() {
    let dir = tempfile::tempdir().unwrap();
    let kubernetes = start_kubernetes(dir.path());
    let api = FleetApi::start(&dir.path().join("fleet"), &mut fleet_api(&sqlite(dir.path(), "fleet.db")));
    let observer = PulseObserver::new(&dir.path().join("queue.db")).await;
    let kubeconfig = kubernetes.kubeconfig().display().to_string();
    let broker = sqlite(dir.path(), "queue.db");
    let start = |name: &str| {
        let election = ["--leader-election", "--kubeconfig", &kubeconfig];
        Sentinel::start(dir.path(), name, api.address(), &broker, &election)
    };
    let mut replicas = vec![start("first"), start("second")];
    for replica in &replicas {
        replica.wait_until_ready().await;
    }

    let created = create(&api.client(), "abc").await;
    observer.wait_for_pulse(created.id, 1).await;
    let leader = eventually("one replica counts the pulse", || async {
        replicas.iter().position(|replica| replica.metric(PUBLISHED) == 1)
    })
    .await;
    let mut leader = replicas.remove(leader);
    let standby = replicas.remove(0);
    for replica in [&leader, &standby] {
        replica.wait_for_cycle().await;
    }
    assert_eq!((leader.metric(PUBLISHED), standby.metric(PUBLISHED)), (1, 0));

    leader.process.kill();
    let updated = update(&api.client(), &created, "eu-west-2").await;
    let pulse = observer.wait_for_pulse(created.id, 2).await;
    let taken_over = pulse.published_at.duration_since(updated.updated_time);
    println!("the standby published the pulse {taken_over:#} after the change");
    standby.wait_for_cycle().await;
    let generations: Vec<i64> = observer.pulses(created.id).iter().map(|pulse| pulse.generation).collect();
    assert_eq!(generations, [1, 2]);
    assert_eq!(standby.metric(PUBLISHED), 1);
}
