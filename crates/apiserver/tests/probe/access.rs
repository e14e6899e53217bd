//! Who may do what: the same requests of the same users, by roles of every kind, to both servers. Verdicts and words
//! must be equal.

use std::time::Duration;

use bellwether_testkit::{Call, Cluster};
use serde_json::{Value, json};

const NAMESPACE: &str = "access";
const GROUP: &str = "rbac.authorization.k8s.io";

/// Somebody, by the user name and groups that the administrator impersonates.
struct User {
    name: &'static str,
    groups: &'static [&'static str],
}

const fn user(name: &'static str) -> User {
    User { name, groups: &[] }
}

const NOBODY: User = user("nobody");
const VIEWER: User = user("viewer");
const EDITOR: User = user("editor");
const CHIEF: User = user("chief");
const READER: User = user("reader");
const NAMED: User = user("named");
const PARTS: User = user("parts");
const PATHS: User = user("paths");
const BINDER: User = user("binder");
const ESCALATOR: User = user("escalator");
const GRANTER: User = user("granter");
const WHOLE: User = user("whole");
const DANGLING: User = user("dangling");
const ROBOT: User = user("system:serviceaccount:access:robot");
const STRANGER: User = user("system:serviceaccount:default:robot");
const DEVELOPER: User = User { name: "somebody", groups: &["developers"] };
const MASTER: User = User { name: "root", groups: &["system:masters"] };

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

fn cluster_role(name: &str, rules: Value) -> (String, Value) {
    let role = json!({"kind": "ClusterRole", "apiVersion": format!("{GROUP}/v1"), "metadata": {"name": name}, "rules": rules});
    (format!("/apis/{GROUP}/v1/clusterroles"), role)
}

fn role(name: &str, rules: Value) -> (String, Value) {
    let role = json!({"kind": "Role", "apiVersion": format!("{GROUP}/v1"), "metadata": {"name": name}, "rules": rules});
    (format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}/roles"), role)
}

fn binding(name: &str, role: (&str, &str), subject: Value) -> (String, Value) {
    let binding = json!({
        "kind": "RoleBinding", "apiVersion": format!("{GROUP}/v1"), "metadata": {"name": name},
        "roleRef": {"kind": role.0, "name": role.1}, "subjects": [subject],
    });
    (format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}/rolebindings"), binding)
}

fn cluster_binding(name: &str, role: &str, subject: Value) -> (String, Value) {
    let binding = json!({
        "kind": "ClusterRoleBinding", "apiVersion": format!("{GROUP}/v1"), "metadata": {"name": name},
        "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [subject],
    });
    (format!("/apis/{GROUP}/v1/clusterrolebindings"), binding)
}

fn person(name: &str) -> Value {
    json!({"kind": "User", "name": name})
}

/// What is there before anybody asks.
fn world() -> Vec<(String, Value)> {
    let config = rule(&[""], &["configmaps"], &["get", "list", "watch"]);
    let mut only = rule(&[""], &["configmaps"], &["get", "list", "update", "patch", "delete"]);
    only["resourceNames"] = json!(["only"]);
    let mut bind = rule(&[GROUP], &["clusterroles"], &["bind"]);
    bind["resourceNames"] = json!(["view"]);
    let bindings = rule(&[GROUP], &["rolebindings", "clusterrolebindings"], &["create", "update"]);
    let roles = rule(&[GROUP], &["roles", "clusterroles"], &["create", "update", "patch"]);
    let mut part = cluster_role("probe-part", json!([rule(&[""], &["configmaps"], &["get"])]));
    part.1["metadata"]["labels"] = json!({"part-of": "probe"});
    let mut whole = cluster_role("probe-whole", json!([]));
    whole.1["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"part-of": "probe"}}]});
    vec![
        (
            "/api/v1/namespaces".into(),
            json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": NAMESPACE}}),
        ),
        binding("viewer", ("ClusterRole", "view"), person("viewer")),
        binding("editor", ("ClusterRole", "edit"), person("editor")),
        binding("chief", ("ClusterRole", "admin"), person("chief")),
        cluster_role("probe-reader", json!([config])),
        cluster_binding("probe-reader", "probe-reader", person("reader")),
        role("named", json!([only, rule(&[""], &["configmaps"], &["create"])])),
        binding("named", ("Role", "named"), person("named")),
        cluster_role(
            "probe-parts",
            json!([rule(&["*"], &["*/scale", "deployments/status"], &["get", "patch", "update"])]),
        ),
        cluster_binding("probe-parts", "probe-parts", person("parts")),
        cluster_role("probe-paths", json!([{"nonResourceURLs": ["/odd/*", "/even"], "verbs": ["get"]}])),
        cluster_binding("probe-paths", "probe-paths", person("paths")),
        cluster_role("probe-binder", json!([bind, bindings])),
        cluster_binding("probe-binder", "probe-binder", person("binder")),
        cluster_role(
            "probe-escalator",
            json!([rule(&[GROUP], &["roles"], &["escalate", "create", "update"])]),
        ),
        cluster_binding("probe-escalator", "probe-escalator", person("escalator")),
        cluster_role("probe-granter", json!([roles, bindings, rule(&[""], &["pods"], &["get", "list"])])),
        cluster_binding("probe-granter", "probe-granter", person("granter")),
        part,
        whole,
        cluster_binding("probe-whole", "probe-whole", person("whole")),
        cluster_binding("probe-dangling", "probe-nowhere", person("dangling")),
        binding(
            "robot",
            ("ClusterRole", "view"),
            json!({"kind": "ServiceAccount", "name": "robot", "namespace": NAMESPACE}),
        ),
        cluster_binding("probe-developers", "probe-reader", json!({"kind": "Group", "name": "developers"})),
        (format!("/api/v1/namespaces/{NAMESPACE}/configmaps"), config_map("only")),
        (format!("/api/v1/namespaces/{NAMESPACE}/configmaps"), config_map("other")),
    ]
}

fn config_map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}})
}

/// One request of somebody.
struct Asked {
    user: User,
    call: Call,
}

fn get(user: User, path: &str) -> Asked {
    Asked { user, call: Call::get(located(path)) }
}

fn create(user: User, path: &str, body: Value) -> Asked {
    Asked { user, call: Call::post(format!("{}?dryRun=All", located(path)), &body) }
}

fn replace(user: User, path: &str, body: Value) -> Asked {
    Asked { user, call: Call::put(format!("{}?dryRun=All", located(path)), &body) }
}

fn patch(user: User, path: &str) -> Asked {
    let body = json!({"metadata": {"labels": {"touched": "yes"}}});
    Asked { user, call: Call::merge(format!("{}?dryRun=All", located(path)), &body) }
}

fn delete(user: User, path: &str) -> Asked {
    Asked { user, call: Call::delete(format!("{}?dryRun=All", located(path))) }
}

/// `ns:` is the core group in the namespace, `rbac:` the roles in it; everything else is a path.
fn located(path: &str) -> String {
    match path.split_once(':') {
        Some(("ns", rest)) => format!("/api/v1/namespaces/{NAMESPACE}/{rest}"),
        Some(("rbac", rest)) => format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}/{rest}"),
        Some(("apps", rest)) => format!("/apis/apps/v1/namespaces/{NAMESPACE}/{rest}"),
        _ => path.to_owned(),
    }
}

fn a_role(rules: Value) -> Value {
    role("made", rules).1
}

fn requests() -> Vec<Asked> {
    let pods = || json!([rule(&[""], &["pods"], &["get"])]);
    let secrets =
        || json!([rule(&[""], &["secrets"], &["get", "list"]), rule(&[""], &["pods"], &["get", "delete"])]);
    let to = |kind: &str, name: &str| binding("made", (kind, name), person("friend")).1;
    let to_cluster = |name: &str| cluster_binding("made", name, person("friend")).1;
    let cluster_roles = format!("/apis/{GROUP}/v1/clusterroles");
    let cluster_bindings = format!("/apis/{GROUP}/v1/clusterrolebindings");
    let mut aggregating = cluster_role("made", json!([])).1;
    aggregating["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    vec![
        get(NOBODY, "ns:configmaps"),
        get(NOBODY, "ns:configmaps/only"),
        get(NOBODY, "/api/v1/configmaps"),
        get(NOBODY, "/api/v1/configmaps?watch=true&timeoutSeconds=1"),
        get(NOBODY, "/api/v1/namespaces"),
        get(NOBODY, "/api/v1/namespaces/access"),
        get(NOBODY, "/apis/nothing.example.com/v1/things"),
        get(NOBODY, "/apis/apps/v1/namespaces/access/deployments/d/scale"),
        get(NOBODY, "/odd/path"),
        get(NOBODY, "/version"),
        create(NOBODY, "ns:configmaps", config_map("new")),
        delete(NOBODY, "ns:configmaps"),
        delete(NOBODY, "/api/v1/namespaces/access"),
        get(VIEWER, "ns:configmaps/only"),
        get(VIEWER, "ns:secrets"),
        get(VIEWER, "ns:secrets/none"),
        get(VIEWER, "/api/v1/configmaps"),
        get(VIEWER, "/api/v1/namespaces/access"),
        get(VIEWER, "/api/v1/namespaces"),
        get(VIEWER, "/api/v1/namespaces/default/configmaps"),
        create(VIEWER, "ns:configmaps", config_map("new")),
        patch(VIEWER, "ns:configmaps/only"),
        get(VIEWER, "rbac:roles"),
        get(EDITOR, "ns:secrets"),
        create(EDITOR, "ns:configmaps", config_map("new")),
        replace(EDITOR, "ns:configmaps/only", config_map("only")),
        patch(EDITOR, "ns:configmaps/only"),
        delete(EDITOR, "ns:configmaps/only"),
        delete(EDITOR, "ns:configmaps"),
        create(EDITOR, "rbac:roles", a_role(pods())),
        create(EDITOR, "ns:serviceaccounts/default/token", json!({})),
        patch(EDITOR, "/api/v1/namespaces/access"),
        create(CHIEF, "rbac:roles", a_role(pods())),
        create(CHIEF, "rbac:roles", a_role(json!([rule(&["*"], &["*"], &["*"])]))),
        create(CHIEF, "rbac:rolebindings", to("ClusterRole", "edit")),
        create(CHIEF, "rbac:rolebindings", to("ClusterRole", "cluster-admin")),
        create(CHIEF, &cluster_bindings, to_cluster("view")),
        patch(CHIEF, "/api/v1/namespaces/access"),
        get(READER, "/api/v1/configmaps?limit=1&fieldSelector=metadata.name%3Dnone"),
        get(READER, "/api/v1/configmaps/x/status"),
        get(READER, "/api/v1/pods"),
        delete(READER, "ns:configmaps/only"),
        get(NAMED, "ns:configmaps/only"),
        get(NAMED, "ns:configmaps/other"),
        get(NAMED, "ns:configmaps"),
        get(NAMED, "ns:configmaps?fieldSelector=metadata.name%3Donly"),
        get(NAMED, "ns:configmaps?fieldSelector=metadata.name%3Dother"),
        create(NAMED, "ns:configmaps", config_map("any")),
        patch(NAMED, "ns:configmaps/only"),
        patch(NAMED, "ns:configmaps/other"),
        delete(NAMED, "ns:configmaps"),
        get(PARTS, "apps:deployments/none"),
        get(PARTS, "apps:deployments/none/scale"),
        patch(PARTS, "apps:deployments/none/status"),
        patch(PARTS, "apps:statefulsets/none/status"),
        get(PATHS, "/odd/path"),
        get(PATHS, "/odd"),
        get(PATHS, "/even"),
        get(PATHS, "/even/more"),
        create(BINDER, "rbac:rolebindings", to("ClusterRole", "view")),
        create(BINDER, "rbac:rolebindings", to("ClusterRole", "edit")),
        create(BINDER, "rbac:rolebindings", to("Role", "nowhere")),
        create(BINDER, &cluster_bindings, to_cluster("view")),
        create(ESCALATOR, "rbac:roles", a_role(secrets())),
        create(ESCALATOR, &cluster_roles, cluster_role("made", secrets()).1),
        create(GRANTER, "rbac:roles", a_role(pods())),
        create(GRANTER, "rbac:roles", a_role(secrets())),
        create(
            GRANTER,
            &cluster_roles,
            cluster_role("made", json!([{"nonResourceURLs": ["/x"], "verbs": ["get", "post"]}])).1,
        ),
        create(GRANTER, &cluster_roles, aggregating),
        create(GRANTER, "rbac:rolebindings", to("Role", "named")),
        replace(GRANTER, "rbac:roles/named", role("named", secrets()).1),
        get(WHOLE, "ns:configmaps/only"),
        get(WHOLE, "ns:configmaps"),
        get(DANGLING, "ns:configmaps"),
        get(ROBOT, "ns:configmaps/only"),
        get(ROBOT, "/api/v1/namespaces/default/configmaps"),
        get(STRANGER, "ns:configmaps/only"),
        get(DEVELOPER, "ns:configmaps/only"),
        create(DEVELOPER, "ns:configmaps", config_map("new")),
        get(MASTER, "ns:secrets"),
        create(MASTER, "rbac:roles", a_role(json!([rule(&["*"], &["*"], &["*"])]))),
    ]
}

impl Asked {
    fn call(&self) -> Call {
        let mut call = self.call.clone().header("Impersonate-User", self.user.name);
        for group in self.user.groups {
            call = call.header("Impersonate-Group", group);
        }
        call
    }
}

/// Sends everything to both and panics with all that differs.
pub(crate) async fn compare(kubernetes: &Cluster, ours: &Cluster) {
    for (path, object) in world() {
        kubernetes.post(&path, &object).await.expect(201);
        ours.post(&path, &object).await.expect(201);
    }
    // Kubernetes learns of roles by and by, and so do we where roles are made of others.
    for (cluster, user) in [(kubernetes, DEVELOPER), (kubernetes, CHIEF), (kubernetes, WHOLE), (ours, WHOLE)]
    {
        let asked = get(user, "ns:configmaps/only");
        let known = async {
            while cluster.send(asked.call()).await.status != 200 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), known).await.expect("the roles are known");
    }
    let mut unequal = Vec::new();
    let requests = requests();
    let count = requests.len();
    assert!(count >= 60, "{count} requests");
    for asked in requests {
        let (theirs, own) = (kubernetes.send(asked.call()).await, ours.send(asked.call()).await);
        let verdict = |answer: &bellwether_testkit::Answer| match answer.status {
            200 | 201 => json!({"status": answer.status}),
            status => {
                let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                json!({"status": status, "message": body["message"], "details": body["details"]})
            }
        };
        if verdict(&theirs) != verdict(&own) {
            let (theirs, own) = (verdict(&theirs), verdict(&own));
            let call = &asked.call;
            unequal
                .push(format!("{} {call:?}\n  kubernetes: {theirs}\n  ours:       {own}", asked.user.name));
        }
    }
    assert!(unequal.is_empty(), "{} of {count} verdicts differ:\n\n{}", unequal.len(), unequal.join("\n\n"));
}
