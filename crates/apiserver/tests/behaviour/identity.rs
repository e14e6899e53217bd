//! §1.17: who somebody is, by tokens of ServiceAccounts and on behalf of others, and what the server says of it.

use bellwether_testkit::{Call, Cluster};
use serde_json::{Value, json};

use super::difference::Difference;
use super::{cases, config_map, config_maps};

cases! { "identity":
    a_token_makes_its_bearer_the_service_account,
    a_token_has_the_claims_that_kubernetes_gives_it,
    a_bad_token_is_401_and_never_anonymous,
    a_token_dies_with_its_service_account,
    a_token_dies_with_what_it_is_bound_to,
    a_token_is_for_its_audiences,
    a_token_request_that_makes_no_sense_is_refused,
    a_token_review_says_whose_a_token_is,
    a_self_subject_review_says_who_asks,
    impersonation_is_for_those_who_may,
    impersonation_without_a_user_is_refused,
    the_keys_of_tokens_are_published,
}

fn accounts(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/serviceaccounts")
}

async fn account(cluster: &Cluster, namespace: &str, name: &str) -> Value {
    let account = json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": name}});
    cluster.post(accounts(namespace), &account).await.expect(201)
}

async fn request(cluster: &Cluster, namespace: &str, name: &str, spec: Value) -> Value {
    let request = json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec});
    cluster.post(format!("{}/{name}/token", accounts(namespace)), &request).await.expect(201)
}

fn token(request: &Value) -> String {
    request["status"]["token"].as_str().expect("a token").to_owned()
}

fn claims(token: &str) -> Value {
    use base64::Engine as _;
    let payload = token.split('.').nth(1).expect("a payload");
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).expect("base64");
    serde_json::from_slice(&bytes).expect("claims")
}

/// Who somebody is, in the words of the server.
async fn whoami(cluster: &Cluster) -> Value {
    let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
    let answer = cluster.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await;
    answer.expect(201)["status"]["userInfo"].clone()
}

async fn review(cluster: &Cluster, token: &str, audiences: &[&str]) -> Value {
    let review = json!({
        "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1",
        "spec": {"token": token, "audiences": audiences},
    });
    cluster.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await.expect(201)["status"].clone()
}

async fn a_token_makes_its_bearer_the_service_account(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let made = account(cluster, &namespace, "robot").await;
    let token = token(&request(cluster, &namespace, "robot", json!({})).await);
    let robot = cluster.with_token(&token);
    let user = whoami(&robot).await;
    let name = format!("system:serviceaccount:{namespace}:robot");
    assert_eq!(user["username"], json!(name));
    assert_eq!(user["uid"], made["metadata"]["uid"]);
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    assert_eq!(user["groups"], json!(groups));
    let id = user["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap_or_default();
    assert_eq!(id, format!("JTI={}", claims(&token)["jti"].as_str().unwrap_or_default()));
    robot
        .get(config_maps(&namespace))
        .await
        .expect_failure(403, "Forbidden")
        .assert_message(&format!("User {name:?} cannot list"));
}

async fn a_token_has_the_claims_that_kubernetes_gives_it(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let made = account(cluster, &namespace, "robot").await;
    let request = request(cluster, &namespace, "robot", json!({"expirationSeconds": 1200})).await;
    assert_eq!(request["metadata"]["name"], "robot");
    assert_eq!(request["spec"]["expirationSeconds"], 1200);
    assert!(request["status"]["expirationTimestamp"].is_string());
    let claims = claims(&token(&request));
    assert_eq!(claims["kubernetes.io"]["namespace"], json!(namespace));
    let account = json!({"name": "robot", "uid": made["metadata"]["uid"]});
    assert_eq!(claims["kubernetes.io"]["serviceaccount"], account);
    assert_eq!(claims["sub"], json!(format!("system:serviceaccount:{namespace}:robot")));
    let seconds = |key: &str| claims[key].as_i64().unwrap_or_default();
    assert_eq!(seconds("exp") - seconds("iat"), 1200);
    assert_eq!(seconds("nbf"), seconds("iat"));
    assert_eq!(claims["aud"], request["spec"]["audiences"]);
}

async fn a_bad_token_is_401_and_never_anonymous(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    account(cluster, &namespace, "robot").await;
    let token = token(&request(cluster, &namespace, "robot", json!({})).await);
    let (body, signature) = token.rsplit_once('.').expect("a signature");
    let flipped: String = signature.chars().rev().collect();
    for bad in ["nonsense", "a.b.c", body, &format!("{body}.{flipped}"), &format!("{token}x")] {
        let answer = cluster.with_token(bad).get("/api/v1/namespaces").await;
        answer.expect_failure(401, "Unauthorized").assert_message("Unauthorized");
    }
    // Nor where nobody needs to be known.
    let odd = cluster.anonymous().send(Call::get("/api").header("authorization", "Basic YTpi")).await;
    assert_eq!(odd.status, Difference::NoAnonymous.expect(cluster, 403, 401));
}

async fn a_token_dies_with_its_service_account(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    account(cluster, &namespace, "robot").await;
    let first = cluster.with_token(&token(&request(cluster, &namespace, "robot", json!({})).await));
    whoami(&first).await;
    cluster.delete(format!("{}/robot", accounts(&namespace))).await.expect(200);
    eventually_401(&first).await;
    account(cluster, &namespace, "robot").await;
    // Another account of the same name is another one.
    eventually_401(&first).await;
}

/// Kubernetes remembers a good token for some seconds.
async fn eventually_401(cluster: &Cluster) {
    bellwether_testkit::eventually("the token is no longer good", || async {
        (cluster.get("/api").await.status == 401).then_some(())
    })
    .await;
}

async fn a_token_dies_with_what_it_is_bound_to(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    account(cluster, &namespace, "robot").await;
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let secret = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "bound"}});
    let secret = cluster.post(&secrets, &secret).await.expect(201);
    let bound = json!({"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "bound"}});
    let token = token(&request(cluster, &namespace, "robot", bound).await);
    assert_eq!(claims(&token)["kubernetes.io"]["secret"]["uid"], secret["metadata"]["uid"]);
    let robot = cluster.with_token(&token);
    whoami(&robot).await;
    cluster.delete(format!("{secrets}/bound")).await.expect(200);
    eventually_401(&robot).await;
}

async fn a_token_is_for_its_audiences(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    account(cluster, &namespace, "robot").await;
    let request = request(cluster, &namespace, "robot", json!({"audiences": ["vault", "other"]})).await;
    let token = token(&request);
    cluster.with_token(&token).get("/api").await.expect_failure(401, "Unauthorized");
    let status = review(cluster, &token, &["vault"]).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!(["vault"])));
    let status = review(cluster, &token, &["elsewhere"]).await;
    assert_eq!(status["authenticated"], Value::Null);
    assert!(status["error"].as_str().unwrap_or_default().contains("audiences"), "{status}");
}

async fn a_token_request_that_makes_no_sense_is_refused(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    account(cluster, &namespace, "robot").await;
    let path = format!("{}/robot/token", accounts(&namespace));
    let ask = async |spec: Value| cluster.post(&path, &json!({"spec": spec})).await;
    ask(json!({"expirationSeconds": 10}))
        .await
        .expect_failure(422, "Invalid")
        .assert_message("may not specify a duration less than 10 minutes");
    let missing = json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}});
    ask(missing).await.expect_failure(404, "NotFound").assert_message("pods \"none\" not found");
    let odd =
        json!({"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "kube-root-ca.crt"}});
    ask(odd)
        .await
        .expect_failure(400, "BadRequest")
        .assert_message("cannot bind token to object of type /v1, Kind=ConfigMap");
    let nobody = format!("{}/nobody/token", accounts(&namespace));
    cluster
        .post(&nobody, &json!({}))
        .await
        .expect_failure(404, "NotFound")
        .assert_message("serviceaccounts \"nobody\" not found");
    cluster.get(&path).await.expect_failure(405, "MethodNotAllowed");
}

async fn a_token_review_says_whose_a_token_is(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    account(cluster, &namespace, "robot").await;
    let token = token(&request(cluster, &namespace, "robot", json!({})).await);
    let status = review(cluster, &token, &[]).await;
    assert_eq!(status["authenticated"], true);
    assert_eq!(status["user"]["username"], json!(format!("system:serviceaccount:{namespace}:robot")));
    let status = review(cluster, "nonsense", &[]).await;
    assert_eq!(status["authenticated"], Value::Null);
    assert!(status["error"].as_str().unwrap_or_default().contains("invalid bearer token"), "{status}");
    let empty = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {}});
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    cluster
        .post(reviews, &empty)
        .await
        .expect_failure(400, "BadRequest")
        .assert_message("token is required for TokenReview");
    cluster.get(reviews).await.expect_failure(405, "MethodNotAllowed");
}

async fn a_self_subject_review_says_who_asks(cluster: &Cluster) {
    let user = whoami(cluster).await;
    assert_eq!(user["username"], "admin");
    assert!(user["groups"].as_array().is_some_and(|groups| groups.contains(&json!("system:authenticated"))));
}

async fn impersonation_is_for_those_who_may(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    account(cluster, &namespace, "robot").await;
    let masked = Call::post(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        &json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}),
    )
    .header("impersonate-user", "eve")
    .header("impersonate-group", "one")
    .header("impersonate-group", "two")
    .header("impersonate-uid", "some-uid")
    .header("impersonate-extra-scopes.example.com%2fa", "read");
    let user = cluster.send(masked.clone()).await.expect(201)["status"]["userInfo"].clone();
    assert_eq!((&user["username"], &user["uid"]), (&json!("eve"), &json!("some-uid")));
    assert_eq!(user["groups"], json!(["one", "two", "system:authenticated"]));
    assert_eq!(user["extra"]["scopes.example.com/a"], json!(["read"]));

    let robot = cluster.with_token(&token(&request(cluster, &namespace, "robot", json!({})).await));
    robot.send(masked).await.expect_failure(403, "Forbidden").assert_message("cannot impersonate");
    let as_eve = Call::post(config_maps(&namespace), &config_map("x")).header("impersonate-user", "eve");
    cluster
        .send(as_eve)
        .await
        .expect_failure(403, "Forbidden")
        .assert_message("User \"eve\" cannot create resource \"configmaps\"");
}

async fn impersonation_without_a_user_is_refused(cluster: &Cluster) {
    let call = Call::get("/api/v1/namespaces").header("impersonate-group", "system:masters");
    cluster.send(call).await.expect_failure(400, "BadRequest");
}

async fn the_keys_of_tokens_are_published(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    account(cluster, &namespace, "robot").await;
    let token = token(&request(cluster, &namespace, "robot", json!({})).await);
    let robot = cluster.with_token(&token);
    let configuration = robot.get("/.well-known/openid-configuration").await.expect(200);
    assert_eq!(configuration["issuer"], claims(&token)["iss"]);
    let keys = robot.get("/openid/v1/jwks").await;
    assert_eq!(keys.header("content-type"), "application/jwk-set+json");
    use base64::Engine as _;
    let header = token.split('.').next().unwrap_or_default();
    let header = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(header).expect("base64");
    let header: Value = serde_json::from_slice(&header).expect("a header");
    assert_eq!(keys.json()["keys"][0]["kid"], header["kid"]);
}
