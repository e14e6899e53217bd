//! Many agents in one process, each with a cluster of its own.

use bellwether_apiserver::{HUB, Identity};
use bellwether_testkit::{Tap, embedded, eventually, on_paused_time};
use serde_json::json;
use tokio::task::JoinSet;

use crate::stage::{Stage, says};

/// How many agents there are; more to see what they cost.
fn crowd() -> usize {
    std::env::var("BELLWETHER_CROWD").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}

#[test]
fn a_crowd_of_agents_in_one_process_is_two_tasks_each_and_silent_when_all_is_well() {
    on_paused_time(async {
        let names: Vec<String> = (0..crowd()).map(|n| format!("c{n}")).collect();
        let server = embedded::builder().clusters(names.clone()).start().await.expect("the server starts");
        let hub = embedded::of(&server, HUB);
        let spokes: Vec<_> = names.iter().map(|name| embedded::of(&server, name)).collect();
        let definitions = |place: bellwether_api::Place| {
            let all = bellwether_api::crds().into_iter().filter(move |definition| definition.place == place);
            all.map(|definition| serde_json::to_value(definition.crd).unwrap())
        };
        hub.install_definitions(definitions(bellwether_api::Place::Hub)).await;
        for spoke in &spokes {
            spoke.install_definitions(definitions(bellwether_api::Place::Spokes)).await;
        }
        let mut stages = Vec::new();
        for (name, spoke) in names.iter().zip(&spokes) {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            hub.post("/api/v1/namespaces", &namespace).await.expect(201);
            stages.push(Stage { hub: &hub, spoke, cluster: name.clone(), namespace: "default".into() });
        }
        let metrics = tokio::runtime::Handle::current().metrics();
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        let (tasks, memory, begun) = (metrics.num_alive_tasks(), resident_kib(), std::time::Instant::now());

        let (client, on_hub) = Tap::on(server.client(HUB, Identity::admin()));
        let agents: Vec<JoinSet<()>> =
            stages.iter().map(|stage| stage.run_by(client.clone(), stage.spoke.client())).collect();
        for stage in &stages {
            let map = stage.map("a", json!({"k": "v"}));
            stage.ask("w", json!([map, stage.deployment("d", 1)])).await;
        }
        for stage in &stages {
            eventually("the work is well", || async {
                let work = stage.read("w").await;
                (says(&work, "Applied", "True") && says(&work, "Available", "True")).then_some(())
            })
            .await;
        }
        let took = begun.elapsed();
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        assert_eq!(on_hub.writes().len(), 2 * stages.len());
        // The agent, and the client that tells of its health.
        assert!(metrics.num_alive_tasks() - tasks <= 2 * stages.len() + 8);
        let requests = on_hub.requests().len();
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        assert_eq!(on_hub.requests().len(), requests, "a quiet minute");
        let each = resident_kib().saturating_sub(memory) / stages.len() as u64;
        println!("{} agents: installed in {took:?}, {each} KiB each with its objects", agents.len());
    });
}
