//! Kill the server at random moments under load, over and over, and hold it to every answer it gave.
//!
//! `BELLWETHER_CRASH_CYCLES` sets how often it is killed and `BELLWETHER_CRASH_SEED` repeats the choices of a run
//! (not its timing).

mod recorder;
mod replica;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use tokio::task::JoinSet;

use crate::server::{Server, up};
use recorder::{Recorder, Shelf};
use replica::Replica;
use worker::Worker;

const NAMESPACE: &str = "crash";
const WORKERS: usize = 6;
/// How many cycles a watcher sleeps that resumes late.
const NAP: usize = 7;

pub(crate) fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_keeps_what_it_acknowledged_and_nothing_else() {
    let cycles = number_from("BELLWETHER_CRASH_CYCLES").unwrap_or(50) as usize;
    let seed = number_from("BELLWETHER_CRASH_SEED").unwrap_or_else(|| rand::rng().next_u64());
    println!("{cycles} cycles, BELLWETHER_CRASH_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");

    let recorder = Arc::new(Recorder::default());
    let mut workers: Vec<Worker> =
        (0..WORKERS).map(|number| Worker::new(number, random.next_u64())).collect();
    let mut server = Server::start(&dir, &mut up(&dir));
    prepare(&server, &recorder).await;
    let (mut eager, mut late) = (Replica::default(), Replica::default());
    for cycle in 0..cycles {
        let load = Duration::from_millis(random.random_range(20..=400));
        workers = kill_under_load(&mut server, workers, &recorder, &mut eager, load).await;
        if random.random_ratio(1, 5) {
            let mut hasty = Server::launch(&dir, &mut up(&dir));
            tokio::time::sleep(Duration::from_millis(random.random_range(0..=80))).await;
            hasty.kill();
        }
        server = Server::start(&dir, &mut up(&dir));
        let shelf = configmaps(&server).await;
        recorder.judge(&list(&shelf).await);
        let marker = recorder.mark(&shelf, cycle).await;
        eager.catch_up(&shelf, marker, &recorder).await;
        eager.compare(&list(&shelf).await);
        if cycle % NAP == NAP - 1 || cycle + 1 == cycles {
            late.catch_up(&shelf, marker, &recorder).await;
            late.compare(&list(&shelf).await);
        }
    }
    println!("{recorder}; {eager} (eager), {late} (late)");
    assert!(recorder.acknowledged() > cycles, "hardly anything was written: {recorder}");
    assert!(eager.resumed() > 0, "no watch was ever resumed: {eager}");
}

async fn configmaps(server: &Server) -> Api<ConfigMap> {
    Api::namespaced(server.client("hub").await, NAMESPACE)
}

async fn list(configmaps: &Api<ConfigMap>) -> Shelf {
    Shelf::of(configmaps.list(&ListParams::default()).await.unwrap())
}

/// A namespace with everything that nobody deletes later.
async fn prepare(server: &Server, recorder: &Recorder) {
    let namespaces: Api<Namespace> = Api::all(server.client("hub").await);
    let metadata = ObjectMeta { name: Some(NAMESPACE.into()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let configmaps = configmaps(server).await;
    recorder.prepare(&configmaps).await;
    // The server itself adds one object; after that all changes are ours.
    tokio::time::timeout(crate::server::PATIENCE, async {
        while configmaps.get_opt("kube-root-ca.crt").await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}

/// Lets the workers write and a watcher watch, and kills the server in the midst of it.
async fn kill_under_load(
    server: &mut Server,
    workers: Vec<Worker>,
    recorder: &Arc<Recorder>,
    watcher: &mut Replica,
    load: Duration,
) -> Vec<Worker> {
    let mut writing = JoinSet::new();
    for worker in workers {
        let configmaps = configmaps(server).await;
        writing.spawn(worker.write(configmaps, recorder.clone()));
    }
    let watched = configmaps(server).await;
    let killing = async {
        tokio::time::sleep(load).await;
        server.kill();
    };
    tokio::join!(killing, watcher.follow(&watched, recorder));
    writing.join_all().await
}
