//! Why a cluster, a set or a binding could not be brought to where it should be.

use bellwether_runtime::ReconcileError;

use super::mirror::Unwatched;

/// Why a cluster, a set or a binding could not be brought to where it should be.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The API server did not answer as it should.
    #[error("{doing}: {source}")]
    Api {
        /// What was tried.
        doing: String,
        /// How it failed.
        source: Box<kube::Error>,
    },
    /// The API server did not answer at all.
    #[error("there was no answer in time")]
    Late,
    /// The namespace of a cluster cannot be made; its condition says so.
    #[error("the namespace cannot be made: {0}")]
    Refused(String),
    /// What it depends on is not known.
    #[error("{0}")]
    Unwatched(String),
    /// Somebody changes what is written, as fast as it is written.
    #[error("there is no end to what is to be done")]
    Unsettled,
}

impl ClusterError {
    pub(super) fn api(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Api { doing, source: Box::new(source) }
    }

    /// Whether it says more of the API server than of the object: others may have failed to reach it too.
    pub(super) fn is_of_the_server(&self) -> bool {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => status.code >= 500 || status.code == 429,
                _ => true,
            },
            Self::Late => true,
            Self::Refused(_) | Self::Unwatched(_) | Self::Unsettled => false,
        }
    }
}

impl ReconcileError for ClusterError {
    fn label(&self) -> &'static str {
        match self {
            Self::Api { .. } => "api",
            Self::Late => "late",
            Self::Refused(_) => "refused",
            Self::Unwatched(_) => "unwatched",
            Self::Unsettled => "unsettled",
        }
    }
}

impl From<Unwatched> for ClusterError {
    fn from(error: Unwatched) -> Self {
        Self::Unwatched(error.to_string())
    }
}
