//! Types for the names in conditions: [`ConditionType`] and [`Reason`].
//!
//! Names in our own code are validated: constants by the compiler, other text by [`FromStr`]. Names in objects of the API server
//! are accepted without validation ([`ConditionType::as_read`], `Deserialize`), because conditions of other writers must be
//! written back unchanged.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A name that the Kubernetes API would reject.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {what}: {rule}")]
pub struct InvalidName {
    /// What the text should be: `condition type` or `reason`.
    pub what: &'static str,
    /// The invalid text.
    pub text: String,
    /// The rule that the text violates.
    pub rule: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $valid:path, $rule:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Cow<'static, str>);

        impl $name {
            /// Creates a name from a literal. In a `const`, an invalid name is a compile error.
            ///
            /// # Panics
            /// Outside a `const`, if the name is invalid. Use [`FromStr`] for text from other sources.
            pub const fn constant(name: &'static str) -> Self {
                assert!($valid(name.as_bytes()), "not a valid name of a condition type or reason");
                Self(Cow::Borrowed(name))
            }

            /// Creates a name from an object of another writer, without validation.
            pub fn as_read(text: impl Into<String>) -> Self {
                Self(Cow::Owned(text.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                if $valid(text.as_bytes()) {
                    Ok(Self::as_read(text))
                } else {
                    Err(InvalidName { what: $what, text: text.to_owned(), rule: $rule })
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

name!(
    /// The type of a condition, such as `Available`, or with a prefix, `addons.managed.openshift.io/ReadyToBeDeleted`.
    ///
    /// ```
    /// use bellwether_conditions::ConditionType;
    ///
    /// const AVAILABLE: ConditionType = ConditionType::constant("Available");
    /// assert_eq!("Available".parse(), Ok(AVAILABLE));
    /// assert!("not a type".parse::<ConditionType>().is_err());
    /// ```
    ConditionType,
    "condition type",
    is_condition_type,
    "letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, \
     optionally after a DNS name and '/', at most 316 bytes"
);

name!(
    /// The reason of a condition: one CamelCase word.
    ///
    /// ```
    /// use bellwether_conditions::Reason;
    ///
    /// const TIMEOUT: Reason = Reason::constant("HeartbeatTimeout");
    /// assert_eq!("HeartbeatTimeout".parse(), Ok(TIMEOUT));
    /// assert!("".parse::<Reason>().is_err());
    /// ```
    ///
    /// ```compile_fail
    /// # use bellwether_conditions::Reason;
    /// const BAD: Reason = Reason::constant("not one word");
    /// ```
    Reason,
    "reason",
    is_reason,
    "letters, digits, '_', ',' and ':', beginning with a letter and ending with a letter, digit or '_', \
     1 to 1024 bytes"
);

// The validation patterns of metav1.Condition as const functions. They use slice patterns, because indexing could panic.

const fn is_condition_type(text: &[u8]) -> bool {
    if text.len() > 316 {
        return false;
    }
    let mut before_slash = 0;
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        if *byte == b'/' {
            return match text.split_at_checked(before_slash) {
                Some((prefix, _)) => is_dns_name(prefix) && is_plain_name(tail),
                None => false,
            };
        }
        before_slash += 1;
        rest = tail;
    }
    is_plain_name(text)
}

const fn is_plain_name(text: &[u8]) -> bool {
    let ([first, ..], [.., last]) = (text, text) else { return false };
    if !first.is_ascii_alphanumeric() || !last.is_ascii_alphanumeric() {
        return false;
    }
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        if !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'_' | b'.') {
            return false;
        }
        rest = tail;
    }
    true
}

const fn is_dns_name(text: &[u8]) -> bool {
    let mut previous = b'.';
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        let is_allowed = match byte {
            b'a'..=b'z' | b'0'..=b'9' => true,
            b'-' => previous != b'.',
            b'.' => previous != b'.' && previous != b'-',
            _ => false,
        };
        if !is_allowed {
            return false;
        }
        previous = *byte;
        rest = tail;
    }
    previous != b'.' && previous != b'-'
}

const fn is_reason(text: &[u8]) -> bool {
    let ([first, ..], [.., last]) = (text, text) else { return false };
    if text.len() > 1024 || !first.is_ascii_alphabetic() || matches!(last, b',' | b':') {
        return false;
    }
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        if !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b',' | b':') {
            return false;
        }
        rest = tail;
    }
    true
}
