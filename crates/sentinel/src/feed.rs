//! Where the resources come from: the change feed of the fleet API, from a revision on.

use std::path::PathBuf;

use async_trait::async_trait;
use bellwether_fleet::client::{Client, ClientError};
use bellwether_fleet::resource::Resource;
use bellwether_fleet::store::Revision;
use futures::StreamExt as _;
use futures::stream::BoxStream;

use crate::config::Config;

/// A change of a resource.
#[derive(Clone, Debug)]
pub struct Change {
    /// The revision of the change, from which the feed can be resumed.
    pub revision: Revision,
    /// What changed.
    pub kind: ChangeKind,
    /// The resource after the change, or before its removal.
    pub resource: Resource,
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The resource exists.
    Applied,
    /// The resource was removed.
    Deleted,
}

/// Why the feed fails.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The revision is no longer available: the feed must begin anew.
    #[error("the revision is no longer available")]
    Expired,
    /// The API rejects the credentials.
    #[error("the fleet API rejects the credentials: {0}")]
    Unauthorized(String),
    /// The file with the token cannot be read.
    #[error("cannot read the token file {path}: {cause}")]
    Token {
        /// The file.
        path: String,
        /// The cause.
        cause: String,
    },
    /// The API does not respond as expected.
    #[error("{0}")]
    Failed(String),
}

impl FeedError {
    /// The value of `error_type` in metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Unauthorized(_) | Self::Token { .. } => "auth_error",
            Self::Expired | Self::Failed(_) => "fetch_error",
        }
    }
}

impl From<ClientError> for FeedError {
    fn from(error: ClientError) -> Self {
        match error.status().map(|status| status.as_u16()) {
            Some(410) => Self::Expired,
            Some(401 | 403) => Self::Unauthorized(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// The changes of the resources of one kind.
#[async_trait]
pub trait ChangeFeed: Send + Sync + 'static {
    /// All changes after a revision. From revision 0 it has all resources, and then every change.
    async fn watch(
        &self,
        since: Revision,
    ) -> Result<BoxStream<'static, Result<Change, FeedError>>, FeedError>;
}

/// The change feed of the fleet API over HTTP.
#[derive(Clone, Debug)]
pub struct HttpFeed {
    client: Client,
    path: String,
    token_path: Option<PathBuf>,
}

impl HttpFeed {
    /// The feed of the kind of a configuration.
    pub fn new(config: &Config) -> Result<Self, ClientError> {
        Ok(Self {
            client: Client::new(&config.api.base_url, None)?,
            path: format!("/{}", config.resource_type),
            token_path: config.api.auth.token_path.clone(),
        })
    }

    /// The client with the current token: a token in a file is replaced before it expires.
    async fn authenticated(&self) -> Result<Client, FeedError> {
        let Some(path) = &self.token_path else { return Ok(self.client.clone()) };
        let token = tokio::fs::read_to_string(path).await;
        let token = token.map_err(|error| FeedError::Token {
            path: path.display().to_string(),
            cause: error.to_string(),
        })?;
        Ok(self.client.clone().bearer(&token))
    }
}

#[async_trait]
impl ChangeFeed for HttpFeed {
    async fn watch(
        &self,
        since: Revision,
    ) -> Result<BoxStream<'static, Result<Change, FeedError>>, FeedError> {
        let events = self.authenticated().await?.watch(&self.path, since).await?;
        let changes = events.map(|event| {
            let event = event?;
            let kind = if event.event == "DELETED" { ChangeKind::Deleted } else { ChangeKind::Applied };
            Ok(Change { revision: event.revision, kind, resource: event.resource })
        });
        Ok(changes.boxed())
    }
}
