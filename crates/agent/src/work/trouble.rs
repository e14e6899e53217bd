//! How things go wrong: for one object, which its work tells of; or for a whole visit, which is then made again.

use crate::in_words;

/// Why one object is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) words: String,
    pub(crate) hope: Hope,
}

/// What may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hope {
    /// A change of the object or of its work: to try again would only fail again.
    Change,
    /// Time.
    Retry,
    /// Very little time: the server is busy or starts. Worth telling only when it lasts.
    Moment,
}

impl Trouble {
    pub(crate) fn lasting(words: impl Into<String>) -> Self {
        Self { words: words.into(), hope: Hope::Retry }
    }
}

/// Why a visit came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The hub did not answer as it should.
    #[error("the hub, {doing}: {}", in_words(.source))]
    Hub { doing: &'static str, source: Box<kube::Error> },
    /// The cluster did not answer as it should.
    #[error("{doing}: {}", in_words(.source))]
    Spoke { doing: String, source: Box<kube::Error> },
    /// The cluster is busy or starts.
    #[error("{0}")]
    Moment(String),
    /// Others write as fast as we do.
    #[error("others change it as fast as it is looked at")]
    Contended,
}

impl Failure {
    pub(crate) fn hub(doing: &'static str, source: kube::Error) -> Self {
        Self::Hub { doing, source: Box::new(source) }
    }

    pub(crate) fn spoke(doing: String, source: kube::Error) -> Self {
        Self::Spoke { doing, source: Box::new(source) }
    }

    /// The words of the cluster, where it refuses what was asked rather than fails.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self {
            Self::Spoke { doing, source } => match source.as_ref() {
                kube::Error::Api(status) if matches!(status.code, 400 | 403 | 404 | 413 | 422) => {
                    Some(format!("{doing}: {}", in_words(source)))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The kind of failure in a word, for metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Hub { .. } => "hub",
            Self::Spoke { .. } => "spoke",
            Self::Moment(_) => "moment",
            Self::Contended => "contended",
        }
    }
}

/// What an answer means for one object; one that is no answer ends the visit, as the next would have none either.
pub(crate) fn trouble(doing: &str, error: kube::Error) -> Result<Trouble, Failure> {
    let words = in_words(&error);
    match error {
        kube::Error::Api(status) => {
            let hope = match status.code {
                401 | 429 | 503 | 504 => Hope::Moment,
                _ => Hope::Retry,
            };
            Ok(Trouble { words, hope })
        }
        error => Err(Failure::spoke(doing.to_owned(), error)),
    }
}
