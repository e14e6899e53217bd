//! The identity of a caller that is recorded with its changes: from a header that a proxy sets, or from a claim of the token.

use axum::http::{HeaderMap, HeaderName};
use regex::Regex;

use super::only_value;
use super::token::{Claims, Rejection};

/// The maximum number of characters of an identity.
pub(crate) const LONGEST: usize = 256;

/// Where the identity of a caller comes from, and which identities an issuer may assert.
#[derive(Debug)]
pub(crate) struct IdentityRule {
    pub(super) header: Option<HeaderName>,
    pub(super) claim: String,
    pub(super) pattern: Option<Regex>,
}

impl IdentityRule {
    /// The identity of a caller, if it has one. An identity that violates the rule is rejected even if none is required, because the
    /// rule also limits who may use the API.
    pub(crate) fn identity(&self, headers: &HeaderMap, claims: &Claims) -> Result<Option<String>, Rejection> {
        let from_header = match &self.header {
            None => None,
            Some(name) => only_value(headers, name)?.filter(|value| !value.trim().is_empty()),
        };
        match from_header.or_else(|| claims.text(&self.claim)) {
            None => Ok(None),
            Some(name) => self.check(name),
        }
    }

    fn check(&self, name: &str) -> Result<Option<String>, Rejection> {
        let name = name.trim();
        if name.is_empty() {
            return Ok(None);
        }
        if name.chars().count() > LONGEST {
            return Err(Rejection::LongIdentity);
        }
        if name.chars().any(char::is_control) {
            return Err(Rejection::InvalidIdentity);
        }
        if self.pattern.as_ref().is_some_and(|pattern| !pattern.is_match(name)) {
            return Err(Rejection::ForbiddenIdentity);
        }
        Ok(Some(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_trimmed_limited_and_matches_its_pattern() {
        let pattern = Some(Regex::new("^[^!]*$").unwrap());
        let rule = IdentityRule { header: None, claim: "email".to_owned(), pattern };
        let longest = "ä".repeat(LONGEST);
        let rows = [
            (" ada@example.com\t", Ok(Some("ada@example.com".to_owned()))),
            ("", Ok(None)),
            ("  ", Ok(None)),
            (longest.as_str(), Ok(Some(longest.clone()))),
            (&format!("{longest}x"), Err(Rejection::LongIdentity)),
            ("a\nb", Err(Rejection::InvalidIdentity)),
            ("a\u{85}b", Err(Rejection::InvalidIdentity)),
            ("ada!", Err(Rejection::ForbiddenIdentity)),
        ];
        for (name, outcome) in rows {
            assert_eq!(rule.check(name), outcome, "{name:?}");
        }
    }
}
