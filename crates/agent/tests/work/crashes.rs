//! The agent crashes at each of its writes: just before the server receives it, and just after the server has
//! executed it. The next agent completes the work, and no object is left over.

use std::sync::atomic::{AtomicBool, Ordering};

use bellwether_testkit::{CrashAtWrite, CrashPoint, eventually, on_paused_time};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fixture::{Fixture, has_condition, uid};

/// When the next agent starts after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restart {
    Immediately,
    /// After the ManifestWork has changed once more.
    AfterNextStep,
}

/// The steps of the life of a ManifestWork, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Install,
    Change,
    Delete,
}

/// A namespace in the ManifestWork. The test cluster of real Kubernetes does not delete namespaces
/// completely, so there it is left out.
fn own_namespace(fixture: &Fixture<'_>) -> Option<String> {
    (!fixture.spoke.is_kubernetes()).then(|| format!("{}-own", fixture.namespace))
}

async fn start_step(fixture: &Fixture<'_>, step: Step) {
    let map = |name: &str, value: &str| fixture.config_map(name, json!({"k": value}));
    let with_common_manifests = |mut manifests: Vec<Value>| {
        manifests.push(fixture.deployment("d", 1));
        let namespace = |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        manifests.extend(own_namespace(fixture).map(namespace));
        json!(manifests)
    };
    match step {
        Step::Install => {
            fixture.create_work("w", with_common_manifests(vec![map("a", "1"), map("b", "1")])).await
        }
        Step::Change => {
            fixture.set_manifests("w", with_common_manifests(vec![map("a", "2"), map("c", "1")])).await
        }
        Step::Delete => fixture.delete_work("w").await,
    }
}

async fn is_complete(fixture: &Fixture<'_>, step: Step) -> bool {
    let (maps, value) = match step {
        Step::Install => (["a", "b"], "1"),
        Step::Change => (["a", "c"], "2"),
        Step::Delete => return fixture.hub.get(fixture.work_path("w")).await.status == 404,
    };
    let work = fixture.get_work("w").await;
    if !has_condition(&work, "Applied", "True")
        || !has_condition(&work, "Available", "True")
        || fixture.config_map_names().await != maps
    {
        return false;
    }
    let a = fixture.get_config_map("a").await.expect(200);
    let deployment = fixture.spoke.get(fixture.deployment_path("d")).await.expect(200);
    let second = fixture.get_config_map(maps[1]).await.expect(200);
    let entry = |resource: &str, name: &str, uid: String| (resource.to_owned(), name.to_owned(), uid);
    let mut wanted = vec![
        entry("configmaps", "a", uid(&a)),
        entry("configmaps", maps[1], uid(&second)),
        entry("deployments", "d", uid(&deployment)),
    ];
    if let Some(name) = own_namespace(fixture) {
        let namespace = fixture.spoke.get(format!("/api/v1/namespaces/{name}")).await.expect(200);
        wanted.push(entry("namespaces", &name, uid(&namespace)));
    }
    a["data"]["k"] == value && fixture.applied_resources("w").await == wanted
}

/// Runs all steps with an agent that crashes when `crash` is due, and returns whether it crashed.
async fn run_with_crash(fixture: &Fixture<'_>, crash: CrashAtWrite, restart: Restart) -> bool {
    let mut agent: Option<JoinSet<()>> =
        Some(fixture.start_agent_with(crash.wrap(fixture.hub.client()), crash.wrap(fixture.spoke.client())));
    let mut steps = [Step::Install, Step::Change, Step::Delete].into_iter().peekable();
    let mut has_crashed = false;
    while let Some(step) = steps.next() {
        start_step(fixture, step).await;
        let what = format!("{step:?} is complete");
        let crashed = eventually(&what, || async {
            if crash.has_crashed() && !has_crashed {
                Some(true)
            } else {
                is_complete(fixture, step).await.then_some(false)
            }
        })
        .await;
        if !crashed {
            continue;
        }
        has_crashed = true;
        drop(agent.take());
        let mut last = step;
        if restart == Restart::AfterNextStep
            && fixture.hub.get(fixture.work_path("w")).await.status == 200
            && let Some(next) = steps.next()
        {
            start_step(fixture, next).await;
            last = next;
        }
        agent = Some(fixture.start_agent());
        eventually(&format!("{last:?} is completed by the next agent"), || async {
            is_complete(fixture, last).await.then_some(())
        })
        .await;
    }
    assert!(fixture.config_map_names().await.is_empty(), "{:?}", fixture.config_map_names().await);
    assert_eq!(fixture.spoke.get(fixture.deployment_path("d")).await.status, 404);
    if let Some(name) = own_namespace(fixture) {
        assert_eq!(fixture.spoke.get(format!("/api/v1/namespaces/{name}")).await.status, 404);
    }
    assert_eq!(fixture.spoke.get(fixture.applied_work_path("w")).await.status, 404);
    drop(agent);
    has_crashed
}

fn crash_at_every_write(point: CrashPoint, restart: Restart) {
    let mut crashes = 0;
    for writes in 1.. {
        let crashed = AtomicBool::new(false);
        on_paused_time(async {
            let clusters = crate::embedded().await;
            let fixture = Fixture::new(&clusters).await;
            println!("{point:?} {writes}");
            crashed.store(
                run_with_crash(&fixture, CrashAtWrite::new(writes, point), restart).await,
                Ordering::Relaxed,
            );
        });
        if !crashed.into_inner() {
            break;
        }
        crashes += 1;
    }
    assert!(crashes > 15, "only {crashes} writes");
}

#[test]
fn next_agent_completes_the_work_after_a_crash_before_any_write() {
    crash_at_every_write(CrashPoint::BeforeWrite, Restart::Immediately);
}

#[test]
fn next_agent_completes_the_work_after_a_crash_after_any_write() {
    crash_at_every_write(CrashPoint::AfterWrite, Restart::Immediately);
}

#[test]
fn next_agent_completes_the_work_if_it_changed_after_the_crash() {
    crash_at_every_write(CrashPoint::BeforeWrite, Restart::AfterNextStep);
    crash_at_every_write(CrashPoint::AfterWrite, Restart::AfterNextStep);
}

#[cfg(feature = "real-kubernetes")]
#[test]
fn next_agent_completes_the_work_after_a_crash_on_real_kubernetes() {
    use bellwether_testkit::real;
    bellwether_testkit::on_real_time(async {
        let (hub, spoke) = (real::cluster("hub").await, real::cluster("spoke").await);
        let clusters = crate::fixture::TestClusters::prepare(hub, spoke).await;
        let mut writes = 1;
        loop {
            let fixture = Fixture::new(&clusters).await;
            let restart = if writes % 2 == 0 { Restart::Immediately } else { Restart::AfterNextStep };
            println!("after write {writes}");
            if !run_with_crash(&fixture, CrashAtWrite::new(writes, CrashPoint::AfterWrite), restart).await {
                break;
            }
            writes += 1;
        }
        assert!(writes > 15, "only {writes} writes");
    });
}
