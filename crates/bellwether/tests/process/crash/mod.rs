//! Kills the server repeatedly at random times under load, and checks that every acknowledged write survives.
//!
//! `BELLWETHER_CRASH_CYCLES` sets how often it is killed and `BELLWETHER_CRASH_SEED` repeats the random
//! choices of a run (not its timing).

mod recorder;
mod replica;
mod worker;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use tokio::task::JoinSet;

use crate::server::{Server, up};
use recorder::{Recorder, Snapshot};
use replica::Replica;
use worker::Worker;

const NAMESPACE: &str = "crash";
const WORKERS: usize = 6;
/// After how many cycles the late watcher resumes.
const LATE_CYCLES: usize = 7;

pub(crate) fn number_from_env(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

/// A server with one spoke: all spokes write to the same store, and each makes every start longer.
fn one_spoke(dir: &Path) -> Command {
    let mut command = up(dir);
    command.args(["--spokes", "1"]);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_server_keeps_exactly_the_acknowledged_writes() {
    let cycles = number_from_env("BELLWETHER_CRASH_CYCLES").unwrap_or(50) as usize;
    let seed = number_from_env("BELLWETHER_CRASH_SEED").unwrap_or_else(|| rand::rng().next_u64());
    println!("{cycles} cycles, BELLWETHER_CRASH_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");

    let recorder = Arc::new(Recorder::default());
    let mut workers: Vec<Worker> =
        (0..WORKERS).map(|number| Worker::new(number, random.next_u64())).collect();
    let mut server = Server::start(&dir, &mut one_spoke(&dir));
    prepare(&server, &recorder).await;
    let (mut eager, mut late) = (Replica::default(), Replica::default());
    for cycle in 0..cycles {
        let load = Duration::from_millis(random.random_range(20..=400));
        workers = kill_under_load(&mut server, workers, &recorder, &mut eager, load).await;
        if random.random_ratio(1, 5) {
            let mut killed_early = Server::launch(&dir, &mut one_spoke(&dir));
            tokio::time::sleep(Duration::from_millis(random.random_range(0..=80))).await;
            killed_early.kill();
        }
        server = Server::start(&dir, &mut one_spoke(&dir));
        let configmaps = configmaps(&server).await;
        recorder.check(&list(&configmaps).await);
        let marker = recorder.mark(&configmaps, cycle).await;
        eager.catch_up(&configmaps, marker, &recorder).await;
        eager.compare(&list(&configmaps).await);
        if cycle % LATE_CYCLES == LATE_CYCLES - 1 || cycle + 1 == cycles {
            late.catch_up(&configmaps, marker, &recorder).await;
            late.compare(&list(&configmaps).await);
        }
    }
    println!("{recorder}; {eager} (eager), {late} (late)");
    assert!(recorder.acknowledged() > cycles, "too few writes: {recorder}");
    assert!(eager.resumed() > 0, "no watch was resumed: {eager}");
}

async fn configmaps(server: &Server) -> Api<ConfigMap> {
    Api::namespaced(server.client("hub").await, NAMESPACE)
}

async fn list(configmaps: &Api<ConfigMap>) -> Snapshot {
    Snapshot::of(configmaps.list(&ListParams::default()).await.unwrap())
}

/// Creates the namespace, and the objects that are not deleted later.
async fn prepare(server: &Server, recorder: &Recorder) {
    let namespaces: Api<Namespace> = Api::all(server.client("hub").await);
    let metadata = ObjectMeta { name: Some(NAMESPACE.into()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let configmaps = configmaps(server).await;
    recorder.prepare(&configmaps).await;
    // The server creates one object itself. Later changes come only from the test.
    tokio::time::timeout(crate::server::WAIT_TIMEOUT, async {
        while configmaps.get_opt("kube-root-ca.crt").await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}

/// Kills the server while the workers write and a watcher watches.
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
