//! An issuer of tokens for tests: it signs, and has its keys where they can be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bellwether_fleet::http::{Access, AuthConfig, TenancyConfig};
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents};
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::harness::time;

/// Who issues the tokens of tests.
pub(crate) const ISSUER: &str = "https://issuer.example.com";

/// One who signs.
pub(crate) struct Signer {
    key: RsaKeyPair,
    key_id: &'static str,
}

impl Signer {
    pub(crate) fn issuer() -> Self {
        Self::of(include_bytes!("../data/issuer-key.pk8"), "issuer")
    }

    pub(crate) fn stranger() -> Self {
        Self::of(include_bytes!("../data/stranger-key.pk8"), "stranger")
    }

    fn of(key: &[u8], key_id: &'static str) -> Self {
        Self { key: RsaKeyPair::from_pkcs8(key).expect("a key"), key_id }
    }

    /// The same key by another name.
    pub(crate) fn named(self, key_id: &'static str) -> Self {
        Self { key_id, ..self }
    }

    pub(crate) fn public_key(&self) -> Value {
        let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(self.key.public_key());
        json!({
            "kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.key_id,
            "n": URL_SAFE_NO_PAD.encode(n), "e": URL_SAFE_NO_PAD.encode(e),
        })
    }

    /// A token with these claims, beside or instead of those that a good token has; `null` leaves one out.
    pub(crate) fn token(&self, claims: Value) -> String {
        let mut all = json!({
            "iss": ISSUER, "aud": "fleet", "email": "ada@example.com", "exp": time(300).as_second(),
        });
        for (name, value) in claims.as_object().expect("claims are an object") {
            all[name] = value.clone();
        }
        let kept = all.as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
        let claims: serde_json::Map<String, Value> =
            kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        self.sign(&json!({"alg": "RS256", "typ": "JWT", "kid": self.key_id}), &claims.into())
    }

    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let segment = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", segment(header), segment(claims));
        let mut signature = vec![0; self.key.public_key().modulus_len()];
        let random = SystemRandom::new();
        self.key.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).expect("it signs");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Where an issuer has its keys.
pub(crate) struct KeyServer {
    pub(crate) url: String,
    pub(crate) keys: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

impl KeyServer {
    pub(crate) async fn with(signers: &[&Signer]) -> Self {
        let (keys, asked) = (Arc::new(Mutex::new(key_set(signers))), Arc::new(AtomicUsize::new(0)));
        let (served, count) = (keys.clone(), asked.clone());
        let answer = move || {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::ready(served.lock().clone())
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let url = format!("http://{}/keys", listener.local_addr().expect("it is bound"));
        let routes = Router::new().route("/keys", get(answer));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { url, keys, asked }
    }

    /// How often the keys were read.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

/// Has keys at an address that only who trusts the certificate believes; both.
pub(crate) async fn keys_over_tls(signers: &[&Signer]) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .expect("the certificate fits the key");
    let (acceptor, keys) = (TlsAcceptor::from(Arc::new(tls)), key_set(signers));
    let listener = TcpListener::bind("localhost:0").await.expect("there is a free port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Who does not trust the certificate hangs up.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let head =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", keys.len());
            let _ = stream.write_all(format!("{head}{keys}").as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (format!("https://localhost:{port}/keys"), made.cert.pem())
}

pub(crate) fn key_set(signers: &[&Signer]) -> String {
    let keys: Vec<Value> = signers.iter().map(|signer| signer.public_key()).collect();
    json!({"keys": keys}).to_string()
}

/// Access for those who have tokens of issuers; each as the configuration has it, on top of the keys at an address.
pub(crate) fn access(keys: &str, issuers: &[Value]) -> Access {
    let issuers: Vec<Value> = issuers
        .iter()
        .map(|issuer| {
            let mut config = json!({"issuer_url": ISSUER, "jwk_cert_url": keys});
            config.as_object_mut().unwrap().extend(issuer.as_object().unwrap().clone());
            config
        })
        .collect();
    let auth: AuthConfig = serde_json::from_value(json!({"issuers": issuers})).expect("issuers");
    Access::new(&auth, TenancyConfig::default()).expect("the issuers make sense")
}
