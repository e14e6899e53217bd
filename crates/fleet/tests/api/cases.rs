//! The acceptance cases of the specification (§6, as amended by its Decisions), in their order.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::harness::{Api, Setup, brief, condition, encode, on_both_stores, status};

const REQUIRED: [&str; 4] = ["validation", "dns", "pullsecret", "hypershift"];

fn href(resource: &Value) -> String {
    resource["href"].as_str().unwrap().to_owned()
}

/// All required adapters of a cluster say that all is well.
async fn all_well(api: &Api, href: &str, at: (i64, i64)) {
    for adapter in REQUIRED {
        api.report(href, adapter, at, "True").await.expect(201);
    }
}

async fn create(api: &Api, body: Value) -> crate::harness::Reply {
    api.send("POST", "/clusters", Some(body)).await
}

on_both_stores! {
    async fn case_1_a_cluster_is_made(api: Api) {
        let body = json!({"kind": "Cluster", "name": "test-name", "spec": {"test": "spec"}});
        let reply = create(&api, body).await.expect(201);
        let cluster = reply.json();
        let id = cluster["id"].as_str().unwrap();
        assert_eq!((id.len(), &id[14..15]), (36, "7"), "{id} is a UUID of version 7");
        assert_eq!(cluster["href"], json!(format!("/api/hyperfleet/v1/clusters/{id}")));
        assert_eq!(reply.0.headers["location"], href(&cluster));
        assert_eq!(cluster["generation"], 1);
        assert_eq!(cluster["tenancy"], json!({}));
        assert_eq!(cluster["created_by"], "system@hyperfleet.local");
        assert_eq!((status(&cluster, "Ready"), status(&cluster, "Available")), ("False", "False"));
        for absent in ["labels", "owner_references", "deleted_time", "deleted_by", "references"] {
            assert_eq!(cluster.get(absent), None);
        }
        assert_eq!(api.read(&href(&cluster)).await, cluster);
    }

    async fn case_2_what_is_not_json_is_malformed(api: Api) {
        for body in ["{ this is invalid }", "", "[]", "null", "\"text\"", "{\"a\": 1", "{\"a\": \"\\u0000\"}"] {
            let reply = api.send_bytes("POST", "/clusters", Some(body.as_bytes().to_vec()), &[]).await;
            reply.expect_problem(400, "VAL-006", "");
        }
        let invalid_utf8 = b"{\"kind\": \"\xff\"}".to_vec();
        api.send_bytes("POST", "/clusters", Some(invalid_utf8), &[]).await.expect_problem(400, "VAL-006", "");
    }

    async fn case_3_kind_and_spec_are_required(api: Api) {
        let rows = [
            (json!({"kind": "", "name": "abc", "spec": {}}), "kind is required"),
            (json!({"name": "abc", "spec": {}}), "kind is required"),
            (json!({"kind": "Wrong", "name": "abc", "spec": {}}), "kind must be 'Cluster'"),
            (json!({"kind": "Cluster", "name": "abc", "spec": null}), "spec field must be an object"),
            (json!({"kind": "Cluster", "name": "abc", "spec": [1]}), "spec field must be an object"),
            (json!({"kind": "Cluster", "name": "abc"}), "spec is required"),
            (json!({"kind": 1, "name": "abc", "spec": {}}), "field 'kind' must be a string"),
        ];
        for (body, words) in rows {
            create(&api, body).await.expect_problem(400, "VAL-000", words);
        }
        assert_eq!(api.read("/clusters").await["total"], 0);
    }

    async fn case_4_names_have_a_length_and_a_form(api: Api) {
        let rows = [
            ("a".repeat(53), 201), ("a".repeat(54), 400), (String::new(), 400), ("tëst".to_owned(), 400),
            ("ab".to_owned(), 400), ("-abc".to_owned(), 400), ("abc-".to_owned(), 400), ("Abc".to_owned(), 400),
            ("a.b".to_owned(), 400),
        ];
        for (name, expected) in rows {
            let body = json!({"kind": "Cluster", "name": name, "spec": {}});
            create(&api, body).await.expect(expected);
        }
        let cluster = href(&api.cluster("owner").await);
        for (length, expected) in [(15, 201), (16, 400)] {
            let body = json!({"kind": "NodePool", "name": "a".repeat(length), "spec": {}});
            api.send("POST", &format!("{cluster}/nodepools"), Some(body)).await.expect(expected);
        }
    }

    async fn case_5_a_name_is_unique(api: Api) {
        let body = json!({"kind": "Cluster", "name": "twice", "spec": {}});
        create(&api, body.clone()).await.expect(201);
        create(&api, body).await.expect_problem(409, "CNF-001", "This Cluster already exists");
    }

    async fn case_6_a_spec_is_replaced_whole(api: Api) {
        let cluster = api.cluster("spec").await;
        let spec = json!({"region": "eu", "provider": "gcp"});
        let patched = api.send("PATCH", &href(&cluster), Some(json!({"spec": spec}))).await.expect(200).json();
        assert_eq!((&patched["generation"], &patched["spec"]), (&json!(2), &spec));
    }

    async fn case_7_labels_are_a_change(api: Api) {
        let cluster = href(&api.cluster("labelled").await);
        all_well(&api, &cluster, (1, 5)).await;
        assert_eq!(status(&api.read(&cluster).await, "Ready"), "True");
        let patched = api.send("PATCH", &cluster, Some(json!({"labels": {"env": "prod"}}))).await.expect(200).json();
        assert_eq!((&patched["generation"], status(&patched, "Ready")), (&json!(2), "False"));
        assert_eq!(patched["spec"], json!({"test": "spec"}));
        let cleared = api.send("PATCH", &cluster, Some(json!({"labels": {}}))).await.expect(200).json();
        assert_eq!((&cleared["generation"], cleared.get("labels")), (&json!(3), None));
    }

    async fn case_8_the_same_again_is_no_change(api: Api) {
        let cluster = href(&api.cluster("replay").await);
        let patch = json!({"spec": {"size": 1e2, "zero": -0.0, "list": [1, {"a": null}]}, "labels": {"a": "b"}});
        let first = api.send("PATCH", &cluster, Some(patch.clone())).await.expect(200).json();
        assert_eq!(first["generation"], 2);
        api.set_clock(10);
        let replayed = api.send("PATCH", &cluster, Some(patch)).await.expect(200).json();
        assert_eq!(replayed["generation"], 2);
        assert_eq!(replayed["updated_time"], first["updated_time"]);
    }

    async fn case_9_a_patch_has_to_make_sense(api: Api) {
        let cluster = href(&api.cluster("patched").await);
        let patch = |body| api.send("PATCH", &cluster, Some(body));
        patch(json!({})).await.expect_problem(400, "VAL-005", "at least one field");
        patch(json!({"spec": null})).await.expect_problem(400, "VAL-005", "at least one field");
        patch(json!({"name": "x"})).await.expect_problem(400, "VAL-006", "unknown field 'name'");
        patch(json!({"spec": 1})).await.expect_problem(400, "VAL-000", "spec field must be an object");
        patch(json!({"labels": {"-": "x"}})).await.expect_problem(400, "VAL-000", "label");
        let unknown = "/clusters/01976b1e-5f0a-7c3e-8d2b-4a1f6e9c0b7d";
        let body = json!({"spec": {}});
        api.send("PATCH", unknown, Some(body)).await.expect_problem(404, "NTF-001", "Cluster with id='01976b1e");
        assert_eq!(api.read(&cluster).await["generation"], 1);
    }

    async fn case_10_lists_come_in_pages(api: Api) {
        for number in 0..20 {
            api.set_clock(number);
            api.cluster(&format!("cluster-{number:02}")).await;
        }
        let all = api.read("/clusters").await;
        assert_eq!((&all["size"], &all["total"], &all["page"]), (&json!(20), &json!(20), &json!(1)));
        let second = api.get("/clusters?page=2&size=5").await.expect(200);
        let newest_first = ["cluster-14", "cluster-13", "cluster-12", "cluster-11", "cluster-10"];
        assert_eq!(second.names(), newest_first);
        assert_eq!(second.json()["page"], 2);
        let beyond = api.read("/clusters?page=100").await;
        assert_eq!((&beyond["items"], &beyond["size"], &beyond["total"]), (&json!([]), &json!(0), &json!(20)));
        let rows = [
            ("size=0", "size", "min"), ("size=101", "size", "max"), ("page=abc", "page", "format"),
            ("page=0", "page", "min"), ("page=100001", "page", "max"), ("size=1.5", "size", "format"),
            ("page=99999999999999999999999", "page", "max"), ("page=-1", "page", "min"),
        ];
        for (query, field, constraint) in rows {
            let problem = api.get(&format!("/clusters?{query}")).await.expect_problem(400, "VAL-000", field);
            assert_eq!(problem["errors"][0]["field"], field, "{query}");
            assert_eq!(problem["errors"][0]["constraint"], constraint, "{query}");
        }
        api.get("/clusters?pageSize=3").await.expect_problem(400, "VAL-005", "pageSize");
    }

    async fn case_11_searches_cannot_do_harm(api: Api) {
        let one = api.cluster("one").await;
        api.cluster("two").await;
        let id = one["id"].as_str().unwrap();
        assert_eq!(api.search(&format!("id in ['{id}']")).await.unwrap(), ["one"]);
        assert_eq!(api.search("id='a' OR '1'='1'").await.unwrap(), ["one", "two"]);
        assert_eq!(api.read("/clusters").await["total"], 2);
        let unknown = api.search("nonexistent_column='foo'").await.unwrap_err();
        unknown.expect_problem(400, "VAL-005", "nonexistent_column");
        let wrong = api.search("generation='abc'").await.unwrap_err();
        let problem = wrong.expect_problem(400, "VAL-005", "generation");
        assert!(!problem.to_string().contains("SQLSTATE"));
    }

    async fn case_12_searches_by_label_and_condition(api: Api) {
        let labels = |env: &str| json!({"env": env});
        let ready = href(&api.cluster_with("ready", labels("p"), json!({})).await);
        api.cluster_with("waiting", labels("p"), json!({})).await;
        let other = href(&api.cluster_with("other", labels("q"), json!({})).await);
        for cluster in [&ready, &other] {
            all_well(&api, cluster, (1, 5)).await;
        }
        let both = "labels.env='p' and status.conditions.Ready='True'";
        assert_eq!(api.search(both).await.unwrap(), ["ready"]);
        let upstream = "labels.env='p' and status.conditions.Reconciled='True'";
        assert_eq!(api.search(upstream).await.unwrap(), ["ready"]);
        assert_eq!(api.search("status.conditions.Ready='False'").await.unwrap(), ["waiting"]);
        for refused in [
            "NOT status.conditions.Ready='True'", "status.conditions.Ready!='True'", "status.conditions.ready='True'",
            "status.conditions.Ready in ['True']", "status.conditions.Ready='Maybe'",
        ] {
            api.search(refused).await.unwrap_err().expect_problem(400, "VAL-005", "");
        }
    }

    async fn case_13_searches_by_the_age_of_a_condition(api: Api) {
        let stale = href(&api.cluster("stale").await);
        let fresh = href(&api.cluster("fresh").await);
        all_well(&api, &stale, (1, 5)).await;
        api.set_clock(1000);
        all_well(&api, &fresh, (1, 1000)).await;
        let search = "status.conditions.Ready.last_updated_time < '2026-05-01T00:10:00Z'";
        assert_eq!(api.search(search).await.unwrap(), ["stale"]);
    }

    async fn case_14_numbers_of_a_spec_are_compared_as_numbers(api: Api) {
        for (name, version) in [("two", json!(2)), ("ten", json!(10)), ("word", json!("latest")), ("text", json!("11"))] {
            api.cluster_with(name, json!({}), json!({"release": {"version": version}})).await;
        }
        assert_eq!(api.search("spec.release.version > 9").await.unwrap(), ["ten", "text"]);
        assert_eq!(api.search("spec.release.version = 'latest'").await.unwrap(), ["word"]);
    }

    async fn case_15_lists_have_an_order(api: Api) {
        for name in ["bbb", "aaa", "ccc"] {
            api.cluster(name).await;
        }
        let ordered = async |order: &str| api.get(&format!("/clusters?order={}", encode(order))).await;
        assert_eq!(ordered("name").await.expect(200).names(), ["aaa", "bbb", "ccc"]);
        assert_eq!(ordered("name desc").await.expect(200).names(), ["ccc", "bbb", "aaa"]);
        ordered("name; DROP TABLE resources").await.expect_problem(400, "VAL-005", "invalid order format");
        ordered("name ascending").await.expect_problem(400, "VAL-005", "invalid order format");
        ordered("nonsense").await.expect_problem(400, "VAL-005", "nonsense");
        assert_eq!(api.read("/clusters").await["total"], 3);
    }

    async fn case_16_when_all_required_adapters_are_well(api: Api) {
        let cluster = href(&api.cluster("well").await);
        all_well(&api, &cluster, (1, 5)).await;
        let cluster = api.read(&cluster).await;
        assert_eq!((status(&cluster, "Ready"), status(&cluster, "Available")), ("True", "True"));
        let types: Vec<&str> = cluster["status"]["conditions"].as_array().unwrap().iter()
            .map(|condition| condition["type"].as_str().unwrap()).collect();
        let own = ["ValidationSuccessful", "DnsSuccessful", "PullsecretSuccessful", "HypershiftSuccessful"];
        assert_eq!(types, [&["Ready", "Available"][..], &own[..]].concat());
    }

    async fn case_17_an_adapter_has_one_status(api: Api) {
        let cluster = href(&api.cluster("one-status").await);
        api.report(&cluster, "dns", (1, 5), "False").await.expect(201);
        let accepted = api.report(&cluster, "dns", (1, 6), "True").await.expect(201).json();
        assert_eq!(accepted["created_time"], "2026-05-01T00:00:05Z");
        let statuses = api.read(&format!("{cluster}/statuses")).await;
        assert_eq!((&statuses["total"], &statuses["items"][0]), (&json!(1), &accepted));
        assert_eq!(accepted["conditions"][0]["status"], "True");
        assert_eq!(accepted["conditions"][0]["last_transition_time"], "2026-05-01T00:00:06Z");
        assert_eq!(accepted["conditions"][1]["last_transition_time"], "2026-05-01T00:00:05Z");
    }

    async fn case_18_an_adapter_that_cannot_tell_changes_nothing(api: Api) {
        let cluster = href(&api.cluster("unknown").await);
        for seconds in [5, 6] {
            api.report(&cluster, "dns", (1, seconds), "Unknown").await.expect(204);
        }
        assert_eq!(api.read(&format!("{cluster}/statuses")).await["items"], json!([]));
    }

    async fn case_19_a_report_has_to_be_complete(api: Api) {
        let cluster = href(&api.cluster("complete").await);
        let accepted = api.report(&cluster, "dns", (1, 5), "True").await.expect(201).json();
        let incomplete = [("Available2", "True"), ("Applied", "True"), ("Health2", "True")];
        let reply = api.report_conditions(&cluster, "dns", (1, 6), &incomplete).await;
        reply.expect_problem(400, "VAL-000", "missing mandatory condition");
        assert_eq!(api.read(&format!("{cluster}/statuses")).await["items"], json!([accepted]));
        // Late and incomplete is late.
        api.report_conditions(&cluster, "dns", (1, 4), &incomplete).await.expect(204);
    }

    async fn case_20_a_report_has_to_be_well_formed(api: Api) {
        let cluster = href(&api.cluster("formed").await);
        let conditions = |type_: &str, status: &str| json!([
            {"type": "Available", "status": "True"}, {"type": "Applied", "status": "True"},
            {"type": "Health", "status": "True"}, {"type": type_, "status": status},
        ]);
        let report = |generation: Value, conditions: Value| json!({
            "adapter": "dns", "observed_generation": generation, "conditions": conditions,
        });
        let bodies = [
            report(json!(1), conditions("Available", "True")),
            report(json!(1), conditions("", "True")),
            report(json!(1), conditions("Other", "Maybe")),
            report(json!(0), conditions("Other", "True")),
            report(json!(-1), conditions("Other", "True")),
            report(json!("1"), conditions("Other", "True")),
            report(json!(1.5), conditions("Other", "True")),
            report(json!(null), conditions("Other", "True")),
            report(json!(1), json!({})),
            report(json!(1), json!([1])),
            json!({"observed_generation": 1, "conditions": conditions("Other", "True")}),
            json!({"adapter": "", "observed_generation": 1, "conditions": conditions("Other", "True")}),
            json!({"adapter": "dns", "observed_generation": 1, "conditions": conditions("Other", "True"), "data": []}),
            json!({"adapter": "dns", "observed_generation": 1, "conditions": conditions("Other", "True"),
                   "observed_time": "yesterday"}),
        ];
        for body in bodies {
            let reply = api.send("PUT", &format!("{cluster}/statuses"), Some(body)).await;
            reply.expect_problem(400, "VAL-000", "");
        }
        assert_eq!(api.read(&format!("{cluster}/statuses")).await["total"], 0);
        assert_eq!(api.read(&format!("{cluster}/statuses/log")).await["total"], 0);
    }

    async fn case_21_a_report_is_of_its_time(api: Api) {
        let cluster = href(&api.cluster("timely").await);
        api.set_clock(3600);
        api.report(&cluster, "ahead", (1, 3600 + 120), "True").await.expect(201);
        let future = api.report(&cluster, "far-ahead", (1, 3600 + 600), "True").await;
        future.expect_problem(400, "VAL-000", "observed_time must not be more than 5m0s in the future");
        let past = api.report(&cluster, "old", (1, 3600 - 31 * 60), "True").await;
        past.expect_problem(400, "VAL-000", "observed_time must not be more than 30m0s in the past");
        assert_eq!(api.read(&format!("{cluster}/statuses")).await["total"], 1);
    }

    async fn case_22_reports_that_come_too_late_or_too_early(api: Api) {
        let cluster = href(&api.cluster("late").await);
        api.report(&cluster, "dns", (999, 5), "True").await.expect(204);
        api.touch(&cluster).await;
        let accepted = api.report(&cluster, "dns", (2, 10), "True").await.expect(201).json();
        let before = api.read(&cluster).await;
        api.report(&cluster, "dns", (1, 11), "False").await.expect(204);
        api.report(&cluster, "dns", (2, 9), "False").await.expect(204);
        assert_eq!(api.read(&cluster).await, before);
        let statuses = api.read(&format!("{cluster}/statuses")).await;
        assert_eq!(statuses["items"][0]["conditions"], accepted["conditions"]);
        let log = api.read(&format!("{cluster}/statuses/log")).await;
        let verdicts: Vec<&str> =
            log["items"].as_array().unwrap().iter().map(|entry| entry["verdict"].as_str().unwrap()).collect();
        assert_eq!(verdicts, ["Discarded", "Discarded", "Accepted", "Discarded"]);
        assert!(log["items"][1]["why"].as_str().unwrap().contains("generation 2"), "{log}");
    }

    async fn case_23_statuses_are_put(api: Api) {
        let cluster = href(&api.cluster("put").await);
        let reply = api.send("POST", &format!("{cluster}/statuses"), Some(json!({}))).await;
        assert_eq!(reply.0.headers["allow"], "GET, HEAD, PUT");
        reply.expect_problem(405, "NTF-004", "POST");
        let unknown = "/clusters/01976b1e-5f0a-7c3e-8d2b-4a1f6e9c0b7d";
        api.report(unknown, "dns", (1, 5), "True").await.expect_problem(404, "NTF-001", "Cluster with id");
        api.get("/clusters/not-an-id").await.expect_problem(404, "NTF-001", "not-an-id");
        api.get("/nothing-here").await.expect_problem(404, "NTF-000", "nothing-here");
    }

    async fn case_24_one_adapter_at_the_new_generation(api: Api) {
        let cluster = href(&api.cluster("moving").await);
        all_well(&api, &cluster, (1, 5)).await;
        api.set_clock(8);
        api.touch(&cluster).await;
        api.report(&cluster, "dns", (2, 10), "True").await.expect(201);
        let cluster = api.read(&cluster).await;
        assert_eq!(brief(&cluster, "Ready"), "False@g2 10/8");
        assert_eq!(brief(&cluster, "Available"), "True@g1 5/5");
    }

    async fn case_25_a_cluster_is_deleted_with_its_node_pools(api: Api) {
        let cluster = href(&api.cluster("parent").await);
        let pool = href(&api.node_pool(&cluster, "pool").await);
        api.set_clock(10);
        let deleted = api.send("DELETE", &cluster, None).await.expect(202).json();
        assert_eq!(deleted["deleted_time"], "2026-05-01T00:00:10Z");
        assert_eq!(deleted["deleted_by"], "system@hyperfleet.local");
        let pool = api.read(&pool).await;
        assert_eq!(pool["deleted_time"], deleted["deleted_time"]);
        for resource in [deleted, pool] {
            assert_eq!((&resource["generation"], status(&resource, "Ready")), (&json!(2), "False"));
        }
    }

    async fn case_26_a_second_delete_changes_nothing(api: Api) {
        let cluster = href(&api.cluster("again").await);
        let deletes = (0..5).map(|_| api.send("DELETE", &cluster, None));
        let replies = futures::future::join_all(deletes).await;
        let times: std::collections::BTreeSet<String> =
            replies.into_iter().map(|reply| reply.expect(202).json()["deleted_time"].to_string()).collect();
        assert_eq!(times.len(), 1);
        api.set_clock(10);
        let again = api.send("DELETE", &cluster, None).await.expect(202).json();
        assert_eq!(again["generation"], 2);
        assert!(times.contains(&again["deleted_time"].to_string()));
    }

    async fn case_27_while_it_is_deleted(api: Api) {
        let cluster = href(&api.cluster("going").await);
        api.send("DELETE", &cluster, None).await.expect(202);
        assert!(api.read(&cluster).await["deleted_time"].is_string());
        assert_eq!(api.get("/clusters").await.names(), ["going"]);
        assert_eq!(api.search("deleted_time is null").await.unwrap(), Vec::<String>::new());
        let patch = api.send("PATCH", &cluster, Some(json!({"spec": {}}))).await;
        patch.expect_problem(409, "CNF-003", "is marked for deletion");
        let body = json!({"kind": "NodePool", "name": "late", "spec": {}});
        let child = api.send("POST", &format!("{cluster}/nodepools"), Some(body)).await;
        child.expect_problem(409, "CNF-003", "is marked for deletion");
    }

    async fn case_28_it_goes_when_all_have_cleaned_up(api: Api) {
        let cluster = href(&api.cluster("cleaned").await);
        all_well(&api, &cluster, (1, 5)).await;
        api.send("DELETE", &cluster, None).await.expect(202);
        for adapter in &REQUIRED[..3] {
            api.finalize(&cluster, adapter, (2, 10)).await.expect(201);
        }
        // Cleaned up before the delete, or not at all, does not count.
        api.finalize(&cluster, "hypershift", (1, 11)).await.expect(201);
        api.get(&cluster).await.expect(200);
        api.report(&cluster, "hypershift", (2, 12), "False").await.expect(201);
        api.get(&cluster).await.expect(200);
        // One that cannot tell whether it is available may still have cleaned up.
        let gone = [("Available", "Unknown"), ("Applied", "False"), ("Health", "True"), ("Finalized", "True")];
        api.report_conditions(&cluster, "hypershift", (2, 13), &gone).await.expect(201);
        api.get(&cluster).await.expect(404);
        api.get(&format!("{cluster}/statuses")).await.expect(404);
        assert_eq!(api.read("/clusters").await["total"], 0);
    }

    async fn case_29_a_cluster_goes_with_its_last_node_pool(api: Api) {
        let cluster = href(&api.cluster("outlived").await);
        let pool = href(&api.node_pool(&cluster, "pool").await);
        api.send("DELETE", &cluster, None).await.expect(202);
        for adapter in REQUIRED {
            api.finalize(&cluster, adapter, (2, 10)).await.expect(201);
        }
        let waiting = api.read(&cluster).await;
        assert_eq!(condition(&waiting, "Ready").unwrap()["reason"], "ReconciledWaitingForChildren");
        for adapter in ["validation", "hypershift"] {
            api.finalize(&pool, adapter, (2, 11)).await.expect(201);
        }
        api.get(&pool).await.expect(404);
        api.get(&cluster).await.expect(404);
    }

    async fn case_30_by_force(api: Api) {
        let cluster = href(&api.cluster("forced").await);
        let pool = href(&api.node_pool(&cluster, "pool").await);
        let force = |href: &str, reason: Value| {
            let path = format!("{href}/force-delete");
            let api = &api;
            async move { api.send("POST", &path, Some(json!({"reason": reason}))).await }
        };
        force(&cluster, json!("stuck")).await.expect_problem(409, "CNF-003", "is not in Finalizing state");
        api.send("DELETE", &cluster, None).await.expect(202);
        // The name is free at once.
        api.cluster("forced").await;
        force(&cluster, json!("")).await.expect_problem(400, "VAL-000", "reason");
        force(&cluster, json!("x".repeat(1025))).await.expect_problem(400, "VAL-000", "reason");
        force("/clusters/01976b1e-5f0a-7c3e-8d2b-4a1f6e9c0b7d", json!("x")).await.expect(404);
        force(&cluster, json!("stuck")).await.expect(204);
        api.get(&cluster).await.expect(404);
        api.get(&pool).await.expect(404);
        assert_eq!(api.read("/clusters").await["total"], 1);
    }

    async fn case_31_children_belong_to_their_parent(api: Api) {
        let (one, two) = (href(&api.cluster("one").await), href(&api.cluster("two").await));
        let pool = api.node_pool(&one, "pool").await;
        let id = pool["id"].as_str().unwrap();
        assert_eq!(pool["href"], json!(format!("{one}/nodepools/{id}")));
        let owner = &pool["owner_references"];
        assert_eq!((&owner["kind"], &owner["href"]), (&json!("Cluster"), &json!(one)));
        api.get(&format!("{two}/nodepools/{id}")).await.expect_problem(404, "NTF-001", "NodePool");
        let nowhere = "/clusters/01976b1e-5f0a-7c3e-8d2b-4a1f6e9c0b7d";
        api.get(&format!("{nowhere}/nodepools/{id}")).await.expect_problem(404, "NTF-001", "Cluster");
        api.get(&format!("{nowhere}/nodepools")).await.expect_problem(404, "NTF-001", "Cluster");
        assert_eq!(api.read(&format!("/nodepools/{id}")).await, pool);
        assert_eq!(api.read(&format!("/resources/{id}")).await, pool);
        assert_eq!(api.get(&format!("{one}/nodepools")).await.names(), ["pool"]);
        assert_eq!(api.get(&format!("{two}/nodepools")).await.names(), Vec::<String>::new());
        assert_eq!(api.read("/resources").await["total"], 3);
        assert_eq!(api.get("/resources?kind=NodePool").await.names(), ["pool"]);
        api.get("/resources?kind=Nonsense").await.expect_problem(400, "VAL-005", "Nonsense");
        let body = json!({"kind": "NodePool", "name": "flat", "spec": {}});
        let flat = api.send("POST", "/nodepools", Some(body)).await;
        flat.expect_problem(422, "VAL-000", "kind NodePool is a child kind; create it via /clusters/{id}/nodepools");
        let body = json!({"kind": "Version", "name": "v1", "spec": {}});
        api.send("POST", "/resources", Some(body)).await.expect_problem(422, "VAL-000", "Version");
        let body = json!({"kind": "Channel", "name": "stable", "spec": {}});
        api.send("POST", "/resources", Some(body)).await.expect(201);
    }

    async fn case_33_three_changes_in_a_row(api: Api) {
        let cluster = href(&api.cluster("rapid").await);
        for generation in 2..=4 {
            assert_eq!(api.touch(&cluster).await["generation"], json!(generation));
        }
        for generation in [2, 3, 4] {
            for adapter in REQUIRED {
                api.report(&cluster, adapter, (generation, 5 + generation), "True").await.expect(201);
            }
        }
        assert_eq!(brief(&api.read(&cluster).await, "Ready"), "True@g4 9/9");
    }

    async fn case_34_a_parent_that_keeps_while_it_has_children(api: Api) {
        let body = json!({"kind": "Channel", "name": "stable", "spec": {}});
        let channel = href(&api.send("POST", "/channels", Some(body)).await.expect(201).json());
        let body = json!({"kind": "Version", "name": "v1", "spec": {}});
        let version = href(&api.send("POST", &format!("{channel}/versions"), Some(body)).await.expect(201).json());
        let refused = api.send("DELETE", &channel, None).await;
        refused.expect_problem(409, "CNF-003", "active Version(s) exist");
        // Nobody has to clean up after these: they are gone at once.
        api.send("DELETE", &version, None).await.expect(202);
        api.get(&version).await.expect(404);
        api.send("DELETE", &channel, None).await.expect(202);
        api.send("DELETE", &channel, None).await.expect(404);
    }

    async fn an_adapter_reports_under_one_name(api: Api) {
        let cluster = href(&api.cluster("crowded").await);
        let report = |name: String| {
            let (api, cluster) = (&api, &cluster);
            async move { api.report(cluster, &name, (1, 5), "True").await }
        };
        for number in 0..100 {
            report(format!("pod-{number}")).await.expect(201);
        }
        report("pod-100".to_owned()).await.expect_problem(400, "VAL-000", "already has statuses of 100 adapters");
        // Who is known, and who is required, always may.
        report("pod-7".to_owned()).await.expect(201);
        report("dns".to_owned()).await.expect(201);
    }

    async fn a_transition_never_goes_back(api: Api) {
        let cluster = href(&api.cluster("steady").await);
        api.set_clock(100);
        api.report(&cluster, "dns", (1, 100), "False").await.expect(201);
        api.touch(&cluster).await;
        // It looked at the new generation before it had told of the old one.
        let status = api.report(&cluster, "dns", (2, 90), "True").await.expect(201).json();
        assert_eq!(status["conditions"][0]["last_transition_time"], "2026-05-01T00:01:40Z");
        assert_eq!(brief(&api.read(&cluster).await, "DnsSuccessful"), "True@g2 90/100");
    }

    async fn fields_can_be_chosen(api: Api) {
        let cluster = api.cluster_with("chosen", json!({"env": "p"}), json!({"a": {"b": 1}, "c": 2})).await;
        let id = &cluster["id"];
        let list = api.read("/clusters?fields=name,status.conditions.type,spec.a.b").await;
        let types = json!({"conditions": [{"type": "Ready"}, {"type": "Available"}]});
        assert_eq!(list["items"][0], json!({"id": id, "name": "chosen", "status": types, "spec": {"a": {"b": 1}}}));
        let one = api.read(&format!("{}?fields=labels&fields=spec.*", href(&cluster))).await;
        assert_eq!(one, json!({"id": id, "labels": {"env": "p"}, "spec": cluster["spec"]}));
        let unknown = api.get("/clusters?fields=name,nonsense").await;
        unknown.expect_problem(400, "VAL-000", "The following field(s) doesn't exist in `Resource`: nonsense");
        assert_eq!(api.read("/channels?fields=name").await["items"], json!([]));
    }

    async fn what_a_get_shows_can_be_posted_again(api: Api) {
        let mut cluster = api.cluster_with("original", json!({"env": "p"}), json!({"a": 1})).await;
        cluster["name"] = json!("copy");
        let copy = create(&api, cluster.clone()).await.expect(201).json();
        assert_ne!(copy["id"], cluster["id"]);
        assert_eq!((&copy["spec"], &copy["labels"]), (&cluster["spec"], &cluster["labels"]));
        cluster["replicas"] = json!(3);
        create(&api, cluster).await.expect_problem(400, "VAL-006", "unknown field 'replicas'");
    }

    async fn every_answer_has_an_id(api: Api) {
        let reply = api.get("/clusters").await;
        assert_eq!(reply.0.headers["vary"], "Authorization");
        let id = reply.0.headers["x-request-id"].to_str().unwrap().to_owned();
        let other = api.get("/nonsense").await;
        assert_ne!(other.0.headers["x-request-id"].to_str().unwrap(), id);
        let problem = other.json();
        let _: Timestamp = problem["timestamp"].as_str().unwrap().parse().unwrap();
        assert_eq!(problem["instance"], "/api/hyperfleet/v1/nonsense");
    }
}

#[tokio::test]
async fn what_is_no_longer_required_is_no_longer_waited_for() {
    let store = crate::harness::sqlite();
    let before = Api::start_with(store.clone(), Setup::requiring(&["a"])).await;
    let cluster = href(&before.cluster("leftover").await);
    before.send("DELETE", &cluster, None).await.expect(202);
    drop(before);
    let after = Api::start_with(store, Setup::requiring(&[])).await;
    after.get(&cluster).await.expect(200);
    after.send("DELETE", &cluster, None).await.expect(202);
    after.get(&cluster).await.expect(404);
}
