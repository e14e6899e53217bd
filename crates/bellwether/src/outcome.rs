//! Commands that end without an error but have not done what was requested. They have exit codes of their own; other errors
//! end with 1, and invalid arguments with 2.

/// Why a command has not done what was requested.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfinished {
    /// The command waited for something that did not happen in time.
    #[error("{0}")]
    TimedOut(String),
    /// The command was rejected by a rule, or would have done harm.
    #[error("{0}")]
    Rejected(String),
}

impl Unfinished {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::TimedOut(_) => 3,
            Self::Rejected(_) => 4,
        }
    }
}
