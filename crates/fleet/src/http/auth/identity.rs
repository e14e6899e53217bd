//! The name by which the changes of a caller are kept: that of a header which a proxy sets, or that of a claim.

use axum::http::{HeaderMap, HeaderName};
use regex::Regex;

use super::only_value;
use super::token::{Claims, Rejection};

/// How many characters a name has at most.
pub(crate) const LONGEST: usize = 256;

/// Where an issuer has the names of callers, and which it may give.
#[derive(Debug)]
pub(crate) struct IdentityRule {
    pub(super) header: Option<HeaderName>,
    pub(super) claim: String,
    pub(super) pattern: Option<Regex>,
}

impl IdentityRule {
    /// The name of a caller, if it has one. One that does not fit is refused also where none is needed: what limits names
    /// is there to limit who may ask.
    pub(crate) fn identity(&self, headers: &HeaderMap, claims: &Claims) -> Result<Option<String>, Rejection> {
        let told = match &self.header {
            None => None,
            Some(name) => only_value(headers, name)?.filter(|told| !told.trim().is_empty()),
        };
        match told.or_else(|| claims.text(&self.claim)) {
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
            return Err(Rejection::StrangeIdentity);
        }
        if self.pattern.as_ref().is_some_and(|pattern| !pattern.is_match(name)) {
            return Err(Rejection::UnfitIdentity);
        }
        Ok(Some(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_trimmed_bounded_and_fits_its_pattern() {
        let pattern = Some(Regex::new("^[^!]*$").unwrap());
        let rule = IdentityRule { header: None, claim: "email".to_owned(), pattern };
        let longest = "ä".repeat(LONGEST);
        let rows = [
            (" ada@example.com\t", Ok(Some("ada@example.com".to_owned()))),
            ("", Ok(None)),
            ("  ", Ok(None)),
            (longest.as_str(), Ok(Some(longest.clone()))),
            (&format!("{longest}x"), Err(Rejection::LongIdentity)),
            ("a\nb", Err(Rejection::StrangeIdentity)),
            ("a\u{85}b", Err(Rejection::StrangeIdentity)),
            ("ada!", Err(Rejection::UnfitIdentity)),
        ];
        for (name, outcome) in rows {
            assert_eq!(rule.check(name), outcome, "{name:?}");
        }
    }
}
