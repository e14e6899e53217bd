//! §1.9: what a watcher sees, in which order, and how a watch ends.

use std::time::Duration;

use bellwether_testkit::{Call, Cluster, Event, WatchStream};
use serde_json::{Value, json};

use super::{cases, config_map, config_maps, revision};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const STREAMING: &str =
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

cases! { "watch":
    a_watch_from_a_revision_sees_what_comes_after_it_in_order,
    a_watch_without_a_revision_begins_with_what_is_there,
    the_headers_come_before_any_event,
    an_object_that_enters_or_leaves_the_selection_is_added_or_deleted,
    concurrent_watchers_see_the_same_order,
    a_watch_ends_after_its_timeout,
    a_watch_from_the_future_waits,
    a_watch_of_one_name_sees_only_it,
    a_watch_of_all_namespaces_sees_each,
    a_streaming_list_ends_its_initial_events_with_a_bookmark,
    a_streaming_list_of_an_empty_selection_is_just_the_bookmark,
    a_streaming_list_as_a_table_and_as_metadata,
    a_streaming_list_without_a_match_is_refused,
    a_streaming_list_of_the_future_fails_in_time,
    only_the_first_table_of_a_watch_defines_its_columns,
    watchers_of_two_versions_of_metadata_each_get_their_own,
    bookmarks_come_before_the_timeout,
    a_get_of_a_name_ignores_watch,
    a_huge_timeout_is_taken,
}

async fn a_watch_from_a_revision_sees_what_comes_after_it_in_order(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
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
    assert_eq!(added.object["kind"], "ConfigMap", "objects of events name their kind");
}

async fn a_watch_without_a_revision_begins_with_what_is_there(cluster: &Cluster) {
    for query in ["watch=1", "watch=true&resourceVersion=0"] {
        let path = config_maps(&cluster.namespace().await);
        cluster.post(&path, &config_map("a")).await.expect(201);
        let mut watch = cluster.watch(format!("{path}?{query}")).await;
        // The order of what is there is the server's business.
        let mut first = [watch.event().await, watch.event().await]
            .map(|event| (event.kind.clone(), event.name().to_owned()));
        first.sort();
        let added = |name: &str| ("ADDED".to_owned(), name.to_owned());
        assert_eq!(first, [added("a"), added("kube-root-ca.crt")]);
        cluster.delete(format!("{path}/a")).await.expect(200);
        watch.expect("DELETED", "a").await;
    }
}

async fn the_headers_come_before_any_event(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
    let from = revision(&cluster.get(&path).await.expect(200));
    // The stream would not be there without the headers.
    let mut watch = cluster.watch(format!("{path}?watch=1&resourceVersion={from}")).await;
    assert!(watch.is_silent_for(Duration::from_millis(100)).await);
    cluster.post(&path, &config_map("a")).await.expect(201);
    watch.expect("ADDED", "a").await;
}

async fn an_object_that_enters_or_leaves_the_selection_is_added_or_deleted(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
    let created = cluster.post(&path, &config_map("a")).await.expect(201);
    let from = revision(&created);
    let mut watch = cluster.watch(format!("{path}?watch=1&resourceVersion={from}&labelSelector=in")).await;
    let label = async |labels: Value, data: &str| {
        let patch = json!({"metadata": {"labels": labels}, "data": {"key": data}});
        revision(&cluster.merge(format!("{path}/a"), &patch).await.expect(200))
    };
    label(json!({"in": "yes"}), "1").await;
    label(json!({"in": "still"}), "2").await;
    let left = label(json!({"in": null}), "3").await;
    label(json!({"out": "side"}), "4").await;
    label(json!({"in": "again"}), "5").await;
    cluster.delete(format!("{path}/a")).await.expect(200);
    watch.expect("ADDED", "a").await;
    watch.expect("MODIFIED", "a").await;
    let gone = watch.expect("DELETED", "a").await;
    assert_eq!(gone.object["data"]["key"], "2", "its last state inside the selection");
    assert_eq!(gone.revision(), left, "at the revision of the change");
    watch.expect("ADDED", "a").await;
    watch.expect("DELETED", "a").await;
}

async fn concurrent_watchers_see_the_same_order(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
    let from = revision(&cluster.get(&path).await.expect(200));
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(cluster.watch(format!("{path}?watch=1&resourceVersion={from}")).await);
    }
    let writes = (0..10).map(|number| {
        let path = path.clone();
        async move {
            let name = format!("c-{number}");
            cluster.post(&path, &config_map(&name)).await.expect(201);
            cluster.merge(format!("{path}/{name}"), &json!({"data": {"a": "b"}})).await.expect(200);
        }
    });
    futures::future::join_all(writes).await;
    let mut seen: Vec<Vec<u64>> = Vec::new();
    for watch in &mut watches {
        let mut revisions = Vec::new();
        for _ in 0..20 {
            revisions.push(watch.event().await.revision());
        }
        assert!(revisions.is_sorted(), "{revisions:?}");
        seen.push(revisions);
    }
    assert!(seen.iter().all(|revisions| *revisions == seen[0]));
}

async fn a_watch_ends_after_its_timeout(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
    let from = revision(&cluster.get(&path).await.expect(200));
    let mut watch = cluster.watch(format!("{path}?watch=1&resourceVersion={from}&timeoutSeconds=1")).await;
    assert_eq!(watch.next().await, None);
}

async fn a_watch_from_the_future_waits(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
    let mut watch = cluster.watch(format!("{path}?watch=1&resourceVersion=99999999&timeoutSeconds=2")).await;
    cluster.post(&path, &config_map("a")).await.expect(201);
    assert_eq!(watch.next().await, None, "no event and no error");
}

async fn a_watch_of_one_name_sees_only_it(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
    let mut watch = cluster.watch(format!("{path}?watch=1&fieldSelector=metadata.name%3Db")).await;
    for name in ["a", "b", "c"] {
        cluster.post(&path, &config_map(name)).await.expect(201);
    }
    watch.expect("ADDED", "b").await;
    cluster.delete(format!("{path}/c")).await.expect(200);
    cluster.delete(format!("{path}/b")).await.expect(200);
    watch.expect("DELETED", "b").await;
}

async fn a_watch_of_all_namespaces_sees_each(cluster: &Cluster) {
    let (one, two) = (cluster.namespace().await, cluster.namespace().await);
    let label = format!("run-{one}");
    let mut watch = cluster.watch(format!("/api/v1/configmaps?watch=1&labelSelector=run%3D{label}")).await;
    for namespace in [&one, &two] {
        let mut object = config_map("a");
        object["metadata"]["labels"] = json!({"run": label});
        cluster.post(config_maps(namespace), &object).await.expect(201);
        let event = watch.expect("ADDED", "a").await;
        assert_eq!(event.object["metadata"]["namespace"], **namespace);
    }
}

async fn until_bookmark(watch: &mut WatchStream) -> (Vec<String>, Event) {
    let mut names = Vec::new();
    loop {
        let event = watch.event().await;
        match event.kind.as_str() {
            "ADDED" => names.push(event.name().to_owned()),
            "BOOKMARK" => {
                names.sort();
                return (names, event);
            }
            other => panic!("{other}: {}", event.object),
        }
    }
}

async fn a_streaming_list_ends_its_initial_events_with_a_bookmark(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
    cluster.post(&path, &config_map("a")).await.expect(201);
    let last = revision(&cluster.post(&path, &config_map("b")).await.expect(201));
    for from in ["", "&resourceVersion=0", &format!("&resourceVersion={last}")] {
        let mut watch = cluster.watch(format!("{path}?{STREAMING}{from}")).await;
        let (names, bookmark) = until_bookmark(&mut watch).await;
        assert_eq!(names, ["a", "b", "kube-root-ca.crt"], "{from}");
        let metadata = &bookmark.object["metadata"];
        assert_eq!(metadata["annotations"], json!({"k8s.io/initial-events-end": "true"}));
        assert_eq!(
            (&bookmark.object["kind"], &bookmark.object["apiVersion"]),
            (&json!("ConfigMap"), &json!("v1"))
        );
        assert!(bookmark.revision() >= last);
        let name = format!("live-{}", from.len());
        cluster.post(&path, &config_map(&name)).await.expect(201);
        watch.expect("ADDED", &name).await;
        cluster.delete(format!("{path}/{name}")).await.expect(200);
        watch.expect("DELETED", &name).await;
    }
}

async fn a_streaming_list_of_an_empty_selection_is_just_the_bookmark(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
    let mut watch = cluster.watch(format!("{path}?{STREAMING}&labelSelector=none")).await;
    let (names, _) = until_bookmark(&mut watch).await;
    assert!(names.is_empty());
}

async fn a_streaming_list_as_a_table_and_as_metadata(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
    cluster.post(&path, &config_map("a")).await.expect(201);
    let streaming = format!("{path}?{STREAMING}&fieldSelector=metadata.name%3Da");
    let mut watch = cluster.watch_as(Call::get(&streaming).accept(TABLE)).await;
    let added = watch.event().await;
    assert_eq!((added.kind.as_str(), &added.object["kind"]), ("ADDED", &json!("Table")));
    assert_eq!(added.object["rows"][0]["cells"][0], "a");
    let bookmark = watch.event().await;
    assert_eq!((bookmark.kind.as_str(), &bookmark.object["kind"]), ("BOOKMARK", &json!("Table")));
    let end = json!({"k8s.io/initial-events-end": "true"});
    assert_eq!(bookmark.object["rows"][0]["object"]["metadata"]["annotations"], end);

    let mut watch = cluster.watch_as(Call::get(&streaming).accept(PARTIAL)).await;
    let added = watch.expect("ADDED", "a").await;
    assert_eq!(added.object["kind"], "PartialObjectMetadata");
    assert!(added.object["data"].is_null());
    let bookmark = watch.event().await;
    assert_eq!(
        (bookmark.kind.as_str(), &bookmark.object["kind"]),
        ("BOOKMARK", &json!("PartialObjectMetadata"))
    );
    assert_eq!(bookmark.object["metadata"]["annotations"], end);
}

async fn a_streaming_list_without_a_match_is_refused(cluster: &Cluster) {
    for (query, words) in [
        ("sendInitialEvents=true", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        (
            "resourceVersionMatch=NotOlderThan",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ] {
        let answer = cluster.get(format!("/api/v1/namespaces?watch=1&timeoutSeconds=1&{query}")).await;
        answer
            .expect_failure(422, "Invalid")
            .assert_details("meta.k8s.io", "ListOptions", "")
            .assert_message(words);
    }
}

async fn a_streaming_list_of_the_future_fails_in_time(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
    let mut watch = cluster.watch(format!("{path}?{STREAMING}&resourceVersion=99999999")).await;
    let event = watch.event().await;
    assert_eq!(event.kind, "ERROR");
    assert_eq!((&event.object["code"], &event.object["reason"]), (&json!(504), &json!("Timeout")));
    assert_eq!(event.object["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(watch.next().await, None);
}

async fn only_the_first_table_of_a_watch_defines_its_columns(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
    let from = revision(&cluster.get(&path).await.expect(200));
    let call = Call::get(format!("{path}?watch=1&resourceVersion={from}")).accept(TABLE);
    let mut watch = cluster.watch_as(call).await;
    for name in ["a", "b"] {
        cluster.post(&path, &config_map(name)).await.expect(201);
    }
    let (first, second) = (watch.event().await.object, watch.event().await.object);
    assert_eq!(first["columnDefinitions"].as_array().map(Vec::len), Some(3));
    assert!(second["columnDefinitions"].is_null(), "{second}");
    assert_eq!(second["rows"][0]["cells"][0], "b");
}

async fn watchers_of_two_versions_of_metadata_each_get_their_own(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
    let from = revision(&cluster.get(&path).await.expect(200));
    let versions = ["v1beta1", "v1"];
    let mut watches = Vec::new();
    for version in versions {
        let accept = format!("application/json;as=PartialObjectMetadata;v={version};g=meta.k8s.io");
        let call = Call::get(format!("{path}?watch=1&resourceVersion={from}")).accept(&accept);
        watches.push(cluster.watch_as(call).await);
    }
    cluster.post(&path, &config_map("a")).await.expect(201);
    for (watch, version) in watches.iter_mut().zip(versions) {
        let added = watch.expect("ADDED", "a").await;
        assert_eq!(added.object["apiVersion"], format!("meta.k8s.io/{version}"));
    }
}

async fn bookmarks_come_before_the_timeout(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
    let created = cluster.post(&path, &config_map("a")).await.expect(201);
    let from = revision(&created);
    let query = format!("watch=1&resourceVersion={from}&allowWatchBookmarks=true&timeoutSeconds=4");
    let mut watch = cluster.watch(format!("{path}?{query}")).await;
    let bookmark = watch.event().await;
    assert_eq!(bookmark.kind, "BOOKMARK");
    assert!(bookmark.revision() >= from);
    assert_eq!((&bookmark.object["kind"], bookmark.name()), (&json!("ConfigMap"), ""));
    assert!(bookmark.object["metadata"]["annotations"].is_null());
}

async fn a_get_of_a_name_ignores_watch(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
    cluster.post(&path, &config_map("a")).await.expect(201);
    let found = cluster.get(format!("{path}/a?watch=1&timeoutSeconds=2")).await.expect(200);
    assert_eq!((&found["kind"], &found["metadata"]["name"]), (&json!("ConfigMap"), &json!("a")));
}

async fn a_huge_timeout_is_taken(cluster: &Cluster) {
    let path = config_maps(&cluster.namespace().await);
    let query = "watch=1&timeoutSeconds=9223372036&allowWatchBookmarks=true";
    let mut watch = cluster.watch(format!("{path}?{query}")).await;
    watch.expect("ADDED", "kube-root-ca.crt").await;
}
