//! What can go wrong with a beat, in words that say what to do about it.

use std::fmt;
use std::time::Duration;

use crate::vocabulary::GROUP;

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Reading the instance.
    Read,
    /// Writing its status.
    Write,
}

impl Attempt {
    fn right(self) -> &'static str {
        match self {
            Self::Read => "get addoninstances",
            Self::Write => "update addoninstances/status",
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Read => "read",
            Self::Write => "write the status of",
        })
    }
}

/// Why a beat was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such instance.
    #[error(
        "there is no AddonInstance {instance}: is the Addon installed, and is this its namespace and the instance's name?"
    )]
    Missing {
        /// Namespace and name.
        instance: String,
    },
    /// The cluster does not know the kind.
    #[error(
        "cannot {attempt} AddonInstance {instance}: the cluster does not serve addoninstances.{GROUP}; \
         `bellwether crds --install` installs its definition"
    )]
    NotServed {
        /// What was tried.
        attempt: Attempt,
        /// Namespace and name.
        instance: String,
    },
    /// The right is missing.
    #[error(
        "not allowed to {attempt} AddonInstance {instance}: grant `{right}` ({GROUP}) in this namespace: {message}",
        right = attempt.right()
    )]
    Forbidden {
        /// What was tried.
        attempt: Attempt,
        /// Namespace and name.
        instance: String,
        /// The server's words.
        message: String,
    },
    /// Others wrote each time between reading and writing.
    #[error(
        "cannot write the status of AddonInstance {instance}: others wrote in between, {tries} times in a row"
    )]
    Contended {
        /// Namespace and name.
        instance: String,
        /// How often it was tried.
        tries: u32,
    },
    /// The server refused, for another reason.
    #[error("cannot {attempt} AddonInstance {instance}: {message}")]
    Refused {
        /// What was tried.
        attempt: Attempt,
        /// Namespace and name.
        instance: String,
        /// The code of the answer.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// There was no answer in time.
    #[error("cannot {attempt} AddonInstance {instance}: no answer within {limit:?}; is the API server well?")]
    Late {
        /// What was tried.
        attempt: Attempt,
        /// Namespace and name.
        instance: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// There was no answer that could be read.
    #[error("cannot {attempt} AddonInstance {instance}: no answer from the API server: {cause}")]
    Unanswered {
        /// What was tried.
        attempt: Attempt,
        /// Namespace and name.
        instance: String,
        /// What the connection says.
        cause: String,
    },
    /// The reporter was stopped before.
    #[error("the reporter of AddonInstance {instance} has stopped: start another one")]
    Stopped {
        /// Namespace and name.
        instance: String,
    },
}

impl Error {
    /// What a failed request means to whoever sends beats.
    pub(super) fn of_request(attempt: Attempt, instance: String, name: &str, error: kube::Error) -> Self {
        let status = match error {
            kube::Error::Api(status) => status,
            error => return Self::Unanswered { attempt, instance, cause: with_causes(&error) },
        };
        let about_us = status.details.as_ref().is_some_and(|details| details.name == name);
        match status.code {
            404 if about_us => Self::Missing { instance },
            404 => Self::NotServed { attempt, instance },
            403 => Self::Forbidden { attempt, instance, message: status.message.clone() },
            code => Self::Refused { attempt, instance, code, message: status.message.clone() },
        }
    }
}

/// An error and its causes in one line: the outer ones say little about a connection.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !words.contains(&said) {
            words = format!("{words}: {said}");
        }
        next = cause.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use kube::core::response::StatusDetails;

    use super::*;

    fn refused(code: u16, name: &str) -> kube::Error {
        let details = StatusDetails {
            name: name.into(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        };
        let mut status = Status::failure("the server's words", "").with_code(code);
        status.details = (!name.is_empty()).then_some(details);
        kube::Error::Api(status.boxed())
    }

    #[test]
    fn an_error_says_what_was_tried_on_what_and_what_to_do() {
        let rows: [(&str, Attempt, kube::Error, &[&str]); 5] = [
            (
                "an instance that is not there",
                Attempt::Read,
                refused(404, "addon-instance"),
                &["is the Addon installed"],
            ),
            ("a kind that is not there", Attempt::Read, refused(404, ""), &["crds --install", "read"]),
            ("no right to read", Attempt::Read, refused(403, "addon-instance"), &["`get addoninstances`"]),
            (
                "no right to write",
                Attempt::Write,
                refused(403, "x"),
                &["`update addoninstances/status`", "the server's words"],
            ),
            (
                "anything else",
                Attempt::Write,
                refused(422, "addon-instance"),
                &["write the status of", "the server's words"],
            ),
        ];
        for (sentence, attempt, error, wanted) in rows {
            let words =
                Error::of_request(attempt, "ns/addon-instance".into(), "addon-instance", error).to_string();
            assert!(words.contains("ns/addon-instance"), "{sentence}: {words}");
            for part in wanted {
                assert!(words.contains(part), "{sentence}: {words}");
            }
        }
    }
}
