//! Who somebody is: by a certificate of our CA, by the token of a ServiceAccount, or on behalf of somebody else. What
//! they may do is decided elsewhere. A credential that is shown and is not good is refused, and never makes anybody
//! anonymous.

mod impersonation;
pub(crate) mod service_accounts;
mod tokens;

use http::{HeaderMap, header};

pub(crate) use impersonation::impersonated;
pub use tokens::{SigningKey, SigningKeyError};

use crate::identity::Identity;
use crate::server::{Cluster, Server};
use crate::status::{Answer, Refusal};

/// Who makes a request, by what the transport knows and the headers say; nobody, if no credential is shown.
pub(crate) fn authenticate(
    server: &Server,
    cluster: &Cluster,
    transport: Option<Identity>,
    headers: &HeaderMap,
) -> Answer<Option<Identity>> {
    if transport.is_some() {
        return Ok(transport);
    }
    let Some(token) = bearer(headers) else { return Ok(None) };
    match service_accounts::authenticate(server, cluster, token, &[]) {
        Ok(bearer) => Ok(Some(bearer.identity)),
        Err(_) => Err(Refusal::unauthorized()),
    }
}

/// The token in an Authorization header. One of another scheme is a credential that is not good.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?;
    let text = value.to_str().unwrap_or_default().trim();
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    Some(if scheme.eq_ignore_ascii_case("bearer") { token.trim() } else { "" })
}
