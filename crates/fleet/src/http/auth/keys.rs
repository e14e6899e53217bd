//! The public keys of an issuer: read from a file or a URL, cached, and read again, at a limited rate, when a token is signed with an
//! unknown key.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::token::PublicKey;
use crate::client::Client;

/// The maximum size of a key set in bytes.
const MAX_BYTES: usize = 1024 * 1024;
/// How many keys of a set are used.
const MAX_KEYS: usize = 256;
/// How long reading keys may take.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The minimum interval between reads because of unknown keys.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(10);
/// The interval of periodic reads.
pub(super) const REFRESH_INTERVAL: Duration = Duration::from_secs(300);

/// Where keys are read from.
#[derive(Debug)]
pub(super) enum Origin {
    File(PathBuf),
    Url { client: Box<Client>, path: String },
}

impl Origin {
    async fn read(&self) -> Result<Keys, String> {
        let bytes = match self {
            Self::File(path) => return Keys::read(path),
            Self::Url { client, path } => client.fetch(path, FETCH_TIMEOUT, MAX_BYTES).await,
        };
        Keys::parse(&bytes.map_err(|error| error.to_string())?)
    }
}

/// The keys of an issuer.
#[derive(Debug)]
pub(super) struct KeySource {
    issuer: String,
    origin: Origin,
    cached: RwLock<Arc<Keys>>,
    /// When keys were last read because of a token. The holder of the lock reads; others wait for the result.
    last_fetch: tokio::sync::Mutex<Option<Instant>>,
}

impl KeySource {
    pub(super) fn new(issuer: String, origin: Origin, known: Keys) -> Self {
        let cached = RwLock::new(Arc::new(known));
        Self { issuer, origin, cached, last_fetch: tokio::sync::Mutex::new(None) }
    }

    /// The key that a token names. If it names none and there is only one key, it is that one.
    pub(super) async fn key(self: &Arc<Self>, id: Option<&str>) -> Option<PublicKey> {
        if let Some(key) = self.cached_key(id) {
            return Some(key);
        }
        let mut last_fetch = self.last_fetch.lock().await;
        let recently = last_fetch.is_some_and(|last| last.elapsed() < MIN_REFRESH_INTERVAL);
        if !recently && self.cached_key(id).is_none() {
            *last_fetch = Some(Instant::now());
            // A separate task, because the request of the token may be cancelled while others wait for the keys.
            let source = self.clone();
            let _ = tokio::spawn(async move { source.refresh().await }).await;
        }
        self.cached_key(id)
    }

    fn cached_key(&self, id: Option<&str>) -> Option<PublicKey> {
        self.cached.read().find(id).cloned()
    }

    /// Reads the keys again. If that fails, the cached keys are kept.
    pub(super) async fn refresh(&self) {
        match self.origin.read().await {
            Ok(keys) => *self.cached.write() = Arc::new(keys),
            Err(error) => {
                tracing::warn!(issuer = %self.issuer, %error, "cannot read the keys of an issuer; keeping the cached keys");
            }
        }
    }
}

/// A set of keys with their IDs.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<(Option<String>, PublicKey)>);

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Key {
    kty: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default, rename = "use")]
    use_: Option<String>,
    #[serde(default)]
    alg: Option<String>,
    n: String,
    e: String,
}

impl Keys {
    /// Reads the keys of a file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|error| error.to_string())?;
        file.take(MAX_BYTES as u64).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        Self::parse(&bytes)
    }

    /// Parses the keys of a JSON web key set for RS256 signatures. Other keys are ignored.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let set: KeySet =
            serde_json::from_slice(bytes).map_err(|error| format!("not a JSON web key set: {error}"))?;
        let keys: Vec<_> = set.keys.into_iter().take(MAX_KEYS).filter_map(usable).collect();
        if keys.is_empty() {
            return Err("no RSA key for RS256 signatures".to_owned());
        }
        Ok(Self(keys))
    }

    fn find(&self, id: Option<&str>) -> Option<&PublicKey> {
        match (id, self.0.as_slice()) {
            (None, [(_, only)]) => Some(only),
            (None, _) => None,
            (Some(id), keys) => keys.iter().find(|(kid, _)| kid.as_deref() == Some(id)).map(|(_, key)| key),
        }
    }
}

fn usable(key: Value) -> Option<(Option<String>, PublicKey)> {
    let key: Key = serde_json::from_value(key).ok()?;
    let signs = key.use_.is_none_or(|use_| use_ == "sig") && key.alg.is_none_or(|alg| alg == "RS256");
    let number = |text: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
        let significant: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
        (!significant.is_empty()).then_some(significant)
    };
    if key.kty != "RSA" || !signs {
        return None;
    }
    Some((key.kid, PublicKey { modulus: number(&key.n)?, exponent: number(&key.e)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(keys: &str) -> Result<Vec<Option<String>>, String> {
        Keys::parse(keys.as_bytes()).map(|keys| keys.0.into_iter().map(|(id, _)| id).collect())
    }

    #[test]
    fn keys_for_other_purposes_are_ignored() {
        let keys = parsed(
            r#"{"keys":[
                {"kty":"RSA","kid":"good","use":"sig","alg":"RS256","n":"AQAB","e":"AQAB"},
                {"kty":"RSA","kid":"plain","n":"AQAB","e":"AQAB"},
                {"kty":"RSA","kid":"encrypts","use":"enc","n":"AQAB","e":"AQAB"},
                {"kty":"RSA","kid":"longer","alg":"RS512","n":"AQAB","e":"AQAB"},
                {"kty":"RSA","kid":"zero","n":"AA","e":"AQAB"},
                {"kty":"EC","kid":"curve","crv":"P-256","x":"AQAB","y":"AQAB"},
                17
            ]}"#,
        );
        assert_eq!(keys, Ok(vec![Some("good".to_owned()), Some("plain".to_owned())]));
    }

    #[test]
    fn set_without_a_usable_key_is_an_error() {
        for text in ["", "[]", "{}", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"AQAB"}]}"#] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn token_without_a_key_id_uses_the_only_key() {
        let one = r#"{"kty":"RSA","kid":"a","n":"AQAB","e":"AQAB"}"#;
        let alone = Keys::parse(format!(r#"{{"keys":[{one}]}}"#).as_bytes()).unwrap();
        assert!(alone.find(None).is_some() && alone.find(Some("a")).is_some());
        assert!(alone.find(Some("b")).is_none());
        let two = Keys::parse(format!(r#"{{"keys":[{one},{one}]}}"#).as_bytes()).unwrap();
        assert!(two.find(None).is_none());
    }
}
