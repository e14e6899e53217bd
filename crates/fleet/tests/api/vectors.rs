//! The vectors of the specification (§2.6, as corrected by Decision 2), over HTTP: what `Ready` (R) and `Available` (L) say
//! after each step, in brief: status, generation, and the times of the oldest report and of the last transition in seconds.

use serde_json::Value;

use crate::harness::{Api, Setup, brief, condition, on_both_stores};

/// A cluster that requires the adapters of the vectors.
async fn cluster(api: &Api) -> String {
    api.set_clock(0);
    api.cluster("vectors").await["href"].as_str().unwrap().to_owned()
}

async fn patch(api: &Api, href: &str, seconds: i64) {
    api.set_clock(seconds);
    api.touch(href).await;
}

async fn delete(api: &Api, href: &str, seconds: i64) {
    api.set_clock(seconds);
    api.send("DELETE", href, None).await.expect(202);
}

/// An accepted report.
async fn report(api: &Api, href: &str, adapter: &str, at: (i64, i64), available: &str) {
    api.set_clock(at.1);
    api.report(href, adapter, at, available).await.expect(201);
}

#[track_caller]
fn reason(resource: &Value, type_: &str, reason: &str) {
    assert_eq!(condition(resource, type_).unwrap()["reason"], reason, "{resource}");
}

macro_rules! vectors {
    ($($name:ident requiring $adapters:expr => |$api:ident, $href:ident| $body:block)+) => {
        $(mod $name {
            use super::*;

            async fn scenario($api: Api) {
                let $href = cluster(&$api).await;
                let $href = $href.as_str();
                $body
            }

            #[tokio::test]
            async fn sqlite() {
                scenario(Api::start_with(crate::harness::sqlite(), Setup::requiring(&$adapters)).await).await;
            }

            #[cfg(feature = "real-postgres")]
            #[tokio::test]
            async fn postgres() {
                let store = crate::harness::postgres().await;
                scenario(Api::start_with(store, Setup::requiring(&$adapters)).await).await;
            }
        })+
    };
}

/// What the two conditions say now.
macro_rules! says {
    ($api:ident, $href:ident, R $ready:literal, L $available:literal) => {{
        let resource = $api.read($href).await;
        assert_eq!(
            (brief(&resource, "Ready"), brief(&resource, "Available")),
            ($ready.into(), $available.into())
        );
        resource
    }};
}

vectors! {
    vectors_1_to_7_a_generation_after_the_other requiring ["a", "b"] => |api, href| {
        let created = says!(api, href, R "False@g1 0/0", L "False@g1 0/0");
        reason(&created, "Ready", "ReconciledMissingAdapters");
        reason(&created, "Available", "AdaptersMissingReports");
        report(&api, href, "a", (1, 5), "True").await;
        says!(api, href, R "False@g1 5/0", L "False@g1 0/0");
        report(&api, href, "b", (1, 9), "True").await;
        let ready = says!(api, href, R "True@g1 5/9", L "True@g1 5/9");
        reason(&ready, "Ready", "ReconciledAll");
        reason(&ready, "Available", "AllAdaptersReconciled");
        patch(&api, href, 100).await;
        says!(api, href, R "False@g2 100/100", L "True@g1 5/9");
        report(&api, href, "a", (2, 105), "True").await;
        says!(api, href, R "False@g2 105/100", L "True@g1 5/9");
        report(&api, href, "b", (2, 106), "False").await;
        says!(api, href, R "False@g2 105/100", L "True@g1 5/9");
        report(&api, href, "b", (2, 120), "True").await;
        says!(api, href, R "True@g2 105/120", L "True@g2 105/9");
    }

    vector_8_an_adapter_that_cannot_tell_takes_nothing_back requiring ["a"] => |api, href| {
        report(&api, href, "a", (1, 5), "True").await;
        api.set_clock(1805);
        api.report_conditions(href, "a", (1, 1805), &[("Applied", "True"), ("Available", "Unknown")]).await.expect(204);
        says!(api, href, R "True@g1 5/5", L "True@g1 5/5");
    }

    vector_9_some_adapters_at_the_new_generation requiring ["a", "b"] => |api, href| {
        report(&api, href, "a", (1, 5), "True").await;
        report(&api, href, "b", (1, 6), "True").await;
        patch(&api, href, 50).await;
        report(&api, href, "a", (2, 60), "True").await;
        says!(api, href, R "False@g2 60/50", L "True@g1 5/6");
    }

    vectors_10_to_13_available_keeps_its_generation_while_it_is_false requiring ["a", "b"] => |api, href| {
        report(&api, href, "a", (1, 5), "True").await;
        report(&api, href, "b", (1, 6), "True").await;
        report(&api, href, "a", (1, 20), "False").await;
        let broken = says!(api, href, R "False@g1 6/20", L "False@g1 6/20");
        reason(&broken, "Available", "AdapterReportedNotAvailable");
        patch(&api, href, 30).await;
        says!(api, href, R "False@g2 30/20", L "False@g1 6/20");
        report(&api, href, "a", (2, 40), "True").await;
        let mixed = says!(api, href, R "False@g2 40/20", L "False@g1 6/20");
        reason(&mixed, "Available", "AdaptersNotAtSameGeneration");
        report(&api, href, "b", (2, 45), "True").await;
        says!(api, href, R "True@g2 40/45", L "True@g2 40/45");
    }

    vectors_14_and_15_reports_of_a_generation_in_between requiring ["a", "b"] => |api, href| {
        patch(&api, href, 1).await;
        patch(&api, href, 2).await;
        report(&api, href, "a", (2, 5), "True").await;
        report(&api, href, "b", (2, 6), "True").await;
        says!(api, href, R "False@g3 2/0", L "True@g2 5/6");
        api.report(href, "b", (1, 7), "True").await.expect(204);
        says!(api, href, R "False@g3 2/0", L "True@g2 5/6");
    }

    vector_16_a_failure_at_the_tracked_generation requiring ["a", "b"] => |api, href| {
        report(&api, href, "a", (1, 5), "True").await;
        report(&api, href, "b", (1, 6), "True").await;
        patch(&api, href, 50).await;
        report(&api, href, "a", (2, 60), "False").await;
        says!(api, href, R "False@g2 60/50", L "True@g1 5/6");
        report(&api, href, "b", (1, 61), "False").await;
        says!(api, href, R "False@g2 60/50", L "False@g1 61/61");
    }

    vector_17_failures_at_another_generation requiring ["a", "b"] => |api, href| {
        report(&api, href, "a", (1, 5), "True").await;
        report(&api, href, "b", (1, 6), "True").await;
        patch(&api, href, 50).await;
        report(&api, href, "a", (2, 60), "False").await;
        report(&api, href, "b", (2, 61), "False").await;
        says!(api, href, R "False@g2 60/50", L "True@g1 5/6");
    }

    vector_18_a_flip_is_dated_by_its_cause requiring ["a", "b"] => |api, href| {
        patch(&api, href, 50).await;
        report(&api, href, "a", (2, 70), "True").await;
        report(&api, href, "b", (2, 71), "True").await;
        says!(api, href, R "True@g2 70/71", L "True@g2 70/71");
        report(&api, href, "b", (2, 90), "False").await;
        says!(api, href, R "False@g2 70/90", L "False@g2 70/90");
    }

    vector_19_of_two_at_one_time_the_later_stays requiring ["a"] => |api, href| {
        report(&api, href, "a", (1, 5), "True").await;
        report(&api, href, "a", (1, 5), "False").await;
        says!(api, href, R "False@g1 5/5", L "False@g1 5/5");
    }

    vectors_20_to_22_while_it_is_deleted requiring ["a", "b"] => |api, href| {
        report(&api, href, "a", (1, 5), "True").await;
        report(&api, href, "b", (1, 6), "True").await;
        let pool = api.node_pool(href, "pool").await["href"].as_str().unwrap().to_owned();
        delete(&api, href, 50).await;
        says!(api, href, R "False@g2 50/50", L "True@g1 5/6");
        api.set_clock(60);
        api.finalize(href, "a", (2, 60)).await.expect(201);
        api.set_clock(70);
        api.finalize(href, "b", (2, 70)).await.expect(201);
        let waiting = says!(api, href, R "False@g2 60/50", L "True@g1 5/6");
        reason(&waiting, "Ready", "ReconciledWaitingForChildren");
        api.set_clock(80);
        for adapter in ["a", "b"] {
            api.finalize(&pool, adapter, (2, 80)).await.expect(201);
        }
        api.get(href).await.expect(404);
    }

    vectors_23_and_24_what_cannot_be_told_yet_is_not_kept requiring ["a"] => |api, href| {
        for seconds in [5, 15] {
            api.set_clock(seconds);
            api.report(href, "a", (1, seconds), "Unknown").await.expect(204);
            says!(api, href, R "False@g1 0/0", L "False@g1 0/0");
            assert_eq!(api.read(&format!("{href}/statuses")).await["total"], 0);
        }
    }

    vectors_25_and_26_the_oldest_report_counts requiring ["a", "b"] => |api, href| {
        report(&api, href, "a", (1, 5), "True").await;
        report(&api, href, "b", (1, 6), "True").await;
        report(&api, href, "a", (1, 1000), "True").await;
        says!(api, href, R "True@g1 6/6", L "True@g1 6/6");
        report(&api, href, "b", (1, 1001), "True").await;
        says!(api, href, R "True@g1 1000/6", L "True@g1 1000/6");
    }

    vector_27_nothing_is_required requiring [] => |api, href| {
        assert_eq!(api.read(href).await["status"]["conditions"], serde_json::json!([]));
        report(&api, href, "a", (1, 5), "True").await;
        assert_eq!(api.read(href).await["status"]["conditions"], serde_json::json!([]));
    }

    vector_28_a_generation_that_is_not_there_yet requiring ["a"] => |api, href| {
        api.report(href, "a", (2, 5), "True").await.expect(204);
        says!(api, href, R "False@g1 0/0", L "False@g1 0/0");
    }

    vector_29_cleaned_up_before_it_was_deleted requiring ["a"] => |api, href| {
        delete(&api, href, 50).await;
        api.set_clock(60);
        api.finalize(href, "a", (1, 60)).await.expect(201);
        says!(api, href, R "False@g2 50/0", L "False@g1 60/0");
    }

    vector_30_cleaned_up_though_nobody_deletes requiring ["a"] => |api, href| {
        api.set_clock(5);
        let conditions = [("Available", "True"), ("Applied", "True"), ("Health", "True"), ("Finalized", "True")];
        api.report_conditions(href, "a", (1, 5), &conditions).await.expect(201);
        says!(api, href, R "True@g1 5/5", L "True@g1 5/5");
    }
}

// The seed's use cases, word for word.
mod use_cases {
    use super::*;

    on_both_stores! {
        async fn use_case_1_in_progress_adapter_task_response(api: Api) {
            // Cluster Ready at gen=1.
            let href = cluster(&api).await;
            for adapter in ["validation", "dns", "pullsecret", "hypershift"] {
                report(&api, &href, adapter, (1, 5), "True").await;
            }
            // At 30m, the adapter starts a new adapter task, and will report Applied=True, Available=Unknown.
            api.set_clock(1800);
            let in_progress = [("Applied", "True"), ("Available", "Unknown")];
            api.report_conditions(&href, "dns", (1, 1800), &in_progress).await.expect(204);
            let resource = api.read(&href).await;
            assert_eq!(brief(&resource, "Ready"), "True@g1 5/5");
            let statuses = api.read(&format!("{href}/statuses")).await;
            let dns = statuses["items"].as_array().unwrap().iter().find(|item| item["adapter"] == "dns").unwrap();
            // It does not update last_updated_time for the adapter; that it is alive is known.
            assert_eq!(dns["last_updated_time"], "2026-05-01T00:00:05Z");
            assert_eq!(dns["last_report_time"], "2026-05-01T00:30:00Z");
            // It is stored in the status log for tracing.
            let log = api.read(&format!("{href}/statuses/log")).await;
            assert_eq!(log["items"][0]["verdict"], "Discarded");
        }

        async fn use_case_2_mixed_generation_for_available_conditions(api: Api) {
            // Cluster has Available=True, Ready=True at gen=1.
            let href = cluster(&api).await;
            for adapter in ["validation", "dns", "pullsecret", "hypershift"] {
                report(&api, &href, adapter, (1, 5), "True").await;
            }
            // User updates spec, gen=2: Ready transitions to False right after the spec update.
            patch(&api, &href, 50).await;
            assert_eq!(brief(&api.read(&href).await, "Ready"), "False@g2 50/50");
            // Only some adapters report observed_generation=2 Available=True.
            report(&api, &href, "dns", (2, 60), "True").await;
            let resource = api.read(&href).await;
            assert_eq!(brief(&resource, "Ready"), "False@g2 60/50");
            assert_eq!(brief(&resource, "Available"), "True@g1 5/5");
        }

        async fn use_case_3_cluster_transitions_to_ready_but_with_mixed_generations(api: Api) {
            // Cluster has Available=True, Ready=True at gen=1.
            let href = cluster(&api).await;
            for adapter in ["validation", "dns", "pullsecret", "hypershift"] {
                report(&api, &href, adapter, (1, 5), "True").await;
            }
            // The first adapter reports Available=False: Available=False Ready=False at gen=1.
            report(&api, &href, "validation", (1, 20), "False").await;
            let resource = api.read(&href).await;
            assert_eq!(brief(&resource, "Ready"), "False@g1 5/20");
            assert_eq!(brief(&resource, "Available"), "False@g1 5/20");
            // User updates, gen=2; the 1st adapter reports Available=True observed_generation=2.
            patch(&api, &href, 30).await;
            report(&api, &href, "validation", (2, 40), "True").await;
            // Available remains False at gen=1.
            let resource = api.read(&href).await;
            assert_eq!(brief(&resource, "Available"), "False@g1 5/20");
            assert_eq!(brief(&resource, "Ready"), "False@g2 40/20");
        }
    }
}
