//! The errors of the public surface: what is wrong with an expression, and why an evaluation has no value.

use std::fmt;

use crate::program::Limits;

/// A place in the text of an expression. Lines and columns begin at 1; a column is a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// What sort of error an expression has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileErrorKind {
    /// The text does not parse.
    Syntax,
    /// The text is longer than the limit.
    TooLong,
    /// The expression nests deeper than the limit.
    TooDeep,
    /// Loops nest deeper than the limit.
    LoopsTooDeep,
    /// A variable or function is not declared.
    Undeclared {
        /// The undeclared name.
        name: String,
    },
    /// The types do not fit.
    Type,
    /// The estimated cost exceeds the cost limit even on the smallest values.
    CostLimitExceeded {
        /// The estimated cost.
        estimate: u64,
        /// The cost limit.
        limit: u64,
    },
}

/// Why an expression does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    pub(crate) kind: CompileErrorKind,
    pub(crate) message: String,
    pub(crate) position: Option<Position>,
    /// The line of the expression that the position is in.
    pub(crate) line: String,
}

impl CompileError {
    pub(crate) fn new(kind: CompileErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), position: None, line: String::new() }
    }

    pub(crate) fn too_long(limits: &Limits) -> Self {
        let message = format!("the expression has more than {} bytes", limits.max_length);
        Self::new(CompileErrorKind::TooLong, message)
    }

    pub(crate) fn at(mut self, text: &str, position: Option<Position>) -> Self {
        if let Some(position) = position {
            self.line = text.lines().nth(position.line.saturating_sub(1)).unwrap_or_default().to_owned();
            self.position = Some(position);
        }
        self
    }

    /// What sort of error it is.
    pub fn kind(&self) -> &CompileErrorKind {
        &self.kind
    }

    /// What is wrong, without the position.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where in the text it is, if it is at one place.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// The error as Kubernetes reports it: `ERROR: <input>:1:6: …`, and the line with a mark under the position.
    pub fn kubernetes_report(&self) -> String {
        let Some(Position { line, column }) = self.position else {
            return format!("ERROR: <input>: {}", self.message);
        };
        let dots = ".".repeat(column.saturating_sub(1));
        format!("ERROR: <input>:{line}:{column}: {}\n | {}\n | {dots}^", self.message, self.line)
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "{position}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for CompileError {}

/// Why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The evaluation was cut off, because it cost more than its limit.
    #[error("the cost limit of {limit} was exceeded")]
    CostLimitExceeded {
        /// The cost limit.
        limit: u64,
    },
    /// A variable was declared as a timestamp, and its value is none.
    #[error("variable {variable:?} is not a timestamp in RFC 3339")]
    InvalidTimestamp {
        /// The variable.
        variable: String,
    },
    /// A part of the expression failed.
    #[error("{}{message}", .position.map(|position| format!("{position}: ")).unwrap_or_default())]
    Failed {
        /// What failed.
        message: String,
        /// Where in the text.
        position: Option<Position>,
    },
}
