//! An issuer of tokens: its configuration, which is validated once, and the extraction of its tokens from requests.

use std::path::PathBuf;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, Uri, header};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::identity::IdentityRule;
use super::keys::{KeySource, Keys, Origin};
use super::only_value;
use super::token::{Rejection, Token};
use crate::client::{Client, ClientError};

/// The scheme of the header Authorization.
const SCHEME: &str = "Bearer";
/// The maximum size of a compiled pattern.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// The configuration of authentication.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthConfig {
    /// Whether authentication is required. Default: if there are issuers.
    #[serde(default)]
    pub enabled: Option<bool>,
    /// The trusted issuers.
    #[serde(default)]
    pub issuers: Vec<IssuerConfig>,
}

impl AuthConfig {
    /// Whether authentication is required.
    pub fn enabled(&self) -> bool {
        self.enabled.unwrap_or(!self.issuers.is_empty())
    }

    pub(crate) fn check(&self) -> Result<Vec<CheckedIssuer>, AuthError> {
        if self.enabled() && self.issuers.is_empty() {
            return Err(AuthError::NoIssuers);
        }
        let mut checked: Vec<CheckedIssuer> = Vec::with_capacity(self.issuers.len());
        for (index, config) in self.issuers.iter().enumerate() {
            let issuer = CheckedIssuer::new(index, config)?;
            if checked.iter().any(|other| other.url == issuer.url && other.header == issuer.header) {
                return Err(AuthError::Twice { index });
            }
            checked.push(issuer);
        }
        Ok(checked)
    }
}

/// The configuration of an issuer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerConfig {
    /// The URL of the issuer, which is the claim `iss` of its tokens.
    pub issuer_url: String,
    /// The URL of its keys: https, or http on this machine.
    #[serde(default)]
    pub jwk_cert_url: Option<String>,
    /// A file with its keys.
    #[serde(default)]
    pub jwk_cert_file: Option<PathBuf>,
    /// A file with the CA certificates for `jwk_cert_url`. Default: those of this machine.
    #[serde(default)]
    pub jwk_cert_ca_file: Option<PathBuf>,
    /// The header with the token. Default: Authorization.
    #[serde(default = "authorization")]
    pub header: String,
    /// The required audience of its tokens. Default: any audience.
    #[serde(default)]
    pub audience: Option<String>,
    /// The claim with the identity of the caller. Default: email.
    #[serde(default = "email")]
    pub identity_claim: String,
    /// A regular expression that the identity must match; use `^` and `$` to match the whole identity.
    #[serde(default)]
    pub identity_claim_pattern: Option<String>,
    /// The header with the identity of the caller, which takes precedence over the claim. Use it only behind a proxy that sets it.
    #[serde(default)]
    pub identity_header: Option<String>,
}

fn authorization() -> String {
    "Authorization".to_owned()
}

fn email() -> String {
    "email".to_owned()
}

/// An error of the configuration of authentication.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum AuthError {
    #[error("auth is enabled, but auth.issuers has no entries; add at least one issuer")]
    NoIssuers,
    #[error(
        "auth.issuers[{index}] has the same issuer_url and header as another issuer, and would never be used"
    )]
    Twice { index: usize },
    #[error("auth.issuers[{index}].{field} must not be empty")]
    Empty { index: usize, field: &'static str },
    #[error("auth.issuers[{index}] has both jwk_cert_url and jwk_cert_file; set only one of them")]
    BothKeys { index: usize },
    #[error("auth.issuers[{index}] has neither jwk_cert_url nor jwk_cert_file; set one of them")]
    NoKeys { index: usize },
    #[error(
        "auth.issuers[{index}].jwk_cert_url {url:?} is not an address such as https://issuer.example.com/keys"
    )]
    Url { index: usize, url: String },
    #[error(
        "auth.issuers[{index}].jwk_cert_url {url:?} uses http, so that keys could be replaced on the way; https is required, except on this machine"
    )]
    PlainUrl { index: usize, url: String },
    #[error("auth.issuers[{index}].{field} {name:?} is not a valid header name")]
    Header { index: usize, field: &'static str, name: String },
    #[error("auth.issuers[{index}].identity_claim_pattern is not a regular expression: {cause}")]
    Pattern { index: usize, cause: String },
    #[error("auth.issuers[{index}].jwk_cert_file {}: {cause}", path.display())]
    File { index: usize, path: PathBuf, cause: String },
    #[error("auth.issuers[{index}].jwk_cert_ca_file: {source}")]
    Authority { index: usize, source: ClientError },
}

/// The validated location of keys.
enum KeyLocation {
    File(PathBuf),
    Url { base: String, path: String, trusted: Option<PathBuf> },
}

/// A validated issuer whose files are not opened yet.
pub(crate) struct CheckedIssuer {
    index: usize,
    url: String,
    keys: KeyLocation,
    header: HeaderName,
    audience: Option<String>,
    identity: IdentityRule,
}

impl CheckedIssuer {
    fn new(index: usize, config: &IssuerConfig) -> Result<Self, AuthError> {
        let empty = |field| AuthError::Empty { index, field };
        if config.issuer_url.is_empty() {
            return Err(empty("issuer_url"));
        }
        if config.identity_claim.is_empty() {
            return Err(empty("identity_claim"));
        }
        if config.audience.as_ref().is_some_and(String::is_empty) {
            return Err(empty("audience"));
        }
        let header_name = |field, name: &str| {
            HeaderName::try_from(name).map_err(|_| AuthError::Header { index, field, name: name.to_owned() })
        };
        let identity_header = config.identity_header.as_deref().filter(|name| !name.is_empty());
        Ok(Self {
            index,
            url: config.issuer_url.clone(),
            keys: key_location(index, config)?,
            header: header_name("header", &config.header)?,
            audience: config.audience.clone(),
            identity: IdentityRule {
                header: identity_header.map(|name| header_name("identity_header", name)).transpose()?,
                claim: config.identity_claim.clone(),
                pattern: config
                    .identity_claim_pattern
                    .as_deref()
                    .map(|text| pattern(index, text))
                    .transpose()?,
            },
        })
    }
}

fn pattern(index: usize, text: &str) -> Result<Regex, AuthError> {
    let regex = RegexBuilder::new(text).size_limit(MAX_PATTERN_BYTES).build();
    regex.map_err(|error| AuthError::Pattern { index, cause: error.to_string() })
}

fn key_location(index: usize, config: &IssuerConfig) -> Result<KeyLocation, AuthError> {
    let url = match (&config.jwk_cert_url, &config.jwk_cert_file) {
        (Some(_), Some(_)) => return Err(AuthError::BothKeys { index }),
        (None, None) => return Err(AuthError::NoKeys { index }),
        (None, Some(file)) => return Ok(KeyLocation::File(file.clone())),
        (Some(url), None) => url,
    };
    let no_url = || AuthError::Url { index, url: url.clone() };
    let uri: Uri = url.parse().map_err(|_| no_url())?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(no_url()) };
    match scheme {
        "https" => {}
        "http" if is_loopback(authority.host()) => {}
        "http" => return Err(AuthError::PlainUrl { index, url: url.clone() }),
        _ => return Err(no_url()),
    }
    Ok(KeyLocation::Url {
        base: format!("{scheme}://{authority}"),
        path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        trusted: config.jwk_cert_ca_file.clone(),
    })
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address: Option<std::net::IpAddr> = bare.parse().ok();
    host.eq_ignore_ascii_case("localhost") || address.is_some_and(|address| address.is_loopback())
}

/// An issuer with its keys.
#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) url: String,
    pub(super) keys: Arc<KeySource>,
    pub(super) audience: Option<String>,
    pub(super) identity: IdentityRule,
    header: HeaderName,
}

impl Issuer {
    pub(super) fn open(checked: CheckedIssuer) -> Result<Self, AuthError> {
        let CheckedIssuer { index, url, keys, header, audience, identity } = checked;
        let (origin, initial) = match keys {
            KeyLocation::File(path) => match Keys::read(&path) {
                Ok(keys) => (Origin::File(path), keys),
                Err(cause) => return Err(AuthError::File { index, path, cause }),
            },
            KeyLocation::Url { base, path, trusted } => {
                let client = Client::new(&base, trusted.as_deref());
                let client = client.map_err(|source| AuthError::Authority { index, source })?;
                (Origin::Url { client: Box::new(client), path }, Keys::default())
            }
        };
        let keys = Arc::new(KeySource::new(url.clone(), origin, initial));
        Ok(Self { url, keys, audience, identity, header })
    }

    /// The token in the header of this issuer. In a header other than Authorization, the scheme may be missing, as proxies send it.
    pub(super) fn token<'h>(&self, headers: &'h HeaderMap) -> Result<Option<Token<'h>>, Rejection> {
        let value = only_value(headers, &self.header)?.map(str::trim);
        let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
        let token = match value.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(SCHEME) => token.trim_start(),
            None if self.header != header::AUTHORIZATION => value,
            _ => return Err(Rejection::NotBearer),
        };
        Token::parse(token).map(Some)
    }
}
