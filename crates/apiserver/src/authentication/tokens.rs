//! Signed tokens: JSON Web Tokens of one algorithm, ES256. A token that says another algorithm or another key is not
//! looked at any further. What the claims mean is not known here.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) const ALGORITHM: &str = "ES256";
/// Longer ones are nobody's.
const TOKEN_LIMIT: usize = 16 * 1024;

/// Why a key cannot sign tokens.
#[derive(Debug, thiserror::Error)]
#[error("this is no private key that can sign tokens (ECDSA P-256 as PKCS #8 PEM): {0}")]
pub struct SigningKeyError(String);

/// The key that signs the tokens of ServiceAccounts.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    id: String,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
}

impl SigningKey {
    /// Makes a new key; the text is the key as PEM.
    pub fn generate() -> Result<(Self, String), SigningKeyError> {
        let pair = rcgen::KeyPair::generate().map_err(|error| SigningKeyError(error.to_string()))?;
        let pem = pair.serialize_pem();
        Self::read(&pem).map(|key| (key, pem))
    }

    /// Reads a key from PEM.
    pub fn read(pem: &str) -> Result<Self, SigningKeyError> {
        let unusable = |why: &dyn std::fmt::Display| SigningKeyError(why.to_string());
        let der = rcgen::KeyPair::from_pem(pem).map_err(|error| unusable(&error))?.serialize_der();
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random)
            .map_err(|error| unusable(&error))?;
        let id = BASE64.encode(Sha256::digest(pair.public_key().as_ref()));
        Ok(Self { pair, random, id })
    }

    /// A token with these claims.
    pub(crate) fn sign(&self, claims: &Value) -> Result<String, SigningKeyError> {
        let header = json!({"alg": ALGORITHM, "kid": self.id});
        let text = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let signature = self
            .pair
            .sign(&self.random, text.as_bytes())
            .map_err(|_| SigningKeyError("the signature could not be made".into()))?;
        Ok(format!("{text}.{}", BASE64.encode(signature.as_ref())))
    }

    /// The claims of a token that this key signed.
    pub(crate) fn verify(&self, token: &str) -> Option<Value> {
        if token.len() > TOKEN_LIMIT {
            return None;
        }
        let (text, signature) = token.rsplit_once('.')?;
        let (header, claims) = text.split_once('.')?;
        let header: Header = serde_json::from_slice(&BASE64.decode(header).ok()?).ok()?;
        if header.alg != ALGORITHM || header.kid.is_some_and(|id| id != self.id) {
            return None;
        }
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key());
        key.verify(text.as_bytes(), &BASE64.decode(signature).ok()?).ok()?;
        serde_json::from_slice(&BASE64.decode(claims).ok()?).ok()
    }

    /// The public half, as a set of keys that others verify tokens with.
    pub(crate) fn published(&self) -> Value {
        // An uncompressed point: a byte that says so, then both coordinates.
        let point = self.pair.public_key().as_ref();
        let (x, y) = point.get(1..).unwrap_or_default().split_at(32.min(point.len().saturating_sub(1)));
        json!({"keys": [{
            "use": "sig", "kty": "EC", "crv": "P-256", "alg": ALGORITHM, "kid": self.id,
            "x": BASE64.encode(x), "y": BASE64.encode(y),
        }]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_key_alone() {
        let (key, pem) = SigningKey::generate().unwrap();
        let claims = json!({"sub": "somebody", "exp": 1});
        let token = key.sign(&claims).unwrap();
        assert_eq!(key.verify(&token), Some(claims.clone()));
        assert_eq!(SigningKey::read(&pem).unwrap().verify(&token), Some(claims));
        assert_eq!(SigningKey::generate().unwrap().0.verify(&token), None);
    }

    #[test]
    fn a_token_that_was_tampered_with_is_nobodys() {
        let (key, _) = SigningKey::generate().unwrap();
        let token = key.sign(&json!({"sub": "somebody"})).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let [header, claims, signature] = parts.as_slice() else { panic!("three parts") };
        let other = BASE64.encode(r#"{"sub":"admin"}"#);
        let none = BASE64.encode(r#"{"alg":"none"}"#);
        let symmetric = BASE64.encode(r#"{"alg":"HS256"}"#);
        for forged in [
            format!("{header}.{other}.{signature}"),
            format!("{none}.{claims}."),
            format!("{none}.{claims}.{signature}"),
            format!("{symmetric}.{claims}.{signature}"),
            format!("{header}.{claims}"),
            format!("{header}.{claims}.{signature}A"),
            format!(" {token}"),
            String::new(),
            "...".into(),
            "x".repeat(TOKEN_LIMIT + 1),
        ] {
            assert_eq!(key.verify(&forged), None, "{forged:.80}");
        }
    }

    #[test]
    fn the_published_key_has_both_coordinates() {
        let (key, _) = SigningKey::generate().unwrap();
        let set = key.published();
        for coordinate in ["x", "y"] {
            let text = set["keys"][0][coordinate].as_str().unwrap();
            assert_eq!(BASE64.decode(text).unwrap().len(), 32);
        }
    }
}
