//! Whose resources a caller sees and changes (§1.10 of the specification; Decision 11: reads and writes).

use bellwether_fleet::http::{Access, TenancyConfig};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::harness::{Api, Reply, Setup, sqlite, time};

const SYSTEM: (&str, &str) = ("x-system", "true");
const ONE: (&str, &str) = ("x-org", "one");
const TWO: (&str, &str) = ("x-org", "two");

async fn with_tenants() -> Api {
    let tenancy: TenancyConfig = serde_json::from_value(json!({
        "enabled": true,
        "system_header": "X-System",
        "dimensions": [
            {"header": "X-Org", "key": "org", "required": true},
            {"header": "X-Project", "key": "project"},
        ],
    }))
    .unwrap();
    Api::start_with(sqlite(), Setup { access: Access::open(tenancy), ..Setup::default() }).await
}

impl Api {
    async fn ask(&self, who: &[(&str, &str)], method: &str, path: &str, body: Option<Value>) -> Reply {
        let body = body.map(|body| body.to_string().into_bytes());
        self.send_bytes(method, path, body, who).await
    }

    async fn make(&self, who: (&str, &str), name: &str) -> Value {
        let body = json!({"kind": "Cluster", "name": name, "spec": {}});
        self.ask(&[who], "POST", "/clusters", Some(body)).await.expect(201).json()
    }
}

fn href(resource: &Value) -> &str {
    resource["href"].as_str().unwrap()
}

fn report() -> Value {
    let conditions: Vec<Value> = ["Available", "Applied", "Health"]
        .iter()
        .map(|type_| json!({"type": type_, "status": "True"}))
        .collect();
    json!({
        "adapter": "validation", "observed_generation": 1, "observed_time": time(0).to_string(),
        "conditions": conditions,
    })
}

/// Every way to a resource: its method, its path below the resource's own, and a body that would be taken.
fn ways() -> Vec<(&'static str, &'static str, Option<Value>)> {
    vec![
        ("GET", "", None),
        ("GET", "/statuses", None),
        ("GET", "/statuses/log", None),
        ("PUT", "/statuses", Some(report())),
        ("PATCH", "", Some(json!({"spec": {"changed": true}}))),
        ("DELETE", "", None),
        ("POST", "/force-delete", Some(json!({"reason": "why not"}))),
    ]
}

#[tokio::test]
async fn a_tenant_finds_only_its_own_whatever_the_way() {
    let api = with_tenants().await;
    let cluster = api.make(ONE, "cluster").await;
    let pool = json!({"kind": "NodePool", "name": "pool", "spec": {}});
    let pools = format!("{}/nodepools", href(&cluster));
    let pool = api.ask(&[ONE], "POST", &pools, Some(pool)).await.expect(201).json();
    assert_eq!((&cluster["tenancy"], &pool["tenancy"]), (&json!({"org": "one"}), &json!({"org": "one"})));

    let id = |resource: &Value| resource["id"].as_str().unwrap().to_owned();
    let addresses = [
        href(&cluster).to_owned(),
        format!("/resources/{}", id(&cluster)),
        href(&pool).to_owned(),
        format!("/nodepools/{}", id(&pool)),
        format!("/resources/{}", id(&pool)),
    ];
    for address in &addresses {
        for (method, below, body) in ways() {
            let path = format!("{address}{below}");
            api.ask(&[TWO], method, &path, body).await.expect_problem(404, "NTF-001", "not found");
        }
    }
    let narrower = [ONE, ("x-project", "p")];
    api.ask(&narrower, "GET", href(&cluster), None).await.expect_problem(404, "NTF-001", "not found");
    api.ask(&[TWO], "GET", &pools, None).await.expect_problem(404, "NTF-001", "not found");
    let another = json!({"kind": "NodePool", "name": "another", "spec": {}});
    api.ask(&[TWO], "POST", &pools, Some(another)).await.expect_problem(404, "NTF-001", "not found");

    // Nothing of it left a trace.
    for resource in [&cluster, &pool] {
        assert_eq!(&api.ask(&[ONE], "GET", href(resource), None).await.expect(200).json(), resource);
    }
    let statuses = api.ask(&[ONE], "GET", &format!("{}/statuses", href(&cluster)), None).await.expect(200);
    assert_eq!(statuses.json()["total"], 0);
}

#[tokio::test]
async fn lists_have_the_own_resources_of_a_tenant_and_names_are_unique_for_each() {
    let api = with_tenants().await;
    api.make(ONE, "shared").await;
    api.make(TWO, "shared").await;
    api.make(TWO, "other").await;
    let again = json!({"kind": "Cluster", "name": "shared", "spec": {}});
    api.ask(&[ONE], "POST", "/clusters", Some(again)).await.expect_problem(409, "CNF-001", "exists");
    for path in ["/clusters", "/resources", "/clusters?search=name%20in%20%5B'shared'%2C'other'%5D"] {
        let names = |reply: Reply| {
            let reply = reply.expect(200);
            let mut names = reply.names();
            names.sort();
            assert_eq!(reply.json()["total"], names.len());
            names
        };
        assert_eq!(names(api.ask(&[ONE], "GET", path, None).await), ["shared"]);
        assert_eq!(names(api.ask(&[TWO], "GET", path, None).await), ["other", "shared"]);
        assert_eq!(names(api.ask(&[SYSTEM], "GET", path, None).await), ["other", "shared", "shared"]);
    }
}

#[tokio::test]
async fn who_watches_hears_of_their_own() {
    let api = with_tenants().await;
    api.make(TWO, "before").await;
    let watching = api.client.clone().header("x-org".parse().unwrap(), "one".parse().unwrap());
    let mut events = Box::pin(watching.watch("/clusters", 0).await.unwrap());
    api.make(TWO, "theirs").await;
    api.make(ONE, "ours").await;
    let first = events.next().await.unwrap().unwrap();
    assert_eq!((first.event.as_str(), first.resource.name.as_str()), ("ADDED", "ours"));
}

#[tokio::test]
async fn the_system_reads_everything_and_only_reports() {
    let api = with_tenants().await;
    let cluster = api.make(ONE, "cluster").await;
    for (method, below, body) in ways() {
        let reply = api.ask(&[SYSTEM], method, &format!("{}{below}", href(&cluster)), body).await;
        match method {
            "GET" => drop(reply.expect(200)),
            "PUT" => drop(reply.expect(201)),
            _ => drop(reply.expect_problem(403, "AUZ-001", "only report")),
        }
    }
    let new = json!({"kind": "Cluster", "name": "new", "spec": {}});
    api.ask(&[SYSTEM, ONE], "POST", "/clusters", Some(new)).await.expect_problem(
        403,
        "AUZ-001",
        "only report",
    );
    let seen = api.ask(&[ONE], "GET", &format!("{}/statuses", href(&cluster)), None).await.expect(200).json();
    assert_eq!(seen["total"], 1);
}

#[tokio::test]
async fn who_does_not_say_whose_they_are_is_refused() {
    let api = with_tenants().await;
    let long = "a".repeat(64);
    let rows: [(&[(&str, &str)], &str); 8] = [
        (&[], "X-Org is required"),
        (&[("x-project", "p")], "X-Org is required"),
        (&[("x-org", "")], "1 to 63"),
        (&[("x-org", "a b")], "1 to 63"),
        (&[("x-org", &long)], "1 to 63"),
        (&[ONE, TWO], "must not be repeated"),
        (&[("x-system", "yes")], "X-Org is required"),
        (&[("x-system", "true"), ("x-system", "false"), ("x-org", "a")], "must not be repeated"),
    ];
    for (headers, words) in rows {
        api.ask(headers, "GET", "/clusters", None).await.expect_problem(403, "AUZ-001", words);
    }
    api.ask(&[("x-org", &long[1..])], "GET", "/clusters", None).await.expect(200);
}
