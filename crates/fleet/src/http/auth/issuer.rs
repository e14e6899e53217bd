//! One issuer of tokens: what the configuration says of it, checked once, and what is then asked of it.

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

/// Before the token in the header Authorization.
const SCHEME: &str = "Bearer";
/// How large a pattern may become.
const LARGEST_PATTERN: usize = 1024 * 1024;

/// Who has to say who they are, as the configuration has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthConfig {
    /// Whether callers have to. They do where there are issuers, unless this says that they do not.
    #[serde(default)]
    pub enabled: Option<bool>,
    /// Whose tokens are believed.
    #[serde(default)]
    pub issuers: Vec<IssuerConfig>,
}

impl AuthConfig {
    /// Whether callers have to say who they are.
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

/// An issuer, as the configuration has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerConfig {
    /// Its address, which is the claim `iss` of its tokens.
    pub issuer_url: String,
    /// Where its keys are; https, or http on this machine.
    #[serde(default)]
    pub jwk_cert_url: Option<String>,
    /// Its keys, in a file.
    #[serde(default)]
    pub jwk_cert_file: Option<PathBuf>,
    /// Whom to trust when its keys are read; whom this machine trusts, unless said.
    #[serde(default)]
    pub jwk_cert_ca_file: Option<PathBuf>,
    /// The header with the token.
    #[serde(default = "authorization")]
    pub header: String,
    /// For whom its tokens have to be; for anybody, unless said.
    #[serde(default)]
    pub audience: Option<String>,
    /// The claim with the name of the caller.
    #[serde(default = "email")]
    pub identity_claim: String,
    /// A regular expression that the name of a caller has to match, anywhere in it unless it says otherwise by `^` and `$`.
    #[serde(default)]
    pub identity_claim_pattern: Option<String>,
    /// The header with the name of the caller, which counts before the claim. Only for where a proxy sets it.
    #[serde(default)]
    pub identity_header: Option<String>,
}

fn authorization() -> String {
    "Authorization".to_owned()
}

fn email() -> String {
    "email".to_owned()
}

/// Why issuers make no sense.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum AuthError {
    #[error("auth is enabled, and auth.issuers has nobody whose tokens would be believed")]
    NoIssuers,
    #[error("auth.issuers[{index}] has the issuer_url and the header of another, so it would never be asked")]
    Twice { index: usize },
    #[error("auth.issuers[{index}].{field} must not be empty")]
    Empty { index: usize, field: &'static str },
    #[error("auth.issuers[{index}] has both jwk_cert_url and jwk_cert_file; give one of them")]
    BothKeys { index: usize },
    #[error("auth.issuers[{index}] has neither jwk_cert_url nor jwk_cert_file; give one of them")]
    NoKeys { index: usize },
    #[error(
        "auth.issuers[{index}].jwk_cert_url {url:?} is not an address such as https://issuer.example.com/keys"
    )]
    Url { index: usize, url: String },
    #[error(
        "auth.issuers[{index}].jwk_cert_url {url:?} is http, by which anybody on the way could give keys; https is required but on this machine"
    )]
    PlainUrl { index: usize, url: String },
    #[error("auth.issuers[{index}].{field} {name:?} is not the name of a header")]
    Header { index: usize, field: &'static str, name: String },
    #[error("auth.issuers[{index}].identity_claim_pattern is not a regular expression: {words}")]
    Pattern { index: usize, words: String },
    #[error("auth.issuers[{index}].jwk_cert_file {}: {words}", path.display())]
    File { index: usize, path: PathBuf, words: String },
    #[error("auth.issuers[{index}].jwk_cert_ca_file: {source}")]
    Authority { index: usize, source: ClientError },
}

/// Where keys are, checked.
enum Place {
    File(PathBuf),
    Url { base: String, path: String, trusted: Option<PathBuf> },
}

/// An issuer that makes sense, of which no file was opened yet.
pub(crate) struct CheckedIssuer {
    index: usize,
    url: String,
    place: Place,
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
            place: place(index, config)?,
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
    let regex = RegexBuilder::new(text).size_limit(LARGEST_PATTERN).build();
    regex.map_err(|error| AuthError::Pattern { index, words: error.to_string() })
}

fn place(index: usize, config: &IssuerConfig) -> Result<Place, AuthError> {
    let url = match (&config.jwk_cert_url, &config.jwk_cert_file) {
        (Some(_), Some(_)) => return Err(AuthError::BothKeys { index }),
        (None, None) => return Err(AuthError::NoKeys { index }),
        (None, Some(file)) => return Ok(Place::File(file.clone())),
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
    Ok(Place::Url {
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

/// An issuer, to be asked.
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
        let CheckedIssuer { index, url, place, header, audience, identity } = checked;
        let (origin, known) = match place {
            Place::File(path) => match Keys::read(&path) {
                Ok(keys) => (Origin::File(path), keys),
                Err(words) => return Err(AuthError::File { index, path, words }),
            },
            Place::Url { base, path, trusted } => {
                let client = Client::new(&base, trusted.as_deref());
                let client = client.map_err(|source| AuthError::Authority { index, source })?;
                (Origin::Url { client: Box::new(client), path }, Keys::default())
            }
        };
        let keys = Arc::new(KeySource::new(url.clone(), origin, known));
        Ok(Self { url, keys, audience, identity, header })
    }

    /// The token in the header of this issuer. A header of its own may have the token alone, as proxies send it.
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
