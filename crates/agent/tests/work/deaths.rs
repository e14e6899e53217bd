//! The agent dies at every one of its writes: just before the server hears of it, and just after the server did it. The
//! next agent brings everything to the same end, and nothing is left behind.

use std::sync::atomic::{AtomicBool, Ordering};

use bellwether_testkit::{Fuse, Moment, eventually, on_paused_time};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::stage::{Stage, says, uid};

/// When the next agent starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Successor {
    AtOnce,
    /// When the work has changed once more.
    AfterTheNextChange,
}

/// Something that is asked for, in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Install,
    Change,
    Delete,
}

/// A namespace that comes with the work. Nothing empties a namespace of Kubernetes alone, so that there it would not go.
fn own_namespace(stage: &Stage<'_>) -> Option<String> {
    (!stage.spoke.is_kubernetes()).then(|| format!("{}-own", stage.namespace))
}

async fn make(stage: &Stage<'_>, wish: Wish) {
    let map = |name: &str, value: &str| stage.map(name, json!({"k": value}));
    let with_the_rest = |mut manifests: Vec<Value>| {
        manifests.push(stage.deployment("d", 1));
        let namespace = |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        manifests.extend(own_namespace(stage).map(namespace));
        json!(manifests)
    };
    match wish {
        Wish::Install => stage.ask("w", with_the_rest(vec![map("a", "1"), map("b", "1")])).await,
        Wish::Change => stage.change("w", with_the_rest(vec![map("a", "2"), map("c", "1")])).await,
        Wish::Delete => stage.delete("w").await,
    }
}

async fn is_granted(stage: &Stage<'_>, wish: Wish) -> bool {
    let (maps, value) = match wish {
        Wish::Install => (["a", "b"], "1"),
        Wish::Change => (["a", "c"], "2"),
        Wish::Delete => return stage.hub.get(stage.work_path("w")).await.status == 404,
    };
    let work = stage.read("w").await;
    if !says(&work, "Applied", "True") || !says(&work, "Available", "True") || stage.maps().await != maps {
        return false;
    }
    let a = stage.map_now("a").await.expect(200);
    let deployment = stage.spoke.get(stage.deployment_path("d")).await.expect(200);
    let second = stage.map_now(maps[1]).await.expect(200);
    let entry = |resource: &str, name: &str, uid: String| (resource.to_owned(), name.to_owned(), uid);
    let mut wanted = vec![
        entry("configmaps", "a", uid(&a)),
        entry("configmaps", maps[1], uid(&second)),
        entry("deployments", "d", uid(&deployment)),
    ];
    if let Some(name) = own_namespace(stage) {
        let namespace = stage.spoke.get(format!("/api/v1/namespaces/{name}")).await.expect(200);
        wanted.push(entry("namespaces", &name, uid(&namespace)));
    }
    a["data"]["k"] == value && stage.recorded("w").await == wanted
}

/// Goes through all wishes with an agent that dies, and says whether it did.
async fn live_and_die(stage: &Stage<'_>, fuse: Fuse, successor: Successor) -> bool {
    let mut agent: Option<JoinSet<()>> =
        Some(stage.run_by(fuse.on(stage.hub.client()), fuse.on(stage.spoke.client())));
    let mut wishes = [Wish::Install, Wish::Change, Wish::Delete].into_iter().peekable();
    let mut dead = false;
    while let Some(wish) = wishes.next() {
        make(stage, wish).await;
        let what = format!("{wish:?} is granted");
        let died = eventually(&what, || async {
            if fuse.is_blown() && !dead { Some(true) } else { is_granted(stage, wish).await.then_some(false) }
        })
        .await;
        if !died {
            continue;
        }
        dead = true;
        drop(agent.take());
        let mut last = wish;
        if successor == Successor::AfterTheNextChange
            && stage.hub.get(stage.work_path("w")).await.status == 200
            && let Some(next) = wishes.next()
        {
            make(stage, next).await;
            last = next;
        }
        agent = Some(stage.run());
        eventually(&format!("{last:?} is granted after all"), || async {
            is_granted(stage, last).await.then_some(())
        })
        .await;
    }
    assert!(stage.maps().await.is_empty(), "{:?}", stage.maps().await);
    assert_eq!(stage.spoke.get(stage.deployment_path("d")).await.status, 404);
    if let Some(name) = own_namespace(stage) {
        assert_eq!(stage.spoke.get(format!("/api/v1/namespaces/{name}")).await.status, 404);
    }
    assert_eq!(stage.spoke.get(stage.record_path("w")).await.status, 404);
    drop(agent);
    dead
}

fn at_every_write(moment: Moment, successor: Successor) {
    let mut deaths = 0;
    for writes in 1.. {
        let died = AtomicBool::new(false);
        on_paused_time(async {
            let theatre = crate::embedded().await;
            let stage = Stage::new(&theatre).await;
            println!("{moment:?} {writes}");
            died.store(live_and_die(&stage, Fuse::new(writes, moment), successor).await, Ordering::Relaxed);
        });
        if !died.into_inner() {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 15, "only {deaths} writes");
}

#[test]
fn an_agent_that_dies_before_a_write_is_followed_by_one_that_does_it() {
    at_every_write(Moment::BeforeTheWrite, Successor::AtOnce);
}

#[test]
fn an_agent_that_dies_after_a_write_is_followed_by_one_that_knows_it() {
    at_every_write(Moment::AfterTheWrite, Successor::AtOnce);
}

#[test]
fn what_an_agent_left_behind_goes_also_when_the_work_has_changed_meanwhile() {
    at_every_write(Moment::BeforeTheWrite, Successor::AfterTheNextChange);
    at_every_write(Moment::AfterTheWrite, Successor::AfterTheNextChange);
}

#[cfg(feature = "real-kubernetes")]
#[test]
fn agents_die_on_real_kubernetes_too() {
    use bellwether_testkit::real;
    bellwether_testkit::on_real_time(async {
        let (hub, spoke) = (real::cluster("hub").await, real::cluster("spoke").await);
        let theatre = crate::stage::Theatre::prepare(hub, spoke).await;
        let mut writes = 1;
        loop {
            let stage = Stage::new(&theatre).await;
            let successor = if writes % 2 == 0 { Successor::AtOnce } else { Successor::AfterTheNextChange };
            println!("after write {writes}");
            if !live_and_die(&stage, Fuse::new(writes, Moment::AfterTheWrite), successor).await {
                break;
            }
            writes += 1;
        }
        assert!(writes > 15, "only {writes} writes");
    });
}
