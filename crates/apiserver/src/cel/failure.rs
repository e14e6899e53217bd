//! Why an expression has no value, in the words of Kubernetes' engine.

use std::fmt;

/// Why an evaluation ended without a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    NoSuchKey(String),
    NoSuchOverload,
    IndexOutOfBounds(i64),
    /// It took more than it may.
    TooExpensive,
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchKey(key) => write!(f, "no such key: {key}"),
            Self::NoSuchOverload => f.write_str("no such overload"),
            Self::IndexOutOfBounds(at) => write!(f, "index out of bounds: {at}"),
            Self::TooExpensive => f.write_str("operation cancelled: actual cost limit exceeded"),
            Self::Other(words) => f.write_str(words),
        }
    }
}
