//! Errors of sending a heartbeat. Each message names the object, the cause, and what to do next.

use std::fmt;
use std::time::Duration;

use crate::vocabulary::GROUP;

/// The request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reading the instance.
    Read,
    /// Writing its status.
    Write,
}

impl Operation {
    fn required_permission(self) -> &'static str {
        match self {
            Self::Read => "get addoninstances",
            Self::Write => "update addoninstances/status",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Read => "read",
            Self::Write => "write the status of",
        })
    }
}

/// Why a heartbeat was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The instance does not exist.
    #[error(
        "AddonInstance {instance} does not exist: check that the Addon is installed, and that namespace and name are correct"
    )]
    NotFound {
        /// Namespace and name.
        instance: String,
    },
    /// The CRD is not installed.
    #[error(
        "cannot {operation} AddonInstance {instance}: the cluster does not serve addoninstances.{GROUP}; \
         install the CRD with `bellwether crds --install`"
    )]
    NotServed {
        /// The request that failed.
        operation: Operation,
        /// Namespace and name.
        instance: String,
    },
    /// A permission is missing.
    #[error(
        "not allowed to {operation} AddonInstance {instance}: grant `{permission}` ({GROUP}) in its namespace: {message}",
        permission = operation.required_permission()
    )]
    Forbidden {
        /// The request that failed.
        operation: Operation,
        /// Namespace and name.
        instance: String,
        /// The message of the API server.
        message: String,
    },
    /// Every write conflicted with another writer.
    #[error(
        "cannot write the status of AddonInstance {instance}: {attempts} attempts in a row conflicted with other writers"
    )]
    Conflict {
        /// Namespace and name.
        instance: String,
        /// The number of attempts.
        attempts: u32,
    },
    /// The API server rejected the request for another reason.
    #[error("cannot {operation} AddonInstance {instance}: {message}")]
    Rejected {
        /// The request that failed.
        operation: Operation,
        /// Namespace and name.
        instance: String,
        /// The HTTP status code.
        code: u16,
        /// The message of the API server.
        message: String,
    },
    /// The API server did not respond in time.
    #[error(
        "cannot {operation} AddonInstance {instance}: no response within {timeout:?}; check that the API server is healthy"
    )]
    TimedOut {
        /// The request that failed.
        operation: Operation,
        /// Namespace and name.
        instance: String,
        /// The timeout of the request.
        timeout: Duration,
    },
    /// There was no valid response: the connection failed, or the response could not be parsed.
    #[error("cannot {operation} AddonInstance {instance}: no valid response from the API server: {cause}")]
    NoResponse {
        /// The request that failed.
        operation: Operation,
        /// Namespace and name.
        instance: String,
        /// The error and its causes.
        cause: String,
    },
    /// The reporter has stopped.
    #[error("the reporter of AddonInstance {instance} has stopped; start a new one")]
    Stopped {
        /// Namespace and name.
        instance: String,
    },
}

impl Error {
    /// Converts the error of a request for the instance `name`.
    pub(super) fn from_request(
        operation: Operation,
        instance: String,
        name: &str,
        error: kube::Error,
    ) -> Self {
        let status = match error {
            kube::Error::Api(status) => status,
            error => return Self::NoResponse { operation, instance, cause: format_causes(&error) },
        };
        let names_instance = status.details.as_ref().is_some_and(|details| details.name == name);
        match status.code {
            404 if names_instance => Self::NotFound { instance },
            404 => Self::NotServed { operation, instance },
            403 => Self::Forbidden { operation, instance, message: status.message.clone() },
            code => Self::Rejected { operation, instance, code, message: status.message.clone() },
        }
    }
}

/// The error and its causes in one line. The outermost error alone does not say why a connection failed.
fn format_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use kube::core::response::StatusDetails;

    use super::*;

    fn rejected(code: u16, name: &str) -> kube::Error {
        let details = StatusDetails {
            name: name.into(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        };
        let mut status = Status::failure("the server's message", "").with_code(code);
        status.details = (!name.is_empty()).then_some(details);
        kube::Error::Api(status.boxed())
    }

    #[test]
    fn message_names_operation_object_and_remedy() {
        let rows: [(&str, Operation, kube::Error, &[&str]); 5] = [
            (
                "missing instance",
                Operation::Read,
                rejected(404, "addon-instance"),
                &["does not exist", "check that the Addon is installed"],
            ),
            ("missing CRD", Operation::Read, rejected(404, ""), &["crds --install", "read"]),
            (
                "no permission to read",
                Operation::Read,
                rejected(403, "addon-instance"),
                &["`get addoninstances`"],
            ),
            (
                "no permission to write",
                Operation::Write,
                rejected(403, "x"),
                &["`update addoninstances/status`", "the server's message"],
            ),
            (
                "another error",
                Operation::Write,
                rejected(422, "addon-instance"),
                &["write the status of", "the server's message"],
            ),
        ];
        for (name, operation, error, expected) in rows {
            let message = Error::from_request(operation, "ns/addon-instance".into(), "addon-instance", error)
                .to_string();
            assert!(message.contains("ns/addon-instance"), "{name}: {message}");
            for part in expected {
                assert!(message.contains(part), "{name}: {message}");
            }
        }
    }
}
