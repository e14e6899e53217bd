//! Kinds that are kept for those who act on them elsewhere: what a client counts on in each group.

use bellwether_testkit::Cluster;
use serde_json::{Value, json};

use super::cases;
use super::difference::Difference;

cases! { "passive":
    an_ingress_counts_its_generations_and_keeps_its_status_apart,
    a_storage_class_is_defaulted_and_cannot_change,
    a_device_claim_counts_one_and_cannot_change,
    a_flow_schema_is_defaulted_and_refers_to_a_level,
    a_webhook_is_kept_and_its_author_is_told_whether_it_holds,
    an_autoscaler_is_the_same_in_both_versions,
    a_runtime_class_is_made_by_an_update,
    a_controller_is_labelled_by_its_template,
    a_request_for_a_certificate_says_who_made_it_and_is_approved_apart,
    nobody_gets_the_masters_group_by_a_request,
}

/// A name that no other run has taken, for objects of the cluster.
async fn unique(cluster: &Cluster) -> String {
    cluster.namespace().await
}

async fn an_ingress_counts_its_generations_and_keeps_its_status_apart(cluster: &Cluster) {
    let all = format!("/apis/networking.k8s.io/v1/namespaces/{}/ingresses", cluster.namespace().await);
    let backend = |port: u16| json!({"defaultBackend": {"service": {"name": "a", "port": {"number": port}}}});
    let ingress = json!({
        "kind": "Ingress", "apiVersion": "networking.k8s.io/v1", "metadata": {"name": "a"}, "spec": backend(80),
        "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}},
    });
    let created = cluster.post(&all, &ingress).await.expect(201);
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["status"], json!({"loadBalancer": {}}));
    let patched = cluster.merge(format!("{all}/a"), &json!({"spec": backend(81)})).await.expect(200);
    assert_eq!(patched["metadata"]["generation"], 2);
    let status = json!({"spec": backend(82), "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}});
    let patched = cluster.merge(format!("{all}/a/status"), &status).await.expect(200);
    assert_eq!(patched["metadata"]["generation"], 2);
    assert_eq!(patched["spec"], backend(81));
    assert_eq!(patched["status"]["loadBalancer"]["ingress"][0]["ip"], "10.0.0.1");
}

async fn a_storage_class_is_defaulted_and_cannot_change(cluster: &Cluster) {
    const ALL: &str = "/apis/storage.k8s.io/v1/storageclasses";
    let name = unique(cluster).await;
    let class = json!({"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": name}, "provisioner": "example.com/x"});
    let created = cluster.post(ALL, &class).await.expect(201);
    assert_eq!(created["reclaimPolicy"], "Delete");
    assert_eq!(created["volumeBindingMode"], "Immediate");
    let change = json!({"provisioner": "example.com/y"});
    let refused = cluster.merge(format!("{ALL}/{name}"), &change).await.expect_failure(422, "Invalid");
    refused.assert_cause("FieldValueInvalid", "provisioner").assert_message("field is immutable");
    let deleted = cluster.delete(format!("{ALL}/{name}")).await.expect(200);
    assert_eq!(deleted["kind"], "StorageClass");
}

async fn a_device_claim_counts_one_and_cannot_change(cluster: &Cluster) {
    let all = format!("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims", cluster.namespace().await);
    let requests = |name: &str| json!([{"name": name, "exactly": {"deviceClassName": "b"}}]);
    let claim = json!({"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "a"}, "spec": {"devices": {"requests": requests("x")}}});
    let created = cluster.post(&all, &claim).await.expect(201);
    let exactly = &created["spec"]["devices"]["requests"][0]["exactly"];
    assert_eq!(exactly, &json!({"deviceClassName": "b", "allocationMode": "ExactCount", "count": 1}));
    let change = json!({"spec": {"devices": {"requests": requests("y")}}});
    cluster
        .merge(format!("{all}/a"), &change)
        .await
        .expect_failure(422, "Invalid")
        .assert_message("field is immutable");
}

async fn a_flow_schema_is_defaulted_and_refers_to_a_level(cluster: &Cluster) {
    const ALL: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    let schema = |spec: Value| json!({"kind": "FlowSchema", "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "metadata": {"name": "behaviour"}, "spec": spec});
    let good = schema(json!({"priorityLevelConfiguration": {"name": "a"}}));
    let created = cluster.post(format!("{ALL}?dryRun=All"), &good).await.expect(201);
    assert_eq!(created["spec"]["matchingPrecedence"], 1000);
    let refused = cluster.post(ALL, &schema(json!({}))).await.expect_failure(422, "Invalid");
    refused.assert_cause("FieldValueRequired", "spec.priorityLevelConfiguration.name");
}

async fn a_webhook_is_kept_and_its_author_is_told_whether_it_holds(cluster: &Cluster) {
    const ALL: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let name = unique(cluster).await;
    let hooks = json!({
        "kind": "ValidatingWebhookConfiguration", "apiVersion": "admissionregistration.k8s.io/v1",
        "metadata": {"name": name},
        "webhooks": [{
            "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "a", "name": "b"}},
        }],
    });
    let answer = cluster.post(ALL, &hooks).await;
    let told = answer.headers.get("warning").is_some();
    assert_eq!(told, Difference::NotEnforced.expect(cluster, false, true));
    let created = answer.expect(201);
    assert_eq!(created["webhooks"][0]["timeoutSeconds"], 10);
    assert_eq!(created["webhooks"][0]["clientConfig"]["service"]["port"], 443);
    cluster.delete(format!("{ALL}/{name}")).await.expect(200);
}

async fn an_autoscaler_is_the_same_in_both_versions(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let all = |version: &str| {
        format!("/apis/autoscaling/{version}/namespaces/{namespace}/horizontalpodautoscalers")
    };
    let target = json!({"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"});
    let first = json!({"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v1", "metadata": {"name": "a"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}});
    let created = cluster.post(all("v1"), &first).await.expect(201);
    assert_eq!(created["spec"]["targetCPUUtilizationPercentage"], 50);
    let second = cluster.get(format!("{}/a", all("v2"))).await.expect(200);
    let metric = &second["spec"]["metrics"][0]["resource"];
    assert_eq!(metric, &json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}));
    assert_eq!(second["spec"]["minReplicas"], 1);
}

async fn a_runtime_class_is_made_by_an_update(cluster: &Cluster) {
    let name = unique(cluster).await;
    let at = format!("/apis/node.k8s.io/v1/runtimeclasses/{name}");
    let class = json!({"kind": "RuntimeClass", "apiVersion": "node.k8s.io/v1", "metadata": {"name": name}, "handler": "x"});
    cluster.put(&at, &class).await.expect(201);
    let refused = cluster.merge(&at, &json!({"handler": "y"})).await.expect_failure(422, "Invalid");
    refused.assert_cause("FieldValueInvalid", "handler").assert_message("field is immutable");
}

async fn a_controller_is_labelled_by_its_template(cluster: &Cluster) {
    let all = format!("/api/v1/namespaces/{}/replicationcontrollers", cluster.namespace().await);
    let pods =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
    let controller = json!({"kind": "ReplicationController", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"template": pods}});
    let created = cluster.post(&all, &controller).await.expect(201);
    assert_eq!(created["spec"]["replicas"], 1);
    assert_eq!(created["spec"]["selector"], json!({"a": "b"}));
    assert_eq!(created["metadata"]["labels"], json!({"a": "b"}));
    let scale = cluster.get(format!("{all}/a/scale")).await.expect(200);
    assert_eq!(scale["status"]["selector"], "a=b");
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn certificate(name: &str, pem: &str) -> Value {
    use base64::Engine as _;
    json!({
        "kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1", "metadata": {"name": name},
        "spec": {
            "request": base64::engine::general_purpose::STANDARD.encode(pem), "usages": ["client auth"],
            "signerName": "kubernetes.io/kube-apiserver-client", "username": "somebody-else",
        },
    })
}

fn request(organisation: Option<&str>) -> String {
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).expect("parameters");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "tester");
    if let Some(organisation) = organisation {
        params.distinguished_name.push(rcgen::DnType::OrganizationName, organisation);
    }
    let key = rcgen::KeyPair::generate().expect("a key");
    params.serialize_request(&key).expect("a request").pem().expect("PEM")
}

async fn a_request_for_a_certificate_says_who_made_it_and_is_approved_apart(cluster: &Cluster) {
    let name = unique(cluster).await;
    let created = cluster.post(REQUESTS, &certificate(&name, &request(None))).await.expect(201);
    assert_ne!(created["spec"]["username"], "somebody-else");
    assert_eq!(created["status"], json!({}));
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Test", "message": "m"}]}});
    let at = format!("{REQUESTS}/{name}");
    let ignored = cluster.merge(&at, &approved).await.expect(200);
    assert_eq!(ignored["status"], json!({}));
    cluster.merge(format!("{at}/status"), &approved).await.expect_failure(422, "Invalid");
    let answer = cluster.merge(format!("{at}/approval"), &approved).await.expect(200);
    let condition = &answer["status"]["conditions"][0];
    assert!(condition["lastUpdateTime"].is_string() && condition["lastTransitionTime"].is_string());
    let denied = json!({"status": {"conditions": [{"type": "Denied", "status": "True"}]}});
    cluster.merge(format!("{at}/approval"), &denied).await.expect_failure(422, "Invalid");
    cluster.delete(&at).await.expect(200);
}

async fn nobody_gets_the_masters_group_by_a_request(cluster: &Cluster) {
    let name = unique(cluster).await;
    let asked = certificate(&name, &request(Some("system:masters")));
    let refused = cluster.post(REQUESTS, &asked).await.expect_failure(403, "Forbidden");
    refused.assert_message(
        "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed",
    );
}
