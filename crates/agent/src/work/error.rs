//! Errors of the work agent: an error of one object, which is reported in the status of its ManifestWork, and an error
//! that ends a whole reconcile, which is logged and retried.

use crate::describe_error;

/// Why one object could not be read, written or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectError {
    pub(crate) message: String,
    pub(crate) retry: RetryHint,
}

/// When another attempt can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryHint {
    /// After a change of the object or of its ManifestWork; without one, a retry fails in the same way.
    AfterChange,
    /// After some time, so it is retried with backoff.
    Backoff,
    /// Soon, because the API server is overloaded or starting. It is reported to the hub only if it lasts.
    Soon,
}

impl ObjectError {
    /// An error that is retried with backoff.
    pub(crate) fn with_backoff(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: RetryHint::Backoff }
    }

    /// An error that only a change of the object or of its ManifestWork can resolve.
    pub(crate) fn until_change(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: RetryHint::AfterChange }
    }

    /// Classifies an error of the cluster's API server.
    ///
    /// An error without a response of the server, such as a refused connection, is a [`WorkError`] that ends the
    /// reconcile, because requests for the other objects would fail in the same way.
    pub(crate) fn from_request(doing: &str, error: kube::Error) -> Result<Self, WorkError> {
        let message = describe_error(&error);
        match error {
            kube::Error::Api(status) => {
                let retry = match status.code {
                    401 | 429 | 503 | 504 => RetryHint::Soon,
                    _ => RetryHint::Backoff,
                };
                Ok(Self { message, retry })
            }
            error => Err(WorkError::spoke(doing.to_owned(), error)),
        }
    }
}

/// Why a reconcile of a ManifestWork ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    /// A request to the hub failed.
    #[error("{doing} on the hub failed: {}", describe_error(.source))]
    Hub { doing: &'static str, source: Box<kube::Error> },
    /// A request to the cluster failed.
    #[error("{doing} failed: {}", describe_error(.source))]
    Spoke { doing: String, source: Box<kube::Error> },
    /// The API server of the cluster is overloaded or starting.
    #[error("the API server of the cluster is not available: {0}")]
    SpokeUnavailable(String),
    /// Other clients changed the ManifestWork during every attempt to write its status.
    #[error(
        "the status of the ManifestWork was not written: other clients changed the object during {0} attempts"
    )]
    Contended(usize),
}

impl WorkError {
    pub(crate) fn hub(doing: &'static str, source: kube::Error) -> Self {
        Self::Hub { doing, source: Box::new(source) }
    }

    pub(crate) fn spoke(doing: String, source: kube::Error) -> Self {
        Self::Spoke { doing, source: Box::new(source) }
    }

    /// The message to report to the hub if the cluster rejected the request; nothing for other failures, which are only
    /// retried.
    pub(crate) fn rejection_message(&self) -> Option<String> {
        match self {
            Self::Spoke { source, .. } => match source.as_ref() {
                kube::Error::Api(status) if matches!(status.code, 400 | 403 | 404 | 413 | 422) => {
                    Some(self.to_string())
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The value of the label `error` in metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Hub { .. } => "hub",
            Self::Spoke { .. } => "spoke",
            Self::SpokeUnavailable(_) => "spoke-unavailable",
            Self::Contended(_) => "contended",
        }
    }
}
