//! §1.18: what somebody may do, asked and not tried. Verdicts on requests are compared with Kubernetes' by the probe.

use bellwether_testkit::{Call, Cluster};
use serde_json::{Value, json};

use super::cases;

const GROUP: &str = "/apis/authorization.k8s.io/v1";
const RBAC: &str = "rbac.authorization.k8s.io";

cases! { "reviews":
    a_review_says_whether_somebody_may_and_why,
    a_review_of_the_asker_needs_no_name,
    a_local_review_stays_in_its_namespace,
    a_review_that_asks_nothing_is_refused,
    the_rules_of_the_asker_are_told,
    reviews_are_no_tables,
    a_binding_never_changes_its_role,
    roles_that_make_no_sense_are_refused,
    the_first_roles_are_there,
}

fn review(kind: &str, spec: Value) -> Value {
    json!({"kind": kind, "apiVersion": "authorization.k8s.io/v1", "spec": spec})
}

async fn bind(cluster: &Cluster, namespace: &str, user: &str, role: &str) {
    let binding = json!({
        "kind": "RoleBinding", "apiVersion": format!("{RBAC}/v1"), "metadata": {"name": role},
        "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": "User", "name": user}],
    });
    cluster.post(format!("/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings"), &binding).await.expect(201);
}

fn get_pods(namespace: &str) -> Value {
    json!({"verb": "get", "resource": "pods", "namespace": namespace})
}

async fn a_review_says_whether_somebody_may_and_why(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    bind(cluster, &namespace, "eve", "cluster-admin").await;
    let ask = async |user: &str| {
        let spec = json!({"user": user, "groups": ["a"], "resourceAttributes": get_pods(&namespace)});
        let answer =
            cluster.post(format!("{GROUP}/subjectaccessreviews"), &review("SubjectAccessReview", spec)).await;
        answer.expect(201)["status"].clone()
    };
    bellwether_testkit::eventually("the binding counts", || async {
        (ask("eve").await["allowed"] == true).then_some(())
    })
    .await;
    let reason = format!(
        "RBAC: allowed by RoleBinding \"cluster-admin/{namespace}\" of ClusterRole \"cluster-admin\" to User \"eve\""
    );
    assert_eq!(ask("eve").await, json!({"allowed": true, "reason": reason}));
    assert_eq!(ask("adam").await, json!({"allowed": false}));
}

async fn a_review_of_the_asker_needs_no_name(cluster: &Cluster) {
    let spec = json!({"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}});
    let path = format!("{GROUP}/selfsubjectaccessreviews");
    let answer = cluster.post(&path, &review("SelfSubjectAccessReview", spec.clone())).await.expect(201);
    assert_eq!(answer["status"]["allowed"], true);
    assert_eq!(answer["spec"], spec);
    let as_eve =
        Call::post(&path, &review("SelfSubjectAccessReview", spec)).header("impersonate-user", "eve");
    assert_eq!(cluster.send(as_eve).await.expect(201)["status"], json!({"allowed": false}));
    let version = json!({"nonResourceAttributes": {"verb": "get", "path": "/version"}});
    let as_eve =
        Call::post(&path, &review("SelfSubjectAccessReview", version)).header("impersonate-user", "eve");
    assert_eq!(cluster.send(as_eve).await.expect(201)["status"]["allowed"], true);
}

async fn a_local_review_stays_in_its_namespace(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let path = format!("{GROUP}/namespaces/{namespace}/localsubjectaccessreviews");
    let ask = async |attributes: Value| {
        let spec = json!({"user": "eve", "resourceAttributes": attributes});
        cluster.post(&path, &review("LocalSubjectAccessReview", spec)).await
    };
    let answer = ask(get_pods(&namespace)).await.expect(201);
    assert_eq!(answer["status"], json!({"allowed": false}));
    ask(get_pods("default"))
        .await
        .expect_failure(422, "Invalid")
        .assert_message("must match metadata.namespace");
}

async fn a_review_that_asks_nothing_is_refused(cluster: &Cluster) {
    let path = format!("{GROUP}/subjectaccessreviews");
    let ask = async |spec: Value| cluster.post(&path, &review("SubjectAccessReview", spec)).await;
    let words = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    ask(json!({"user": "eve"})).await.expect_failure(422, "Invalid").assert_message(words);
    let nobody = ask(json!({"resourceAttributes": get_pods("default")})).await;
    nobody.expect_failure(422, "Invalid").assert_message("at least one of user or group must be specified");
    let both = json!({"user": "e", "resourceAttributes": get_pods("a"), "nonResourceAttributes": {"path": "/", "verb": "get"}});
    ask(both)
        .await
        .expect_failure(422, "Invalid")
        .assert_message("cannot be specified in combination with resourceAttributes");
}

async fn the_rules_of_the_asker_are_told(cluster: &Cluster) {
    let path = format!("{GROUP}/selfsubjectrulesreviews");
    let ask = |namespace: &str| {
        Call::post(&path, &review("SelfSubjectRulesReview", json!({"namespace": namespace})))
            .header("impersonate-user", "eve")
    };
    let status = cluster.send(ask("default")).await.expect(201)["status"].clone();
    let reviews = status["resourceRules"].as_array().into_iter().flatten();
    let resources: Vec<&Value> = reviews.flat_map(|rule| rule["resources"].as_array().unwrap()).collect();
    assert!(resources.contains(&&json!("selfsubjectreviews")), "{status}");
    let urls = status["nonResourceRules"].as_array().into_iter().flatten();
    let urls: Vec<&Value> = urls.flat_map(|rule| rule["nonResourceURLs"].as_array().unwrap()).collect();
    assert!(urls.contains(&&json!("/openapi/*")), "{status}");
    assert_eq!(status["incomplete"], false);
    cluster.send(ask("")).await.expect_failure(400, "BadRequest").assert_message("no namespace on request");
}

async fn reviews_are_no_tables(cluster: &Cluster) {
    let spec = json!({"resourceAttributes": get_pods("default")});
    let call =
        Call::post(format!("{GROUP}/selfsubjectaccessreviews"), &review("SelfSubjectAccessReview", spec))
            .accept("application/json;as=Table;v=v1;g=meta.k8s.io");
    cluster.send(call).await.expect_failure(406, "NotAcceptable");
}

async fn a_binding_never_changes_its_role(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    bind(cluster, &namespace, "eve", "view").await;
    let path = format!("/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings/view");
    let change = json!({"roleRef": {"name": "edit"}});
    cluster
        .merge(&path, &change)
        .await
        .expect_failure(422, "Invalid")
        .assert_message("cannot change roleRef");
    let bound = cluster.get(&path).await.expect(200);
    assert_eq!(bound["roleRef"], json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}));
    assert_eq!(bound["subjects"], json!([{"apiGroup": RBAC, "kind": "User", "name": "eve"}]));
}

async fn roles_that_make_no_sense_are_refused(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let make = async |rule: Value| {
        let role = json!({"kind": "Role", "apiVersion": format!("{RBAC}/v1"), "metadata": {"name": "r"}, "rules": [rule]});
        cluster.post(format!("/apis/{RBAC}/v1/namespaces/{namespace}/roles"), &role).await
    };
    make(json!({"verbs": [], "apiGroups": [""], "resources": ["x"]}))
        .await
        .expect_failure(422, "Invalid")
        .assert_cause("FieldValueRequired", "rules[0].verbs");
    make(json!({"verbs": ["get"], "nonResourceURLs": ["/x"]}))
        .await
        .expect_failure(422, "Invalid")
        .assert_message("namespaced rules cannot apply to non-resource URLs");
    make(json!({"verbs": ["get"], "resources": ["x"]}))
        .await
        .expect_failure(422, "Invalid")
        .assert_cause("FieldValueRequired", "rules[0].apiGroups");
}

async fn the_first_roles_are_there(cluster: &Cluster) {
    for name in [
        "cluster-admin",
        "admin",
        "edit",
        "view",
        "system:discovery",
        "system:basic-user",
        "system:public-info-viewer",
        "system:service-account-issuer-discovery",
        "system:auth-delegator",
    ] {
        let role = cluster.get(format!("/apis/{RBAC}/v1/clusterroles/{name}")).await.expect(200);
        assert_eq!(role["metadata"]["labels"]["kubernetes.io/bootstrapping"], "rbac-defaults", "{name}");
    }
}
