//! Parses and verifies JSON web tokens. It is pure: keys and time are passed in.
//!
//! Only RS256 is accepted. It is verified with `ring`, which TLS needs anyway; a token library would support further algorithms,
//! which would have to be rejected.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The maximum size of a token in bytes.
pub(crate) const LARGEST: usize = 16 * 1024;
/// The tolerated difference between the clocks of issuers and ours, in seconds.
const CLOCK_SKEW_SECONDS: f64 = 30.0;
/// The only accepted algorithm.
const ALGORITHM: &str = "RS256";

/// Why credentials are rejected. The messages are sent to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rejection {
    #[error("there are no credentials; send a token as `Authorization: Bearer ...`")]
    Missing,
    #[error("the credentials are not a bearer token")]
    NotBearer,
    #[error("the header with the credentials must not be repeated")]
    Ambiguous,
    #[error("the token has more than {LARGEST} bytes")]
    TooLarge,
    #[error("the token is not a JSON web token")]
    Malformed,
    #[error("the token is not signed with RS256")]
    Algorithm,
    #[error("the issuer of the token is not trusted")]
    UnknownIssuer,
    #[error("the token is signed with an unknown key of its issuer")]
    UnknownKey,
    #[error("the signature of the token is invalid")]
    Signature,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token has no expiry (claim exp)")]
    NoExpiry,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    TooEarly,
    #[error("the identity of the caller has more than {} characters", super::identity::LONGEST)]
    LongIdentity,
    #[error("the identity of the caller contains control characters")]
    InvalidIdentity,
    #[error("the identity of the caller does not match the pattern of its issuer")]
    ForbiddenIdentity,
    #[error("changes require the identity of the caller, and neither the token nor a header has it")]
    NoIdentity,
}

/// A public key of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicKey {
    /// The modulus, big-endian, without leading zeros.
    pub(crate) modulus: Vec<u8>,
    /// The exponent, big-endian, without leading zeros.
    pub(crate) exponent: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    /// Extensions that must be understood. None is supported.
    #[serde(default)]
    crit: Option<Value>,
}

/// A parsed token that is not verified yet.
#[derive(Debug)]
pub(crate) struct Token<'t> {
    signed: &'t str,
    signature: Vec<u8>,
    key_id: Option<String>,
    claims: Claims,
}

impl<'t> Token<'t> {
    /// Parses a token.
    pub(crate) fn parse(text: &'t str) -> Result<Self, Rejection> {
        if text.len() > LARGEST {
            return Err(Rejection::TooLarge);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(Rejection::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(Rejection::Malformed)?;
        let header: Header = json(header)?;
        if header.alg != ALGORITHM {
            return Err(Rejection::Algorithm);
        }
        if header.crit.is_some() {
            return Err(Rejection::Malformed);
        }
        Ok(Self { signed, signature: decode(signature)?, key_id: header.kid, claims: Claims(json(claims)?) })
    }

    /// The ID of the signing key.
    pub(crate) fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// The claimed issuer.
    pub(crate) fn issuer(&self) -> Option<&str> {
        self.claims.text("iss")
    }

    /// Verifies the signature, the audience and the times, and returns the claims.
    pub(crate) fn verify(
        self,
        key: &PublicKey,
        audience: Option<&str>,
        now: Timestamp,
    ) -> Result<Claims, Rejection> {
        let key = RsaPublicKeyComponents { n: &key.modulus, e: &key.exponent };
        key.verify(&RSA_PKCS1_2048_8192_SHA256, self.signed.as_bytes(), &self.signature)
            .map_err(|_| Rejection::Signature)?;
        if audience.is_some_and(|audience| !self.claims.is_for(audience)) {
            return Err(Rejection::Audience);
        }
        self.claims.check_times(now)?;
        Ok(self.claims)
    }
}

/// The claims of a token.
#[derive(Debug)]
pub(crate) struct Claims(Map<String, Value>);

impl Claims {
    /// A string claim.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    fn is_for(&self, audience: &str) -> bool {
        match self.0.get("aud") {
            Some(Value::String(one)) => one == audience,
            Some(Value::Array(several)) => several.iter().any(|one| one.as_str() == Some(audience)),
            _ => false,
        }
    }

    fn check_times(&self, now: Timestamp) -> Result<(), Rejection> {
        let now = now.as_duration().as_secs_f64();
        let expires = self.seconds("exp")?.ok_or(Rejection::NoExpiry)?;
        for begins in ["nbf", "iat"] {
            if self.seconds(begins)?.is_some_and(|begins| begins > now + CLOCK_SKEW_SECONDS) {
                return Err(Rejection::TooEarly);
            }
        }
        if expires <= now - CLOCK_SKEW_SECONDS { Err(Rejection::Expired) } else { Ok(()) }
    }

    /// A time claim, in seconds since 1970. A claim of another type makes the token malformed.
    fn seconds(&self, name: &str) -> Result<Option<f64>, Rejection> {
        match self.0.get(name) {
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or(Rejection::Malformed),
        }
    }
}

fn json<T: serde::de::DeserializeOwned>(segment: &str) -> Result<T, Rejection> {
    serde_json::from_slice(&decode(segment)?).map_err(|_| Rejection::Malformed)
}

/// Decodes a segment, which must be unpadded base64url and not empty.
fn decode(segment: &str) -> Result<Vec<u8>, Rejection> {
    match URL_SAFE_NO_PAD.decode(segment) {
        Ok(bytes) if !bytes.is_empty() => Ok(bytes),
        _ => Err(Rejection::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(header: &str, claims: &str) -> String {
        format!("{}.{}.c2ln", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn only_rs256_is_accepted() {
        let rows = [
            (r#"{"alg":"RS256"}"#, None),
            (r#"{"alg":"RS256","kid":"a","typ":"JWT"}"#, None),
            (r#"{"alg":"none"}"#, Some(Rejection::Algorithm)),
            (r#"{"alg":"HS256"}"#, Some(Rejection::Algorithm)),
            (r#"{"alg":"rs256"}"#, Some(Rejection::Algorithm)),
            (r#"{"alg":"RS512"}"#, Some(Rejection::Algorithm)),
            (r#"{"alg":"none","alg":"RS256"}"#, Some(Rejection::Malformed)),
            (r#"{"alg":"RS256","crit":["b64"],"b64":false}"#, Some(Rejection::Malformed)),
            (r#"{}"#, Some(Rejection::Malformed)),
            (r#"[]"#, Some(Rejection::Malformed)),
        ];
        for (header, rejection) in rows {
            assert_eq!(Token::parse(&token(header, "{}")).err(), rejection, "{header}");
        }
    }

    #[test]
    fn invalid_tokens_are_malformed() {
        let good = token(r#"{"alg":"RS256"}"#, "{}");
        let rows = [
            String::new(),
            ".".into(),
            "..".into(),
            "a.b".into(),
            format!("{good}.c2ln"),
            format!("{good}="),
            good.replace(".c2ln", "."),
            token(r#"{"alg":"RS256"}"#, "[]"),
            token(r#"{"alg":"RS256"}"#, &"[".repeat(4000)),
        ];
        for text in rows {
            assert_eq!(Token::parse(&text).err(), Some(Rejection::Malformed), "{text}");
        }
        assert_eq!(Token::parse(&"a".repeat(LARGEST + 1)).err(), Some(Rejection::TooLarge));
    }

    #[test]
    fn times_have_thirty_seconds_of_leeway() {
        let now = Timestamp::from_second(1000).unwrap();
        let rows = [
            (r#"{"exp":1001}"#, Ok(())),
            (r#"{"exp":971}"#, Ok(())),
            (r#"{"exp":970.5}"#, Ok(())),
            (r#"{"exp":970}"#, Err(Rejection::Expired)),
            (r#"{}"#, Err(Rejection::NoExpiry)),
            (r#"{"exp":"1001"}"#, Err(Rejection::Malformed)),
            (r#"{"exp":1001,"nbf":1030,"iat":1030}"#, Ok(())),
            (r#"{"exp":1001,"nbf":1031}"#, Err(Rejection::TooEarly)),
            (r#"{"exp":1001,"iat":1031}"#, Err(Rejection::TooEarly)),
            (r#"{"exp":1001,"nbf":null}"#, Err(Rejection::Malformed)),
        ];
        for (claims, outcome) in rows {
            let claims = Claims(serde_json::from_str(claims).unwrap());
            assert_eq!(claims.check_times(now), outcome, "{claims:?}");
        }
    }

    #[test]
    fn audience_is_a_string_or_a_list() {
        let rows = [
            (r#"{"aud":"fleet"}"#, true),
            (r#"{"aud":["other","fleet"]}"#, true),
            (r#"{"aud":"other"}"#, false),
            (r#"{"aud":["other"]}"#, false),
            (r#"{"aud":[]}"#, false),
            (r#"{"aud":{"fleet":true}}"#, false),
            (r#"{}"#, false),
        ];
        for (claims, matches) in rows {
            let claims = Claims(serde_json::from_str(claims).unwrap());
            assert_eq!(claims.is_for("fleet"), matches, "{claims:?}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in ".{0,200}") {
            let _ = Token::parse(&text);
        }

        #[test]
        fn verifying_a_random_token_fails_without_a_panic(
            claims in ".{0,80}", key in proptest::collection::vec(any::<u8>(), 0..300), signature in "[a-zA-Z0-9_-]{0,400}",
        ) {
            let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256"}"#);
            let text = format!("{header}.{}.{signature}", URL_SAFE_NO_PAD.encode(claims));
            if let Ok(token) = Token::parse(&text) {
                let key = PublicKey { modulus: key.clone(), exponent: key };
                prop_assert!(token.verify(&key, None, Timestamp::UNIX_EPOCH).is_err());
            }
        }
    }
}
