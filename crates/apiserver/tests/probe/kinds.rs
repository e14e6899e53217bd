//! Namespaces, Leases, ServiceAccounts, Services, and the documents that are no objects.

use serde_json::{Value, json};

use super::{NAMESPACE, Step, delete, get, inside, merge, object, post, put};
use crate::behaviour::difference::Difference;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

pub(super) fn steps() -> Vec<Step> {
    [namespaces(), leases(), accounts(), services(), documents()].into_iter().flatten().collect()
}

fn namespaces() -> Vec<Step> {
    let new = |name: &str, rest: Value| post("/api/v1/namespaces", object("Namespace", name, rest));
    let at = "/api/v1/namespaces/probe-ns";
    vec![
        new("probe-ns", json!({})),
        new("probe-ns", json!({})),
        new("With.Dots", json!({})),
        new("with.dots", json!({})),
        new(&"a".repeat(64), json!({})),
        new("finalizers", json!({"spec": {"finalizers": ["odd"]}})),
        new(
            "probe-finalized",
            json!({"spec": {"finalizers": ["example.com/x"]}, "status": {"phase": "Odd"}}),
        ),
        new("in-namespace", json!({"metadata": {"namespace": "default"}})),
        new("labelled", json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}})),
        get(at),
        get(at).accept(TABLE),
        get(format!("{at}/status")),
        get(format!("{at}/finalize")),
        merge(at, json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}})),
        merge(at, json!({"spec": {"finalizers": null}, "status": {"phase": "Terminating"}})),
        merge(format!("{at}/status"), json!({"status": {"phase": "Terminating"}})),
        merge(format!("{at}/status"), json!({"status": {"phase": "Odd"}})),
        merge(
            format!("{at}/status"),
            json!({"status": {"conditions": [{"type": "X", "status": "True", "reason": "R", "message": "M"}]}}),
        ),
        put(at, object("Namespace", "probe-ns", json!({}))),
        put(
            format!("{at}/finalize"),
            object("Namespace", "probe-ns", json!({"spec": {"finalizers": ["odd"]}})),
        ),
        delete("/api/v1/namespaces/default"),
        delete("/api/v1/namespaces/kube-system"),
        delete("/api/v1/namespaces/kube-public"),
        delete("/api/v1/namespaces/missing"),
        delete("/api/v1/namespaces"),
        get("/api/v1/namespaces?fieldSelector=status.phase%3DNone"),
        get("/api/v1/namespaces?fieldSelector=metadata.namespace%3Dx"),
        get("/api/v1/namespaces?fieldSelector=spec.x%3Dx"),
    ]
}

fn leases() -> Vec<Step> {
    let all = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    let lease = |name: &str, spec: Value| json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": name}, "spec": spec});
    let new = |name: &str, spec: Value| post(all.clone(), lease(name, spec));
    vec![
        new(
            "good",
            json!({"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05Z"}),
        ),
        new("micro", json!({"acquireTime": "2026-01-02T03:04:05.123456789+02:00"}))
            .unlike(Difference::ParserWords),
        new("zone", json!({"acquireTime": "2026-01-02T03:04:05.123456+02:00"})),
        new("empty", json!({})),
        new("zero", json!({"leaseDurationSeconds": 0})),
        new("negative", json!({"leaseDurationSeconds": -1, "leaseTransitions": -1})),
        new("strategy", json!({"strategy": "Odd"})),
        new("strategy-2", json!({"strategy": "OldestEmulationVersion", "preferredHolder": "x"})),
        new("strategy-3", json!({"preferredHolder": "x"})),
        new("strategy-4", json!({"strategy": "example.com/x"})),
        new("holder", json!({"holderIdentity": ""})),
        new("time", json!({"renewTime": "x"})),
        new("number", json!({"leaseDurationSeconds": "5"})),
        new("number-2", json!({"leaseDurationSeconds": 5.5})),
        new("number-3", json!({"leaseDurationSeconds": 99_999_999_999_i64})),
        put(format!("{all}/made"), lease("made", json!({"holderIdentity": "me"}))),
        put(format!("{all}/good"), lease("good", json!({"holderIdentity": "you"}))),
        merge(format!("{all}/good"), json!({"spec": {"holderIdentity": "you"}})),
        get(format!("{all}/good")),
        get(format!("{all}/good")).accept(TABLE),
        get(format!("{all}/missing")),
        get(format!("{all}/good/status")),
        delete(format!("{all}/good")),
        get("/apis/coordination.k8s.io/v1/leases?fieldSelector=spec.x%3Dy"),
    ]
}

fn accounts() -> Vec<Step> {
    let new = |name: &str, rest: Value| post(inside("serviceaccounts"), object("ServiceAccount", name, rest));
    vec![
        new("robot", json!({"secrets": [{"name": "x"}], "imagePullSecrets": [{"name": "y"}]})),
        new("Robot", json!({})),
        new("auto", json!({"automountServiceAccountToken": false})),
        get(inside("serviceaccounts/robot")).accept(TABLE),
        merge(inside("serviceaccounts/robot"), json!({"imagePullSecrets": []})),
        delete(inside("serviceaccounts/robot")),
    ]
}

fn services() -> Vec<Step> {
    let new =
        |name: &str, spec: Value| post(inside("services"), object("Service", name, json!({"spec": spec})));
    let port = json!([{"port": 80}]);
    vec![
        new("headless", json!({"clusterIP": "None", "ports": port, "selector": {"a": "b"}}))
            .unlike(Difference::NoClusterIps),
        new("headless-2", json!({"clusterIP": "None"})).unlike(Difference::NoClusterIps),
        new("1digit", json!({"ports": port})).unlike(Difference::NoClusterIps),
        new("Bad", json!({"ports": port})),
        new("target", json!({"clusterIP": "None", "ports": [{"port": 1, "targetPort": "-a--b_"}]})),
        new("no-ports", json!({})),
        new("bad-port", json!({"clusterIP": "None", "ports": [{"port": 0}, {"port": 70000}]})),
        new(
            "dup-port",
            json!({"clusterIP": "None", "ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]}),
        ),
        new("proto", json!({"clusterIP": "None", "ports": [{"port": 1, "protocol": "X"}]})),
        new("type", json!({"type": "Odd", "ports": port})),
        new("external", json!({"type": "ExternalName", "externalName": "example.com"})),
        new("affinity", json!({"clusterIP": "None", "ports": port, "sessionAffinity": "Odd"})),
        new("allocated", json!({"ports": port})).unlike(Difference::NoClusterIps),
        get(inside("services/headless")).unlike(Difference::NoClusterIps),
        get(inside("services/headless")).accept(TABLE),
        get(inside("services/external")).accept(TABLE),
        get(inside("services/headless/status")).unlike(Difference::NoClusterIps),
        merge(
            inside("services/headless/status"),
            json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}),
        ),
        delete(inside("services/headless")).unlike(Difference::NoClusterIps),
    ]
}

fn documents() -> Vec<Step> {
    vec![
        get("/api").unlike(Difference::NoServerAddress),
        get("/apis/coordination.k8s.io"),
        get("/apis/events.k8s.io"),
        get("/apis/events.k8s.io/v1"),
        get("/apis/coordination.k8s.io/v1"),
        get("/apis/missing.k8s.io"),
        get("/apis/missing.k8s.io/v1"),
        get("/apis/coordination.k8s.io/v9"),
        get("/api/v2"),
        get("/api/v1/oddities"),
        get("/api/v1/namespaces/default/oddities"),
        get("/api/v1/namespaces/default/oddities/x"),
        get("/nowhere"),
        get("/healthz"),
        get("/livez"),
        get("/readyz"),
        get("/livez/ping"),
        get("/livez/odd"),
        post("/api", json!({})),
        post("/version", json!({})),
        post("/healthz", json!({})),
        put(inside("configmaps"), json!({})),
        delete("/api/v1/configmaps"),
        post(inside("configmaps/x"), json!({})),
        put("/api/v1/configmaps/x", json!({})),
        get("/api/v1/configmaps/x"),
    ]
}
