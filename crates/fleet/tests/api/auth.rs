//! Who may ask: tokens of issuers that are trusted, and the names of callers (§1.10 of the specification).

use std::sync::Arc;

use axum::http::HeaderName;
use bellwether_fleet::store::Store;
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::{Api, Reply, Setup, sqlite, time};
use crate::tokens::{ISSUER, KeyServer, Signer, access, key_set, keys_over_tls};

/// An API that trusts one issuer, as the configuration has it.
async fn trusting(issuer: Value) -> (Api, KeyServer) {
    trusting_on(sqlite(), issuer).await
}

async fn trusting_on(store: Arc<dyn Store>, issuer: Value) -> (Api, KeyServer) {
    let keys = KeyServer::with(&[&Signer::issuer()]).await;
    let setup = Setup { access: access(&keys.url, &[issuer]), ..Setup::default() };
    (Api::start_with(store, setup).await, keys)
}

async fn read(api: &Api, headers: &[(&str, &str)]) -> Reply {
    api.send_bytes("GET", "/clusters", None, headers).await
}

async fn create(api: &Api, name: &str, headers: &[(&str, &str)]) -> Reply {
    let body = json!({"kind": "Cluster", "name": name, "spec": {}}).to_string();
    api.send_bytes("POST", "/clusters", Some(body.into_bytes()), headers).await
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

#[tokio::test]
async fn case_32_who_has_no_credentials_or_bad_ones_is_told_which_on_sqlite() {
    who_has_no_credentials_or_bad_ones_is_told_which(sqlite()).await;
}

#[cfg(feature = "real-postgres")]
#[tokio::test]
async fn case_32_who_has_no_credentials_or_bad_ones_is_told_which_on_postgres() {
    who_has_no_credentials_or_bad_ones_is_told_which(crate::harness::postgres().await).await;
}

async fn who_has_no_credentials_or_bad_ones_is_told_which(store: Arc<dyn Store>) {
    let (api, _keys) = trusting_on(store, json!({"audience": "fleet", "identity_header": "X-User"})).await;
    let signer = Signer::issuer();
    let good = bearer(&signer.token(json!({})));
    let expired = bearer(&signer.token(json!({"exp": time(-31).as_second()})));
    let nameless = bearer(&signer.token(json!({"email": null})));
    let (longest, too_long) = ("a".repeat(256), "a".repeat(257));

    create(&api, "none", &[]).await.expect_problem(401, "AUT-001", "no credentials");
    read(&api, &[]).await.expect_problem(401, "AUT-001", "no credentials");
    create(&api, "expired", &[("authorization", &expired)]).await.expect_problem(401, "AUT-003", "expired");
    let basic = read(&api, &[("authorization", "Basic YTpi")]).await;
    assert_eq!(basic.0.headers["www-authenticate"], "Bearer");
    basic.expect_problem(401, "AUT-002", "bearer");
    create(&api, "nameless", &[("authorization", &nameless)]).await.expect_problem(
        401,
        "AUT-002",
        "require the identity of the caller",
    );
    read(&api, &[("authorization", &nameless)]).await.expect(200);
    let named = [("authorization", good.as_str()), ("x-user", too_long.as_str())];
    create(&api, "long", &named).await.expect_problem(401, "AUT-002", "256");
    read(&api, &named).await.expect_problem(401, "AUT-002", "256");

    let made = create(&api, "good", &[("authorization", &good)]).await.expect(201).json();
    assert_eq!(made["created_by"], "ada@example.com");
    let named = [("authorization", good.as_str()), ("x-user", longest.as_str())];
    assert_eq!(create(&api, "named", &named).await.expect(201).json()["created_by"], longest);
    let empty = [("authorization", good.as_str()), ("x-user", " ")];
    assert_eq!(create(&api, "empty", &empty).await.expect(201).json()["created_by"], "ada@example.com");
}

#[rstest]
#[case::another_issuer(json!({"iss": "https://other.example.com"}), "not trusted")]
#[case::no_issuer(json!({"iss": null}), "not trusted")]
#[case::another_audience(json!({"aud": "other"}), "audience")]
#[case::no_audience(json!({"aud": null}), "audience")]
#[case::no_expiry(json!({"exp": null}), "has no expiry")]
#[case::an_expiry_in_words(json!({"exp": "tomorrow"}), "not a JSON web token")]
#[case::not_valid_yet(json!({"nbf": time(31).as_second()}), "not valid yet")]
#[case::issued_in_the_future(json!({"iat": time(31).as_second()}), "not valid yet")]
#[case::a_name_that_does_not_fit(json!({"email": "eve@elsewhere.org"}), "does not match the pattern")]
#[case::a_name_with_a_line_end(json!({"email": "ada\n@example.com"}), "control characters")]
#[tokio::test]
async fn a_well_signed_token_still_has_to_fit(#[case] claims: Value, #[case] words: &str) {
    let (api, _keys) =
        trusting(json!({"audience": "fleet", "identity_claim_pattern": r"@example\.com$"})).await;
    let token = bearer(&Signer::issuer().token(claims));
    read(&api, &[("authorization", &token)]).await.expect_problem(401, "AUT-002", words);
    create(&api, "unfit", &[("authorization", &token)]).await.expect_problem(401, "AUT-002", words);
}

#[tokio::test]
async fn thirty_seconds_do_not_matter() {
    let (api, _keys) = trusting(json!({})).await;
    let claims =
        json!({"exp": time(-29).as_second(), "nbf": time(29).as_second(), "iat": time(29).as_second()});
    let token = bearer(&Signer::issuer().token(claims));
    create(&api, "in-time", &[("authorization", &token)]).await.expect(201);
    let lower_case = token.replace("Bearer", "bearer");
    read(&api, &[("authorization", &lower_case)]).await.expect(200);
}

#[tokio::test]
async fn what_the_issuer_did_not_sign_is_not_believed() {
    let (api, _keys) = trusting(json!({})).await;
    let (issuer, stranger) = (Signer::issuer(), Signer::stranger());
    let claims = json!({"iss": ISSUER, "email": "eve@example.com", "exp": time(300).as_second()});
    let good = issuer.token(json!({}));
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let forged = issuer.token(json!({"email": "eve@example.com"}));
    let rows = [
        ("by a key that claims the name of another", Signer::stranger().named("issuer").token(json!({}))),
        ("by an unknown key", stranger.token(json!({}))),
        ("not at all", stranger.sign(&json!({"alg": "none"}), &claims)),
        ("not at all, and empty", format!("{signed}.")),
        ("by a shared secret", issuer.sign(&json!({"alg": "HS256", "kid": "issuer"}), &claims)),
        ("by another algorithm", issuer.sign(&json!({"alg": "PS256", "kid": "issuer"}), &claims)),
        ("for other claims", format!("{}.{signature}", forged.rsplit_once('.').unwrap().0)),
        ("and too large", issuer.token(json!({"padding": "x".repeat(16 * 1024)}))),
        ("and cut off", good[..good.len() - 2].to_owned()),
        ("and no token", "token".to_owned()),
        ("and nothing", String::new()),
    ];
    for (how, token) in rows {
        let reply = create(&api, "forged", &[("authorization", &bearer(&token))]).await;
        assert_eq!(
            (reply.status(), &reply.json()["code"]),
            (401, &json!("HYPERFLEET-AUT-002")),
            "signed {how}"
        );
    }
    let twice = [("authorization", bearer(&good)), ("authorization", bearer(&good))];
    let twice: Vec<_> = twice.iter().map(|(name, value)| (*name, value.as_str())).collect();
    read(&api, &twice).await.expect_problem(401, "AUT-002", "must not be repeated");
}

#[tokio::test]
async fn several_issuers_have_keys_headers_and_names_of_their_own() {
    let (first, second) = (Signer::issuer(), Signer::stranger());
    let (keys, other_keys) = (KeyServer::with(&[&first]).await, KeyServer::with(&[&second]).await);
    let other = "https://other.example.com";
    let issuers = [
        json!({}),
        json!({
            "issuer_url": other, "jwk_cert_url": other_keys.url, "header": "X-Access-Token", "identity_claim": "sub",
        }),
    ];
    let setup = Setup { access: access(&keys.url, &issuers), ..Setup::default() };
    let api = Api::start_with(sqlite(), setup).await;
    let (ours, theirs) = (first.token(json!({})), second.token(json!({"iss": other, "sub": "robot"})));

    let made = create(&api, "ours", &[("authorization", &bearer(&ours))]).await.expect(201).json();
    assert_eq!(made["created_by"], "ada@example.com");
    let made = create(&api, "theirs", &[("x-access-token", &theirs)]).await.expect(201).json();
    assert_eq!(made["created_by"], "robot");
    // Neither counts in the header of the other, nor does one that says it is of the other.
    read(&api, &[("x-access-token", &ours)]).await.expect_problem(401, "AUT-002", "not trusted");
    read(&api, &[("authorization", &bearer(&theirs))]).await.expect_problem(401, "AUT-002", "not trusted");
    let pretends = first.token(json!({"iss": other, "sub": "robot"}));
    read(&api, &[("x-access-token", &pretends)]).await.expect_problem(401, "AUT-002", "key");
}

#[tokio::test]
async fn a_new_key_is_found_when_it_is_first_used_and_an_old_one_is_forgotten() {
    let (old, new) = (Signer::issuer(), Signer::stranger());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), key_set(&[&old])).unwrap();
    let access = access("", &[json!({"jwk_cert_url": null, "jwk_cert_file": file.path()})]);
    let api = Api::start_with(sqlite(), Setup { access, ..Setup::default() }).await;
    let token = |signer: &Signer| bearer(&signer.token(json!({})));
    create(&api, "by-old", &[("authorization", &token(&old))]).await.expect(201);
    std::fs::write(file.path(), key_set(&[&new])).unwrap();
    create(&api, "by-new", &[("authorization", &token(&new))]).await.expect(201);
    read(&api, &[("authorization", &token(&old))]).await.expect_problem(401, "AUT-002", "key");
}

#[tokio::test]
async fn keys_are_believed_from_an_issuer_whose_certificate_is_trusted() {
    let (url, certificate) = keys_over_tls(&[&Signer::issuer()]).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), certificate).unwrap();
    let token = bearer(&Signer::issuer().token(json!({})));
    for (issuer, status) in [(json!({}), 401), (json!({"jwk_cert_ca_file": file.path()}), 200)] {
        let api =
            Api::start_with(sqlite(), Setup { access: access(&url, &[issuer]), ..Setup::default() }).await;
        read(&api, &[("authorization", &token)]).await.expect(status);
    }
}

#[tokio::test]
async fn unknown_keys_do_not_bother_the_issuer() {
    let (api, keys) = trusting(json!({})).await;
    for key_id in ["a", "b", "c"] {
        let unknown = bearer(&Signer::stranger().named(key_id).token(json!({})));
        read(&api, &[("authorization", &unknown)]).await.expect_problem(401, "AUT-002", "key");
    }
    assert_eq!(keys.asked(), 1);
    let known = bearer(&Signer::issuer().token(json!({})));
    read(&api, &[("authorization", &known)]).await.expect(200);
    assert_eq!(keys.asked(), 1);
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_lets_nobody_in_and_stops_nothing() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let setup = Setup { access: access(&format!("http://{free}/keys"), &[json!({})]), ..Setup::default() };
    let api = Api::start_with(sqlite(), setup).await;
    let token = bearer(&Signer::issuer().token(json!({})));
    read(&api, &[("authorization", &token)]).await.expect_problem(401, "AUT-002", "key");
    read(&api, &[]).await.expect_problem(401, "AUT-001", "");
}

#[tokio::test]
async fn what_an_issuer_answers_instead_of_keys_is_of_no_use() {
    for answer in ["", "{}", "<html>", r#"{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"issuer"}]}"#] {
        let (api, keys) = trusting(json!({})).await;
        *keys.keys.lock() = answer.to_owned();
        let token = bearer(&Signer::issuer().token(json!({})));
        read(&api, &[("authorization", &token)]).await.expect_problem(401, "AUT-002", "");
    }
}

#[tokio::test]
async fn nobody_has_to_say_who_they_are_where_nobody_is_asked() {
    let api = Api::start(sqlite()).await;
    let made = create(&api, "open", &[("authorization", "whatever")]).await.expect(201).json();
    assert_eq!(made["created_by"], "system@hyperfleet.local");
}

/// Whatever is in the header, it is no way in and brings nothing down.
#[tokio::test]
async fn no_header_is_a_way_in() {
    use proptest::strategy::{Strategy as _, ValueTree as _};
    let (api, _keys) = trusting(json!({})).await;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let texts = proptest::string::string_regex("(Bearer |bearer  ?|Basic )?[ -~]{0,60}(\\.[ -~]{0,30}){0,3}")
        .unwrap();
    let name = HeaderName::from_static("authorization");
    for _ in 0..300 {
        let text = texts.new_tree(&mut runner).unwrap().current();
        let reply = read(&api, &[(name.as_str(), &text)]).await;
        assert_eq!(reply.status(), 401, "{text:?}");
    }
}
