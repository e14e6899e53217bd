//! §1.8 and §1.9: what happens when history is gone. These cases drop it, and so run alone on a shared server.

use bellwether_testkit::{Cluster, eventually};

use super::{cases, config_map, config_maps, revision};

cases! { "expiry":
    an_expired_page_is_410_with_a_token_that_goes_on_inconsistently,
    a_list_at_a_revision_that_is_gone_is_410,
    a_watch_from_a_revision_that_is_gone_says_so_and_ends,
}

/// Changes something and drops all history, so that what was before is gone.
async fn forget(cluster: &Cluster, maps: &str) {
    for round in 0..3 {
        cluster.post(maps, &config_map(&format!("zz-{round}"))).await.expect(201);
    }
    cluster.compact().await;
}

async fn an_expired_page_is_410_with_a_token_that_goes_on_inconsistently(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    for name in ["a", "b", "c"] {
        cluster.post(&maps, &config_map(name)).await.expect(201);
    }
    let page = cluster.get(format!("{maps}?limit=1")).await.expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    cluster.delete(format!("{maps}/b")).await.expect(200);
    // Kubernetes learns of the compaction with a delay.
    let refused = eventually("the page expires", || async {
        forget(cluster, &maps).await;
        for round in 0..3 {
            cluster.delete(format!("{maps}/zz-{round}")).await.expect(200);
        }
        let answer = cluster.get(format!("{maps}?limit=1&continue={token}")).await;
        (answer.status == 410).then(|| answer.expect_failure(410, "Expired"))
    })
    .await;
    refused.assert_message("The provided continue parameter is too old to display a consistent list result.");
    let next = refused.0["metadata"]["continue"].as_str().expect("a token to go on with");
    let page = cluster.get(format!("{maps}?limit=1&continue={next}")).await.expect(200);
    assert_eq!(page["items"][0]["metadata"]["name"], "c", "b is gone by now");
}

async fn a_list_at_a_revision_that_is_gone_is_410(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    let at = revision(&cluster.post(&maps, &config_map("a")).await.expect(201));
    forget(cluster, &maps).await;
    let answer = eventually("the revision expires", || async {
        let answer = cluster.get(format!("{maps}?resourceVersion={at}&resourceVersionMatch=Exact")).await;
        (answer.status != 200).then_some(answer)
    })
    .await;
    answer
        .expect_failure(410, "Expired")
        .assert_message("The resourceVersion for the provided list is too old");
}

async fn a_watch_from_a_revision_that_is_gone_says_so_and_ends(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    forget(cluster, &maps).await;
    let mut watch = cluster.watch(format!("{maps}?watch=1&resourceVersion=1")).await;
    let event = watch.event().await;
    assert_eq!(event.kind, "ERROR");
    assert_eq!((&event.object["kind"], &event.object["code"]), (&"Status".into(), &410.into()));
    assert_eq!(event.object["reason"], "Expired");
    assert!(
        event.object["message"].as_str().unwrap().starts_with("too old resource version: 1 ("),
        "{event:?}"
    );
    assert_eq!(watch.next().await, None, "the stream ends");
}
