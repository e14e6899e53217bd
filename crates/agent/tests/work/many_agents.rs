//! Many agents in one process, each with its own cluster.

use bellwether_apiserver::{HUB, Identity};
use bellwether_testkit::{Tap, embedded, eventually, on_paused_time};
use serde_json::json;
use tokio::task::JoinSet;

use crate::fixture::{Fixture, has_condition};

/// The number of agents. To measure the memory per agent, set a larger number.
fn agent_count() -> usize {
    std::env::var("BELLWETHER_TEST_AGENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}

#[test]
fn agents_use_two_tasks_each_and_send_no_requests_while_nothing_changes() {
    on_paused_time(async {
        let names: Vec<String> = (0..agent_count()).map(|n| format!("c{n}")).collect();
        let server = embedded::builder().clusters(names.clone()).start().await.expect("the server starts");
        let hub = embedded::logical_cluster(&server, HUB);
        let spokes: Vec<_> = names.iter().map(|name| embedded::logical_cluster(&server, name)).collect();
        let crds = |place: bellwether_api::Place| {
            let all = bellwether_api::crds().into_iter().filter(move |crd| crd.place == place);
            all.map(|crd| serde_json::to_value(crd.crd).unwrap())
        };
        hub.install_crds(crds(bellwether_api::Place::Hub)).await;
        for spoke in &spokes {
            spoke.install_crds(crds(bellwether_api::Place::Spokes)).await;
        }
        let mut fixtures = Vec::new();
        for (name, spoke) in names.iter().zip(&spokes) {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            hub.post("/api/v1/namespaces", &namespace).await.expect(201);
            fixtures.push(Fixture { hub: &hub, spoke, cluster: name.clone(), namespace: "default".into() });
        }
        let metrics = tokio::runtime::Handle::current().metrics();
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        let (tasks, memory, start) = (metrics.num_alive_tasks(), resident_kib(), std::time::Instant::now());

        let (client, on_hub) = Tap::on(server.client(HUB, Identity::admin()));
        let agents: Vec<JoinSet<()>> = fixtures
            .iter()
            .map(|fixture| fixture.start_agent_with(client.clone(), fixture.spoke.client()))
            .collect();
        for fixture in &fixtures {
            let map = fixture.config_map("a", json!({"k": "v"}));
            fixture.create_work("w", json!([map, fixture.deployment("d", 1)])).await;
        }
        for fixture in &fixtures {
            eventually("the ManifestWork is applied and available", || async {
                let work = fixture.get_work("w").await;
                (has_condition(&work, "Applied", "True") && has_condition(&work, "Available", "True"))
                    .then_some(())
            })
            .await;
        }
        let took = start.elapsed();
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        assert_eq!(on_hub.writes().len(), 2 * fixtures.len());
        // One task is the agent, the other the client that reports its health.
        assert!(metrics.num_alive_tasks() - tasks <= 2 * fixtures.len() + 8);
        let requests = on_hub.requests().len();
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        assert_eq!(on_hub.requests().len(), requests, "no requests while nothing changes");
        let each = resident_kib().saturating_sub(memory) / fixtures.len() as u64;
        println!("{} agents: installed in {took:?}, {each} KiB each with its objects", agents.len());
    });
}
