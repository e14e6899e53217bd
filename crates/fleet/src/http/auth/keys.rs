//! The public keys of an issuer: read from a file or from where the issuer has them, kept, and read again when a token is
//! signed by one that is not among them, though not more often than bears.

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

/// How large a set of keys may be.
const LARGEST: usize = 1024 * 1024;
/// How many keys of a set are looked at.
const MOST_KEYS: usize = 256;
/// How long reading them may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How soon they may be read again for a token whose key is not among them.
const AGAIN: Duration = Duration::from_secs(10);
/// How often they are read anyway.
pub(super) const REFRESH: Duration = Duration::from_secs(300);

/// Where keys are.
#[derive(Debug)]
pub(super) enum Origin {
    File(PathBuf),
    Url { client: Box<Client>, path: String },
}

impl Origin {
    async fn read(&self) -> Result<Keys, String> {
        let bytes = match self {
            Self::File(path) => return Keys::read(path),
            Self::Url { client, path } => client.fetch(path, PATIENCE, LARGEST).await,
        };
        Keys::parse(&bytes.map_err(|error| error.to_string())?)
    }
}

/// The keys of an issuer.
#[derive(Debug)]
pub(super) struct KeySource {
    issuer: String,
    origin: Origin,
    kept: RwLock<Arc<Keys>>,
    /// When they were last read for a token. Whoever has it reads; others wait for what comes of it.
    last_asked: tokio::sync::Mutex<Option<Instant>>,
}

impl KeySource {
    pub(super) fn new(issuer: String, origin: Origin, known: Keys) -> Self {
        let kept = RwLock::new(Arc::new(known));
        Self { issuer, origin, kept, last_asked: tokio::sync::Mutex::new(None) }
    }

    /// The key that a token names, or the only one there is when it names none.
    pub(super) async fn key(self: &Arc<Self>, id: Option<&str>) -> Option<PublicKey> {
        if let Some(key) = self.kept(id) {
            return Some(key);
        }
        let mut last_asked = self.last_asked.lock().await;
        let recently = last_asked.is_some_and(|last| last.elapsed() < AGAIN);
        if !recently && self.kept(id).is_none() {
            *last_asked = Some(Instant::now());
            // As a task of its own: whoever sent the token may go away, and others wait for the keys.
            let source = self.clone();
            let _ = tokio::spawn(async move { source.refresh().await }).await;
        }
        self.kept(id)
    }

    fn kept(&self, id: Option<&str>) -> Option<PublicKey> {
        self.kept.read().find(id).cloned()
    }

    /// Reads the keys again. Those there were stay when that fails.
    pub(super) async fn refresh(&self) {
        match self.origin.read().await {
            Ok(keys) => *self.kept.write() = Arc::new(keys),
            Err(words) => {
                tracing::warn!(issuer = %self.issuer, %words, "the keys of an issuer cannot be read; those known stay");
            }
        }
    }
}

/// A set of keys, each with its id if it has one.
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
    /// Those of a file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|error| error.to_string())?;
        file.take(LARGEST as u64).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        Self::parse(&bytes)
    }

    /// Those of a JSON web key set that can be used; issuers have others there, too.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let set: KeySet = serde_json::from_slice(bytes)
            .map_err(|error| format!("it is not a JSON web key set: {error}"))?;
        let keys: Vec<_> = set.keys.into_iter().take(MOST_KEYS).filter_map(usable).collect();
        if keys.is_empty() {
            return Err("it has no RSA key for signatures by RS256".to_owned());
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
    fn keys_for_other_purposes_are_left_out() {
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
    fn a_set_without_a_key_to_use_is_none() {
        for text in ["", "[]", "{}", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"AQAB"}]}"#] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_token_that_names_no_key_means_the_only_one() {
        let one = r#"{"kty":"RSA","kid":"a","n":"AQAB","e":"AQAB"}"#;
        let alone = Keys::parse(format!(r#"{{"keys":[{one}]}}"#).as_bytes()).unwrap();
        assert!(alone.find(None).is_some() && alone.find(Some("a")).is_some());
        assert!(alone.find(Some("b")).is_none());
        let two = Keys::parse(format!(r#"{{"keys":[{one},{one}]}}"#).as_bytes()).unwrap();
        assert!(two.find(None).is_none());
    }
}
