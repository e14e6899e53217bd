//! Why an evaluation has no value. The messages are those of Kubernetes' engine.

use std::fmt;

/// Why an evaluation ended without a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A map has no such key, or an object no such field.
    NoSuchKey(String),
    /// No function or operator takes values of these types.
    NoSuchOverload,
    /// A list has no item at this index.
    IndexOutOfBounds(i64),
    /// The evaluation cost more than its limit.
    CostLimitExceeded,
    /// Any other error, as a message.
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchKey(key) => write!(f, "no such key: {key}"),
            Self::NoSuchOverload => f.write_str("no such overload"),
            Self::IndexOutOfBounds(index) => write!(f, "index out of bounds: {index}"),
            Self::CostLimitExceeded => f.write_str("operation cancelled: actual cost limit exceeded"),
            Self::Other(message) => f.write_str(message),
        }
    }
}
