//! The error of the reconcilers of clusters, sets and bindings.

use bellwether_runtime::ReconcileError;

/// An error while reconciling a cluster, a set or a binding.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A request to the API server failed.
    #[error("{doing}: {source}")]
    Api {
        /// The operation that failed.
        doing: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The reconcile took too long.
    #[error("the API server did not respond in time")]
    Timeout,
    /// The API server rejected the namespace of a cluster; its condition reports that too.
    #[error("the namespace cannot be created: {0}")]
    Rejected(String),
    /// Every attempt to write the object ended with a conflict.
    #[error("the object was changed by others during every attempt to write it")]
    TooManyConflicts,
}

impl ClusterError {
    pub(super) fn api(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Api { doing, source: Box::new(source) }
    }

    /// Whether the API server was unavailable, so that agents may have failed to renew their Leases too.
    pub(super) fn is_server_error(&self) -> bool {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => status.code >= 500 || status.code == 429,
                _ => true,
            },
            Self::Timeout => true,
            Self::Rejected(_) | Self::TooManyConflicts => false,
        }
    }
}

impl ReconcileError for ClusterError {
    fn label(&self) -> &'static str {
        match self {
            Self::Api { .. } => "api",
            Self::Timeout => "late",
            Self::Rejected(_) => "refused",
            Self::TooManyConflicts => "unsettled",
        }
    }
}
