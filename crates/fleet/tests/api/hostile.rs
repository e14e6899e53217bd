//! What people send who mean no good, or do not know better: each gets a precise refusal, nothing changes, and nothing of
//! the database shows.

use serde_json::{Value, json};

use crate::harness::{Api, Reply, encode, on_both_stores};

/// Words that only a database says.
const OF_THE_DATABASE: [&str; 9] = [
    "SQLSTATE",
    "sqlite",
    "syntax error at",
    "pq:",
    "SELECT",
    "relation \"",
    "near \"",
    "column \"r.",
    "::text",
];

#[track_caller]
fn is_refused(reply: &Reply, what: &str) {
    let status = reply.status();
    assert!((400..500).contains(&status), "{what:?} is answered with {status}: {}", reply.text());
    assert_eq!(reply.0.headers["content-type"], "application/problem+json", "{what:?}");
    let problem = reply.json();
    assert_eq!(problem["status"], json!(status), "{what:?}");
    let mut words = problem["detail"].as_str().unwrap().to_owned();
    // What the caller wrote may be said back to them.
    words = words.replace(what, "");
    for leaked in OF_THE_DATABASE {
        let own = what.to_lowercase().contains(&leaked.to_lowercase());
        assert!(own || !words.contains(leaked), "{what:?}: {words:?} has words of the database");
    }
}

fn malformed_searches() -> Vec<String> {
    serde_json::from_str(include_str!("../data/malformed_searches.json")).unwrap()
}

on_both_stores! {
    async fn malformed_searches_are_refused(api: Api) {
        api.cluster("bystander").await;
        let searches = malformed_searches();
        assert!(searches.len() >= 200);
        for search in &searches {
            if search.trim().is_empty() {
                continue;
            }
            let reply = api.get(&format!("/clusters?search={}", encode(search))).await;
            is_refused(&reply, search);
            assert_eq!(reply.status(), 400, "{search:?}");
        }
        assert_eq!(api.read("/clusters").await["total"], 1);
    }

    async fn sql_in_every_parameter_and_place_is_only_text(api: Api) {
        let cluster = api.cluster("bystander").await;
        let fragments = [
            "'; DROP TABLE resources; --", "1 OR 1=1", "\" OR \"\"=\"", "name desc; DELETE FROM resources",
            "$1", "?1", "%00", "{}", "../../etc/passwd", "ORDER BY 1", "created_time)--", "\\", "NULL",
        ];
        for fragment in fragments {
            let encoded = encode(fragment);
            for parameter in ["page", "size", "order", "fields", "since", "watch", "kind", "nonsense"] {
                let reply = api.get(&format!("/clusters?{parameter}={encoded}")).await;
                is_refused(&reply, fragment);
            }
            is_refused(&api.get(&format!("/clusters/{encoded}")).await, fragment);
            is_refused(&api.get(&format!("/clusters/{encoded}/nodepools")).await, fragment);
            is_refused(&api.send("DELETE", &format!("/resources/{encoded}"), None).await, fragment);
            let body = json!({"kind": "Cluster", "name": fragment, "spec": {}});
            is_refused(&api.send("POST", "/clusters", Some(body)).await, fragment);
            // In a spec it is what somebody wants, and comes back as it was.
            let spec = json!({ fragment: fragment });
            let patched = api.send("PATCH", cluster["href"].as_str().unwrap(), Some(json!({"spec": spec}))).await;
            assert_eq!(patched.expect(200).json()["spec"], spec);
            let found = api.search(&format!("spec.a = '{}'", fragment.replace('\'', "''").replace('\\', "\\\\"))).await;
            assert!(found.is_ok_and(|found| found.is_empty()), "{fragment}");
        }
        assert_eq!(api.read("/clusters").await["total"], 1);
    }

    async fn pages_beyond_all_bounds_are_refused(api: Api) {
        for page in ["0", "-1", "100001", "4294967296", "18446744073709551616", "1e3", "0x10", " 1", "1 ", "١"] {
            is_refused(&api.get(&format!("/clusters?page={}", encode(page))).await, page);
            is_refused(&api.get(&format!("/clusters?size={}", encode(page))).await, page);
        }
        is_refused(&api.get("/clusters?page=1&page=2").await, "page twice");
        api.get("/clusters?page=100000&size=100").await.expect(200);
        let long = format!("name = '{}'", "a".repeat(5000));
        is_refused(&api.get(&format!("/clusters?search={}", encode(&long))).await, &long);
    }

    async fn bodies_beyond_the_bound_are_refused(api: Api) {
        let body = json!({"kind": "Cluster", "name": "huge", "spec": {"text": "x".repeat(2 * 1024 * 1024)}});
        let reply = api.send("POST", "/clusters", Some(body)).await;
        reply.expect_problem(413, "LMT-002", "1048576");
        let deep = format!("{{\"kind\":\"Cluster\",\"name\":\"deep\",\"spec\":{}{}}}", "{\"a\":".repeat(500), "1".to_owned() + &"}".repeat(500));
        let reply = api.send_bytes("POST", "/clusters", Some(deep.into_bytes()), &[]).await;
        is_refused(&reply, "deep");
        assert_eq!(api.read("/clusters").await["total"], 0);
    }

    async fn what_is_not_utf8_is_refused(api: Api) {
        for query in ["search=%ff", "search=name%3D%27%c3%28%27", "order=%fe%ff", "%ff=1", "fields=%80"] {
            is_refused(&api.get(&format!("/clusters?{query}")).await, query);
        }
        is_refused(&api.get("/clusters/%ff%fe").await, "path");
        for body in [&b"\xff\xfe"[..], b"{\"kind\":\"Cluster\",\"name\":\"\xc3\x28\"}", b"\x00", b"{\"a\":\"\\ud800\"}"] {
            is_refused(&api.send_bytes("POST", "/clusters", Some(body.to_vec()), &[]).await, "body");
        }
    }

    async fn only_json_is_taken(api: Api) {
        let body = json!({"kind": "Cluster", "name": "form", "spec": {}}).to_string().into_bytes();
        for media_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
            let headers = [("content-type", media_type)];
            let reply = api.send_typed("POST", "/clusters", body.clone(), &headers).await;
            reply.expect_problem(415, "VAL-008", "application/json");
        }
        assert_eq!(api.read("/clusters").await["total"], 0);
    }

    async fn odd_but_right_json_comes_back_as_it_was(api: Api) {
        let spec = json!({
            "unicode": "é ü 漢字 🐑 \u{202e}", "": "empty key", "a.b": 1, "nested": [[[[{}]]]], "null": null,
            "large": u64::MAX, "small": i64::MIN, "float": 0.1, "tiny": 5e-324, "true": true, "quote": "'\"\\",
        });
        let cluster = api.cluster_with("odd", json!({}), spec.clone()).await;
        assert_eq!(api.read(cluster["href"].as_str().unwrap()).await["spec"], spec);
        let numbers: Value = serde_json::from_str("{\"e\": 1e17, \"f\": 100.0, \"g\": 1E-7}").unwrap();
        let patched = api.send("PATCH", cluster["href"].as_str().unwrap(), Some(json!({"spec": numbers}))).await;
        let back = patched.expect(200).json();
        for (key, value) in numbers.as_object().unwrap() {
            assert_eq!(back["spec"][key].as_f64(), value.as_f64());
        }
    }
}
