//! §1.9: what a watcher sees, in which order, and how a watch ends.

use bellwether_testkit::Cluster;
use serde_json::json;

use super::{cases, config_map, config_maps, revision};

cases! { "watch":
    a_watch_from_a_revision_sees_what_comes_after_it_in_order,
}

async fn a_watch_from_a_revision_sees_what_comes_after_it_in_order(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let path = config_maps(&namespace);
    let from = revision(&cluster.get(&path).await.expect(200));
    let mut watch = cluster.watch(format!("{path}?watch=true&resourceVersion={from}")).await;
    cluster.post(&path, &config_map("a")).await.expect(201);
    cluster.merge(format!("{path}/a"), &json!({"data": {"key": "other"}})).await.expect(200);
    cluster.delete(format!("{path}/a")).await.expect(200);
    let added = watch.expect("ADDED", "a").await;
    let modified = watch.expect("MODIFIED", "a").await;
    let deleted = watch.expect("DELETED", "a").await;
    assert!(from < added.revision() && added.revision() < modified.revision());
    assert!(modified.revision() < deleted.revision(), "a DELETED carries the revision of the delete");
    assert_eq!(deleted.object["data"], json!({"key": "other"}), "a DELETED carries the last state");
}
