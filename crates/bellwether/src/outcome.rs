//! How a command ends other than well, as scripts see it: 1 is an error, 2 a misuse, and these have codes of their own.

/// A command that did not do what it was asked, though nothing broke.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotDone {
    /// What was waited for did not happen in time.
    #[error("{0}")]
    Late(String),
    /// It would have done harm, or something forbids it.
    #[error("{0}")]
    Refused(String),
}

impl NotDone {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Late(_) => 3,
            Self::Refused(_) => 4,
        }
    }
}
