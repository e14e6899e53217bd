//! §1.8: what a resourceVersion means on get and list, and pages.

use bellwether_testkit::Cluster;
use serde_json::Value;

use super::{cases, config_map, config_maps, revision};

cases! { "revisions":
    revisions_are_numbers_that_grow_across_kinds,
    a_get_or_list_is_at_least_as_new_as_asked,
    a_list_at_an_exact_revision_shows_the_past,
    a_limit_with_a_revision_means_that_revision,
    a_revision_of_the_future_is_504_with_its_cause,
    a_revision_that_is_no_number_is_refused,
    contradicting_matches_are_422,
    pages_are_consistent_while_the_objects_change,
    pages_count_what_is_left_unless_a_selector_hides_it,
    a_continue_token_takes_no_revision_and_cannot_be_made_up,
    lists_are_sorted_by_namespace_and_name,
}

async fn fill(cluster: &Cluster, names: &[&str]) -> (String, u64) {
    let maps = config_maps(&cluster.namespace().await);
    let mut last = 0;
    for name in names {
        last = revision(&cluster.post(&maps, &config_map(name)).await.expect(201));
    }
    (maps, last)
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("a list");
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .filter(|name| *name != "kube-root-ca.crt")
        .collect()
}

async fn revisions_are_numbers_that_grow_across_kinds(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let first = revision(&cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201));
    let secret = serde_json::json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}});
    let second = cluster.post(format!("/api/v1/namespaces/{namespace}/secrets"), &secret).await.expect(201);
    assert!(revision(&second) > first);
    assert!(revision(&cluster.get(config_maps(&namespace)).await.expect(200)) >= first);
}

async fn a_get_or_list_is_at_least_as_new_as_asked(cluster: &Cluster) {
    let (maps, at) = fill(cluster, &["a"]).await;
    for query in ["", "?resourceVersion=0", &format!("?resourceVersion={at}")] {
        cluster.get(format!("{maps}/a{query}")).await.expect(200);
    }
    for query in
        [format!("resourceVersion={at}"), format!("resourceVersion={at}&resourceVersionMatch=NotOlderThan")]
    {
        let list = cluster.get(format!("{maps}?{query}")).await.expect(200);
        assert_eq!(names(&list), ["a"], "{query}");
        assert!(revision(&list) >= at, "{query}");
    }
    cluster.get(format!("{maps}?resourceVersion=0&resourceVersionMatch=NotOlderThan")).await.expect(200);
}

async fn a_list_at_an_exact_revision_shows_the_past(cluster: &Cluster) {
    let (maps, at) = fill(cluster, &["a", "b"]).await;
    cluster.delete(format!("{maps}/a")).await.expect(200);
    cluster.post(&maps, &config_map("c")).await.expect(201);
    let past =
        cluster.get(format!("{maps}?resourceVersion={at}&resourceVersionMatch=Exact")).await.expect(200);
    assert_eq!((names(&past), revision(&past)), (vec!["a", "b"], at));
    assert_eq!(names(&cluster.get(&maps).await.expect(200)), ["b", "c"]);
}

async fn a_limit_with_a_revision_means_that_revision(cluster: &Cluster) {
    let (maps, at) = fill(cluster, &["a", "b"]).await;
    cluster.post(&maps, &config_map("0")).await.expect(201);
    let list = cluster.get(format!("{maps}?limit=1&resourceVersion={at}")).await.expect(200);
    assert_eq!((names(&list), revision(&list)), (vec!["a"], at));
}

async fn a_revision_of_the_future_is_504_with_its_cause(cluster: &Cluster) {
    let (maps, _) = fill(cluster, &["a"]).await;
    for path in [format!("{maps}?resourceVersion=99999999"), format!("{maps}/a?resourceVersion=99999999")] {
        let answer = cluster.get(&path).await;
        let refused = answer.expect_failure(504, "Timeout");
        refused
            .assert_cause("ResourceVersionTooLarge", "")
            .assert_message("Too large resource version: 99999999, current: ");
        assert_eq!(refused.0["details"]["retryAfterSeconds"], 1, "{path}");
        assert_eq!(answer.header("retry-after"), "1", "{path}");
    }
}

async fn a_revision_that_is_no_number_is_refused(cluster: &Cluster) {
    for text in ["abc", "-1", "1.5"] {
        let answer = cluster.get(format!("/api/v1/namespaces?resourceVersion={text}")).await;
        answer.expect_failure(400, "BadRequest").assert_message("strconv.ParseUint");
    }
}

async fn contradicting_matches_are_422(cluster: &Cluster) {
    for (query, words) in [
        (
            "resourceVersionMatch=Exact",
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        ("resourceVersion=1&resourceVersionMatch=Odd", "Unsupported value: \"Odd\""),
        ("sendInitialEvents=true", "sendInitialEvents is forbidden for list"),
    ] {
        let answer = cluster.get(format!("/api/v1/namespaces?{query}")).await;
        answer
            .expect_failure(422, "Invalid")
            .assert_details("meta.k8s.io", "ListOptions", "")
            .assert_message(words);
    }
}

async fn pages_are_consistent_while_the_objects_change(cluster: &Cluster) {
    let (maps, at) = fill(cluster, &["a", "b", "c", "d", "e"]).await;
    let first = cluster.get(format!("{maps}?limit=2")).await.expect(200);
    assert_eq!(names(&first), ["a", "b"]);
    cluster.delete(format!("{maps}/c")).await.expect(200);
    cluster.post(&maps, &config_map("cc")).await.expect(201);
    let mut seen = Vec::new();
    let mut token = first["metadata"]["continue"].as_str().expect("more to come").to_owned();
    loop {
        let page = cluster.get(format!("{maps}?limit=2&continue={token}")).await.expect(200);
        assert_eq!(revision(&page), revision(&first), "every page is of the revision of the first");
        seen.extend(names(&page).into_iter().map(str::to_owned));
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => token = next.to_owned(),
            _ => break,
        }
    }
    assert!(revision(&first) >= at);
    assert_eq!(seen, ["c", "d", "e"]);
}

async fn pages_count_what_is_left_unless_a_selector_hides_it(cluster: &Cluster) {
    let (maps, _) = fill(cluster, &["a", "b", "c"]).await;
    let page = cluster.get(format!("{maps}?limit=1")).await.expect(200);
    assert_eq!(page["metadata"]["remainingItemCount"], 3, "b, c and the root certificate");
    let page = cluster.get(format!("{maps}?limit=1&labelSelector=%21x")).await.expect(200);
    assert!(page["metadata"]["continue"].is_string());
    assert!(page["metadata"]["remainingItemCount"].is_null());
    let all = cluster.get(format!("{maps}?limit=100")).await.expect(200);
    assert!(all["metadata"]["continue"].is_null() && all["metadata"]["remainingItemCount"].is_null());
}

async fn a_continue_token_takes_no_revision_and_cannot_be_made_up(cluster: &Cluster) {
    let (maps, at) = fill(cluster, &["a", "b"]).await;
    let page = cluster.get(format!("{maps}?limit=1")).await.expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let answer = cluster.get(format!("{maps}?limit=1&continue={token}&resourceVersion={at}")).await;
    answer
        .expect_failure(400, "BadRequest")
        .assert_message("specifying resource version is not allowed when using continue");
    let escaping = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi94In0";
    for odd in ["odd", escaping] {
        let answer = cluster.get(format!("{maps}?continue={odd}")).await;
        answer.expect_failure(400, "BadRequest").assert_message("continue key is not valid");
    }
}

async fn lists_are_sorted_by_namespace_and_name(cluster: &Cluster) {
    let (first, _) = fill(cluster, &["b", "a", "a.b", "a-b"]).await;
    fill(cluster, &["a"]).await;
    assert_eq!(names(&cluster.get(&first).await.expect(200)), ["a", "a-b", "a.b", "b"]);
    let all = cluster.get("/api/v1/configmaps").await.expect(200);
    let namespaces: Vec<&str> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["namespace"].as_str().unwrap())
        .collect();
    let mut sorted = namespaces.clone();
    sorted.sort_unstable();
    assert_eq!(namespaces, sorted);
}
