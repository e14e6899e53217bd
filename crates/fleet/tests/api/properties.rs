//! Laws that hold whatever clients do at the same time: nothing is lost, nothing is counted twice, and what is said is what
//! the accepted reports add up to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether_conditions::fold::generation::{FoldedStatus, Precondition, Report, Reports, Snapshot};
use futures::StreamExt as _;
use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::harness::{Api, Setup, condition, status, time};

const ADAPTERS: [&str; 3] = ["a", "b", "c"];
const CLIENTS: u64 = 8;
const STEPS: usize = 40;

/// Many clients at once: they change, report, delete a few clusters, at random but by a seed.
async fn turmoil(api: &Api, clusters: &[String], seed: u64) {
    let client = |number: u64| async move {
        let mut random = StdRng::seed_from_u64(seed * 1000 + number);
        for step in 0..STEPS {
            let href = &clusters[random.random_range(0..clusters.len())];
            match random.random_range(0..10) {
                0 => {
                    let spec = json!({"client": number, "step": step});
                    let reply = api.send("PATCH", href, Some(json!({"spec": spec}))).await;
                    assert!(matches!(reply.status(), 200 | 404 | 409), "{}", reply.text());
                }
                1 if random.random_range(0..20) == 0 => {
                    let reply = api.send("DELETE", href, None).await;
                    assert!(matches!(reply.status(), 202 | 404), "{}", reply.text());
                }
                _ => {
                    let adapter = ADAPTERS[random.random_range(0..ADAPTERS.len())];
                    let at = (random.random_range(1..6), random.random_range(0..200));
                    let available = ["True", "True", "True", "False", "Unknown"][random.random_range(0..5)];
                    let finalized = if random.random_range(0..4) == 0 { "True" } else { "False" };
                    let conditions = [
                        ("Available", available),
                        ("Applied", "True"),
                        ("Health", "True"),
                        ("Finalized", finalized),
                    ];
                    let reply = api.report_conditions(href, adapter, at, &conditions).await;
                    assert!(matches!(reply.status(), 201 | 204 | 404), "{}", reply.text());
                }
            }
        }
    };
    futures::future::join_all((0..CLIENTS).map(client)).await;
}

/// The conditions of every cluster are the fold of its accepted reports and its changes, in the order of their commits.
async fn conditions_are_the_fold_of_accepted_reports(api: Api) {
    api.set_clock(100);
    let mut clusters = Vec::new();
    for number in 0..3 {
        clusters.push(api.cluster(&format!("cluster-{number}")).await["href"].as_str().unwrap().to_owned());
    }
    // Every state that any client could have seen, in order.
    let mut events = Box::pin(api.client.watch("/clusters", 0).await.unwrap());
    let (done, mut finished) = tokio::sync::oneshot::channel::<i64>();
    let watching = async {
        let mut history: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let mut revision = 0;
        let mut until = None;
        loop {
            if until.is_some_and(|until| revision >= until) {
                return history;
            }
            tokio::select! {
                event = events.next() => {
                    let event = event.unwrap().unwrap();
                    revision = event.revision;
                    history.entry(event.resource.href.clone()).or_default().push(json!(event.resource));
                }
                end = &mut finished, if until.is_none() => until = Some(end.unwrap()),
                () = tokio::time::sleep(Duration::from_secs(30)) => panic!("the feed stopped at {revision}"),
            }
        }
    };
    let acting = async {
        turmoil(&api, &clusters, 7).await;
        // The feed ends with a change that everybody can wait for.
        api.cluster("last").await;
        let list = api.get("/clusters").await;
        done.send(list.0.headers["bellwether-revision"].to_str().unwrap().parse().unwrap()).unwrap();
    };
    let (history, ()) = tokio::join!(watching, acting);

    for (href, states) in &history {
        let mut generation = 0;
        for state in states {
            let now = state["generation"].as_i64().unwrap();
            assert!(now >= generation, "{href} went back from generation {generation} to {now}");
            generation = now;
            let required_at = |adapter: &str| {
                let type_ = format!("{}Successful", adapter.to_uppercase());
                condition(state, &type_).map(|condition| condition["observed_generation"].as_i64().unwrap())
            };
            if status(state, "Ready") == "True" && state.get("deleted_time").is_none() {
                assert!(ADAPTERS.iter().all(|adapter| required_at(adapter) == Some(now)), "{state}");
            }
        }
    }
    for href in &clusters {
        if api.get(href).await.status() == 200 {
            check_fold(&api, href).await;
        }
    }
}

/// The log says which reports were accepted, in the order of their commits; folding them gives what the cluster says.
async fn check_fold(api: &Api, href: &str) {
    let cluster = api.read(href).await;
    let mut entries = Vec::new();
    for page in 1.. {
        let log = api.read(&format!("{href}/statuses/log?size=100&page={page}")).await;
        let items = log["items"].as_array().unwrap().clone();
        if items.is_empty() {
            break;
        }
        entries.extend(items);
    }
    entries.reverse();
    let required: Vec<String> = ADAPTERS.iter().map(|adapter| (*adapter).to_owned()).collect();
    let mut reports: Reports<String> = Reports::default();
    let deleting = cluster.get("deleted_time").is_some();
    let mut last_known: Option<FoldedStatus> = None;
    for entry in entries.iter().filter(|entry| entry["verdict"] == "Accepted") {
        let generation = entry["generation"].as_i64().unwrap();
        let of = |type_: &str| {
            entry["conditions"].as_array().unwrap().iter().find(|it| it["type"] == type_).unwrap()["status"]
                == "True"
        };
        let at: Timestamp = entry["observed_time"].as_str().unwrap().parse().unwrap();
        let report = Report {
            generation: entry["observed_generation"].as_i64().unwrap(),
            holds: of("Available"),
            time: at,
        };
        let _ = reports.offer(entry["adapter"].as_str().unwrap().to_owned(), report, generation);
        let snapshot = Snapshot {
            generation,
            changed_at: time(100),
            required: &required,
            reports: &reports,
            trigger_time: at,
        };
        last_known = snapshot.last_known(last_known.as_ref()).map(|evaluation| evaluation.status);
    }
    let generation = cluster["generation"].as_i64().unwrap();
    let snapshot = Snapshot {
        generation,
        changed_at: time(100),
        required: &required,
        reports: &reports,
        trigger_time: time(0),
    };
    if !deleting {
        let current = snapshot.current(None, Precondition::Met).unwrap().status;
        assert_eq!(status(&cluster, "Ready") == "True", current.holds, "{href}");
        let known = last_known.is_some_and(|answer| answer.holds);
        assert_eq!(status(&cluster, "Available") == "True", known, "{href}: {cluster}");
        if let Some(answer) = last_known.filter(|answer| answer.holds) {
            assert_eq!(
                condition(&cluster, "Available").unwrap()["observed_generation"],
                json!(answer.generation)
            );
        }
    }
}

/// Replaying the feed from the beginning, and from anywhere, gives what a list gives.
async fn the_feed_replayed_is_the_list(api: Api) {
    api.set_clock(100);
    let mut clusters = Vec::new();
    for number in 0..6 {
        clusters.push(api.cluster(&format!("cluster-{number}")).await["href"].as_str().unwrap().to_owned());
    }
    // A mirror kept all the while.
    let mut live = Box::pin(api.client.watch("/clusters", 0).await.unwrap());
    turmoil(&api, &clusters, 11).await;
    let last = api.cluster("last").await;
    let list = api.get("/clusters?size=100").await;
    let revision: i64 = list.0.headers["bellwether-revision"].to_str().unwrap().parse().unwrap();
    let listed: BTreeMap<String, Value> = list.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["id"].as_str().unwrap().to_owned(), item.clone()))
        .collect();
    let mut mirror = BTreeMap::new();
    let mut heard = 0;
    while !mirror.contains_key(last["id"].as_str().unwrap()) || heard < revision {
        let event = tokio::time::timeout(Duration::from_secs(20), live.next()).await;
        let event = event.expect("the feed goes on").unwrap().unwrap();
        heard = event.revision;
        apply(&mut mirror, event);
    }
    assert_eq!(mirror, listed);
    // From the beginning, and from every tenth revision with what was there then forgotten.
    let mut fresh = Box::pin(api.client.watch("/clusters", 0).await.unwrap());
    let mut mirror = BTreeMap::new();
    for _ in 0..listed.len() {
        apply(&mut mirror, fresh.next().await.unwrap().unwrap());
    }
    assert_eq!(mirror, listed);
}

fn apply(mirror: &mut BTreeMap<String, Value>, event: bellwether_fleet::client::WatchEvent) {
    let id = event.resource.id.to_string();
    match event.event.as_str() {
        "DELETED" => mirror.remove(&id),
        _ => mirror.insert(id, json!(event.resource)),
    };
}

/// Changes at the same time are all made, one after the other.
async fn no_change_is_lost(api: Api) {
    let href = api.cluster("contended").await["href"].as_str().unwrap().to_owned();
    let patches =
        (0..50).map(|number| {
            let (api, href) = (&api, &href);
            async move {
                api.send("PATCH", href, Some(json!({"spec": {"number": number}}))).await.expect(200).json()
            }
        });
    let replies = futures::future::join_all(patches).await;
    let mut generations: Vec<i64> =
        replies.iter().map(|reply| reply["generation"].as_i64().unwrap()).collect();
    generations.sort_unstable();
    assert_eq!(generations, (2..52).collect::<Vec<i64>>());
    assert_eq!(api.read(&href).await["generation"], 51);
    let creates = (0..20).map(|_| {
        let api = &api;
        async move {
            api.send("POST", "/clusters", Some(json!({"kind": "Cluster", "name": "same", "spec": {}})))
                .await
                .status()
        }
    });
    let mut statuses = futures::future::join_all(creates).await;
    statuses.sort_unstable();
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1);
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 19);
}

async fn on(store: Arc<dyn bellwether_fleet::store::Store>) -> Api {
    Api::start_with(store, Setup::requiring(&ADAPTERS)).await
}

macro_rules! laws {
    ($($law:ident)+) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $law() {
                super::$law(super::on(crate::harness::sqlite()).await).await;
            })+
        }

        #[cfg(feature = "real-postgres")]
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $law() {
                super::$law(super::on(crate::harness::postgres().await).await).await;
            })+
        }
    };
}

laws! {
    conditions_are_the_fold_of_accepted_reports
    the_feed_replayed_is_the_list
    no_change_is_lost
}
