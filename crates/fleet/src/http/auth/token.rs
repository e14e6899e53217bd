//! A JSON web token, and whether to believe it. Nothing here asks anybody or knows the time by itself.
//!
//! One algorithm is taken, RS256, so it is checked here on `ring`, which the TLS of this process brings along anyway: a
//! library of tokens would bring all the algorithms that must then be refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use serde::Deserialize;
use serde_json::{Map, Value};

/// How large a token may be.
pub(crate) const LARGEST: usize = 16 * 1024;
/// How far the clocks of issuers may be from ours, in seconds.
const LEEWAY: f64 = 30.0;
/// The one algorithm.
const ALGORITHM: &str = "RS256";

/// Why a token is not believed, in words that may be told to whoever sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rejection {
    #[error("there are no credentials; send a token as `Authorization: Bearer ...`")]
    Missing,
    #[error("the credentials are not a bearer token")]
    NotBearer,
    #[error("the credentials come more than once")]
    Ambiguous,
    #[error("the token has more than {LARGEST} bytes")]
    TooLarge,
    #[error("the token is not a JSON web token")]
    Malformed,
    #[error("the token is not signed by RS256")]
    Algorithm,
    #[error("the token is of an issuer that is not trusted here")]
    UnknownIssuer,
    #[error("the token is signed by a key that its issuer is not known to have")]
    UnknownKey,
    #[error("the signature of the token is wrong")]
    Signature,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token does not say when it expires")]
    NoExpiry,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    TooEarly,
    #[error("the name of the caller has more than {} characters", super::identity::LONGEST)]
    LongIdentity,
    #[error("the name of the caller has characters that no name has")]
    StrangeIdentity,
    #[error("the name of the caller is not one that its issuer may give")]
    UnfitIdentity,
    #[error("changes need the name of the caller, and neither the token nor a header has it")]
    NoIdentity,
}

/// A public key of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicKey {
    /// Its modulus, big-endian, without leading zeros.
    pub(crate) modulus: Vec<u8>,
    /// Its exponent, likewise.
    pub(crate) exponent: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    /// Extensions that whoever checks the token has to understand. We understand none.
    #[serde(default)]
    crit: Option<Value>,
}

/// A token as it was sent: read, and not believed yet.
#[derive(Debug)]
pub(crate) struct Token<'t> {
    signed: &'t str,
    signature: Vec<u8>,
    key_id: Option<String>,
    claims: Claims,
}

impl<'t> Token<'t> {
    /// Reads a token.
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

    /// Which key it says that it is signed by.
    pub(crate) fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// Who it says that it is of.
    pub(crate) fn issuer(&self) -> Option<&str> {
        self.claims.text("iss")
    }

    /// Its claims, if the key signed them, for this audience, and at this time.
    pub(crate) fn believe(
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

/// What a token says.
#[derive(Debug)]
pub(crate) struct Claims(Map<String, Value>);

impl Claims {
    /// A claim that is text.
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
            if self.seconds(begins)?.is_some_and(|begins| begins > now + LEEWAY) {
                return Err(Rejection::TooEarly);
            }
        }
        if expires <= now - LEEWAY { Err(Rejection::Expired) } else { Ok(()) }
    }

    /// A claim that is an instant, in seconds since 1970. One that is there and is none makes the token senseless.
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

/// The bytes of a segment. Anything but unpadded base64url is refused, as is what is empty or has another dot.
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
    fn only_what_is_signed_by_rs256_is_read() {
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
    fn what_is_no_token_is_malformed() {
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
    fn an_audience_is_one_or_among_several() {
        let rows = [
            (r#"{"aud":"fleet"}"#, true),
            (r#"{"aud":["other","fleet"]}"#, true),
            (r#"{"aud":"other"}"#, false),
            (r#"{"aud":["other"]}"#, false),
            (r#"{"aud":[]}"#, false),
            (r#"{"aud":{"fleet":true}}"#, false),
            (r#"{}"#, false),
        ];
        for (claims, fits) in rows {
            let claims = Claims(serde_json::from_str(claims).unwrap());
            assert_eq!(claims.is_for("fleet"), fits, "{claims:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_reading_a_token_fail_in_another_way(text in ".{0,200}") {
            let _ = Token::parse(&text);
        }

        #[test]
        fn no_token_makes_believing_it_fail_in_another_way(
            claims in ".{0,80}", key in proptest::collection::vec(any::<u8>(), 0..300), signature in "[a-zA-Z0-9_-]{0,400}",
        ) {
            let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256"}"#);
            let text = format!("{header}.{}.{signature}", URL_SAFE_NO_PAD.encode(claims));
            if let Ok(token) = Token::parse(&text) {
                let key = PublicKey { modulus: key.clone(), exponent: key };
                prop_assert!(token.believe(&key, None, Timestamp::UNIX_EPOCH).is_err());
            }
        }
    }
}
