//! Error responses: problem details (RFC 9457), with a stable code for scripts.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::decide::Refusal;
use crate::store::StoreError;
use crate::writer::WriteError;

/// The media type of a problem.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";
/// The prefix of the `type` of every problem.
const TYPE_PREFIX: &str = "https://api.hyperfleet.io/errors/";

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Code {
    Validation,
    ChildKind,
    BadRequest,
    Malformed,
    TooLarge,
    MediaType,
    NoCredentials,
    InvalidCredentials,
    ExpiredCredentials,
    Forbidden,
    NoEndpoint,
    NoMethod,
    NotFound,
    Gone,
    Exists,
    State,
    Internal,
    Unavailable,
    TimedOut,
}

impl Code {
    pub(crate) const ALL: [Self; 19] = [
        Self::Validation,
        Self::ChildKind,
        Self::BadRequest,
        Self::Malformed,
        Self::TooLarge,
        Self::MediaType,
        Self::NoCredentials,
        Self::InvalidCredentials,
        Self::ExpiredCredentials,
        Self::Forbidden,
        Self::NoEndpoint,
        Self::NoMethod,
        Self::NotFound,
        Self::Gone,
        Self::Exists,
        Self::State,
        Self::Internal,
        Self::Unavailable,
        Self::TimedOut,
    ];

    /// The code, status, slug and title of the kind.
    pub(crate) const fn describe(self) -> (&'static str, u16, &'static str, &'static str) {
        match self {
            Self::Validation => ("HYPERFLEET-VAL-000", 400, "validation-error", "Validation Failed"),
            Self::ChildKind => ("HYPERFLEET-VAL-000", 422, "validation-error", "Validation Failed"),
            Self::BadRequest => ("HYPERFLEET-VAL-005", 400, "bad-request", "Bad Request"),
            Self::Malformed => ("HYPERFLEET-VAL-006", 400, "malformed-request", "Malformed Request"),
            Self::TooLarge => ("HYPERFLEET-LMT-002", 413, "body-too-large", "Body Too Large"),
            Self::MediaType => {
                ("HYPERFLEET-VAL-008", 415, "unsupported-media-type", "Unsupported Media Type")
            }
            Self::NoCredentials => ("HYPERFLEET-AUT-001", 401, "no-credentials", "Authentication Required"),
            Self::InvalidCredentials => {
                ("HYPERFLEET-AUT-002", 401, "invalid-credentials", "Invalid Credentials")
            }
            Self::ExpiredCredentials => ("HYPERFLEET-AUT-003", 401, "expired-token", "Credentials Expired"),
            Self::Forbidden => ("HYPERFLEET-AUZ-001", 403, "permission-denied", "Permission Denied"),
            Self::NoEndpoint => ("HYPERFLEET-NTF-000", 404, "endpoint-not-found", "Endpoint Not Found"),
            Self::NoMethod => ("HYPERFLEET-NTF-004", 405, "method-not-allowed", "Method Not Allowed"),
            Self::NotFound => ("HYPERFLEET-NTF-001", 404, "resource-not-found", "Resource Not Found"),
            Self::Gone => ("HYPERFLEET-NTF-005", 410, "revision-expired", "Revision Expired"),
            Self::Exists => ("HYPERFLEET-CNF-001", 409, "conflict", "Resource Already Exists"),
            Self::State => ("HYPERFLEET-CNF-003", 409, "conflict", "State Conflict"),
            Self::Internal => ("HYPERFLEET-INT-001", 500, "internal-error", "Internal Server Error"),
            Self::Unavailable => ("HYPERFLEET-SVC-001", 503, "service-unavailable", "Service Unavailable"),
            Self::TimedOut => ("HYPERFLEET-SVC-002", 504, "timeout", "Timeout"),
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        StatusCode::from_u16(self.describe().1).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// An error of a field.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct FieldError {
    /// The path of the field, with dots for nested fields.
    pub(crate) field: String,
    /// The error, for people.
    pub(crate) message: String,
    /// The invalid value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub(crate) value: Option<Value>,
    /// The constraint that the value violates.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Constraint")]
    pub(crate) constraint: Option<Constraint>,
}

/// A constraint that a field violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Constraint {
    Required,
    Min,
    Max,
    MinLength,
    MaxLength,
    Pattern,
    Enum,
    Format,
    Unique,
}

/// An error of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) detail: String,
    pub(crate) errors: Vec<FieldError>,
    /// The allowed methods, if the method is not allowed.
    pub(crate) allow: Option<String>,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), errors: Vec::new(), allow: None }
    }

    /// A problem with all errors of fields.
    pub(crate) fn of_fields(code: Code, errors: Vec<FieldError>) -> Self {
        let detail = errors.iter().map(|error| error.message.as_str()).collect::<Vec<_>>().join("; ");
        Self { errors, ..Self::new(code, detail) }
    }

    /// The response to a request, with its path and its ID.
    pub(crate) fn response(&self, instance: &str, trace_id: &str, now: Timestamp) -> Response {
        let mut response = Response::new(Body::from(self.json(instance, trace_id, now)));
        *response.status_mut() = self.code.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(allow) = self.allow.as_deref().and_then(|allow| HeaderValue::from_str(allow).ok()) {
            headers.insert(header::ALLOW, allow);
        }
        if self.code.status() == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    pub(crate) fn json(&self, instance: &str, trace_id: &str, now: Timestamp) -> String {
        let (code, status, slug, title) = self.code.describe();
        let wire = Wire {
            type_: format!("{TYPE_PREFIX}{slug}"),
            title,
            status,
            detail: &self.detail,
            instance,
            code,
            timestamp: now,
            trace_id,
            errors: &self.errors,
        };
        serde_json::to_string(&wire).unwrap_or_default()
    }
}

/// An error response (RFC 9457).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct Wire<'a> {
    /// A URI that identifies the kind of problem.
    #[serde(rename = "type")]
    type_: String,
    /// The kind of problem, for people.
    title: &'a str,
    /// The HTTP status.
    status: u16,
    /// The cause of this problem.
    detail: &'a str,
    /// The path of the request.
    instance: &'a str,
    /// The code of the problem, for scripts.
    code: &'a str,
    /// The time of the response.
    timestamp: Timestamp,
    /// The ID of the request, as in the header X-Request-ID.
    trace_id: &'a str,
    /// The errors of fields.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::NotFound { .. } => Code::NotFound,
            Refusal::Exists { .. } => Code::Exists,
            Refusal::Deleting { .. } | Refusal::NotFinalizing { .. } | Refusal::ActiveChildren { .. } => {
                Code::State
            }
            Refusal::Incomplete { .. } | Refusal::TooManyAdapters { .. } => Code::Validation,
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<WriteError> for Problem {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(refusal) => refusal.into(),
            WriteError::Unavailable => {
                Self::new(Code::Unavailable, "the database is not available; try again")
            }
            WriteError::TimedOut => Self::new(
                Code::TimedOut,
                "the database did not respond in time; it is unknown whether the change was made",
            ),
            WriteError::Failed => Self::internal(),
        }
    }
}

impl Problem {
    pub(crate) fn internal() -> Self {
        Self::new(Code::Internal, "internal error; the log of the server has the details for this trace_id")
    }
}

/// Error messages of the database are logged, and never sent to a caller.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "cannot read from the fleet database");
        match error {
            StoreError::Conflict(_) | StoreError::Unavailable(_) => {
                Self::new(Code::Unavailable, "the database is not available; try again")
            }
            StoreError::Failed(_) => Self::internal(),
        }
    }
}
