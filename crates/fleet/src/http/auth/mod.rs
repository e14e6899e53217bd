//! Authentication: callers send a JSON web token of a trusted issuer. Their identity comes from the token or from a proxy.
//!
//! The server also runs while issuers are unreachable. Tokens that cannot be verified are rejected, and the cause is logged.

mod identity;
mod issuer;
mod keys;
mod token;

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};
use jiff::Timestamp;

use super::problem::{Code, Problem};
use issuer::Issuer;
pub use issuer::{AuthConfig, AuthError, IssuerConfig};
pub(crate) use token::Rejection as AuthRejection;
use token::{Rejection, Token};

/// The trusted issuers.
#[derive(Debug)]
pub(crate) struct Issuers(Vec<Issuer>);

impl Issuers {
    /// The issuers of a configuration; `None` if authentication is disabled.
    pub(crate) fn new(config: &AuthConfig) -> Result<Option<Arc<Self>>, AuthError> {
        if !config.enabled() {
            return Ok(None);
        }
        let issuers = config.check()?;
        let opened = issuers.into_iter().map(Issuer::open).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(Arc::new(Self(opened))))
    }

    /// Reads the keys of all issuers now and every few minutes.
    pub(crate) async fn keep_keys(&self) {
        loop {
            futures::future::join_all(self.0.iter().map(|issuer| issuer.keys.refresh())).await;
            tokio::time::sleep(keys::REFRESH_INTERVAL).await;
        }
    }

    /// Authenticates a request, and returns the identity of the caller, if it has one.
    pub(crate) async fn caller(
        &self,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Option<String>, Rejection> {
        let (issuer, token) = self.issuer_of(headers)?;
        let key = issuer.keys.key(token.key_id()).await.ok_or(Rejection::UnknownKey)?;
        let claims = token.verify(&key, issuer.audience.as_deref(), now)?;
        issuer.identity.identity(headers, &claims)
    }

    /// The issuer that the token claims, whose keys verify it. Issuers may have different headers; if no issuer matches, the error is that
    /// of the first token.
    fn issuer_of<'h>(&self, headers: &'h HeaderMap) -> Result<(&Issuer, Token<'h>), Rejection> {
        let mut first = None;
        for issuer in &self.0 {
            match issuer.token(headers) {
                Ok(Some(token)) if token.issuer() == Some(&issuer.url) => return Ok((issuer, token)),
                Ok(Some(_)) => first = first.or(Some(Rejection::UnknownIssuer)),
                Err(rejection) => first = first.or(Some(rejection)),
                Ok(None) => {}
            }
        }
        Err(first.unwrap_or(Rejection::Missing))
    }
}

/// The value of a header that must not be repeated.
fn only_value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Rejection> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Rejection::Ambiguous);
    }
    std::str::from_utf8(value.as_bytes()).map(Some).map_err(|_| Rejection::Malformed)
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let code = match rejection {
            Rejection::Missing => Code::NoCredentials,
            Rejection::Expired => Code::ExpiredCredentials,
            _ => Code::InvalidCredentials,
        };
        Self::new(code, rejection.to_string())
    }
}
