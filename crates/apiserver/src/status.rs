//! The Status object: what every refusal says, with the exact codes, reasons and details that clients act on.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::body::Body;
use crate::field::FieldError;

/// How many errors a refusal names.
const ERRORS_NAMED: usize = 1000;

/// A refusal on its way to the client. Boxed, because results carry it everywhere.
#[derive(Clone, Debug)]
pub struct Refusal(Box<Status>);

/// The result of anything a request asks for.
pub(crate) type Answer<T> = Result<T, Refusal>;

#[derive(Clone, Debug, Serialize)]
struct Status {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: ListMeta,
    status: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    code: u16,
}

#[derive(Clone, Debug, Default, Serialize)]
struct ListMeta {
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    continue_token: String,
}

/// What a Status is about.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
struct Cause {
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'static str,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    field: String,
}

/// A resource (or a kind) with its group, as messages name it: `leases.coordination.k8s.io`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Qualified<'a> {
    pub(crate) group: &'a str,
    pub(crate) name: &'a str,
}

impl std::fmt::Display for Qualified<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

impl Qualified<'_> {
    fn details(&self, name: &str) -> Details {
        Details { name: name.into(), group: self.group.into(), kind: self.name.into(), ..Details::default() }
    }
}

impl Refusal {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Status {
            kind: "Status",
            api_version: "v1",
            metadata: ListMeta::default(),
            status: "Failure",
            message: message.into(),
            reason,
            details: None,
            code,
        }))
    }

    fn about(mut self, details: Details) -> Self {
        self.0.details = Some(details);
        self
    }

    fn retry_after(mut self, wait: Duration) -> Self {
        self.0.details.get_or_insert_default().retry_after_seconds = Some(wait.as_secs());
        self
    }

    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        self.0.code
    }

    /// The machine-readable reason, such as `NotFound`.
    pub fn reason(&self) -> &'static str {
        self.0.reason
    }

    /// The words for a person.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn forbidden(resource: Qualified<'_>, name: &str, why: impl std::fmt::Display) -> Self {
        let message = match (resource.name, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{resource} is forbidden: {why}"),
            (_, name) => format!("{resource} {name:?} is forbidden: {why}"),
        };
        Self::new(403, "Forbidden", message).about(resource.details(name))
    }

    pub(crate) fn namespace_terminating(resource: Qualified<'_>, name: &str, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut refusal = Self::forbidden(resource, name, why);
        refusal.0.details.get_or_insert_default().causes.push(Cause {
            reason: "NamespaceTerminating",
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
        refusal
    }

    pub(crate) fn not_found(resource: Qualified<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} {name:?} not found")).about(resource.details(name))
    }

    /// A path below a served group that leads nowhere.
    pub(crate) fn nothing_here() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .about(Details::default())
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .about(Details::default())
    }

    /// An object that cannot take the form that was asked for.
    pub(crate) fn not_convertible(why: String) -> Self {
        Self::new(406, "NotAcceptable", why)
    }

    /// A client that takes none of the media types there are.
    pub(crate) fn no_representation(available: &[&str]) -> Self {
        let available = available.join(", ");
        Self::new(
            406,
            "NotAcceptable",
            format!("406: Not Acceptable\n\nAvailable representations: {available}"),
        )
    }

    pub(crate) fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::new(406, "NotAcceptable", message)
    }

    pub(crate) fn already_exists(resource: Qualified<'_>, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{resource} {name:?} already exists"))
            .about(resource.details(name))
    }

    pub(crate) fn name_not_generated(resource: Qualified<'_>, name: &str) -> Self {
        let message = format!(
            "{resource} {name:?} already exists, the server was not able to generate a unique name for the object"
        );
        Self::new(409, "AlreadyExists", message)
            .about(resource.details(name))
            .retry_after(Duration::from_secs(1))
    }

    pub(crate) fn conflict(resource: Qualified<'_>, name: &str, why: impl std::fmt::Display) -> Self {
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {resource} {name:?}: {why}"))
            .about(resource.details(name))
    }

    pub(crate) fn modified(resource: Qualified<'_>, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// An apply that would take what others own; each cause says with whom, and on which path.
    pub(crate) fn apply_conflict(message: String, causes: Vec<(String, String)>) -> Self {
        let cause = |(message, field)| Cause { reason: "FieldManagerConflict", message, field };
        let details = Details { causes: causes.into_iter().map(cause).collect(), ..Details::default() };
        Self::new(409, "Conflict", message).about(details)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// A page whose revision is gone; `token` goes on from the same place at the newest revision.
    pub(crate) fn expired_page(token: String) -> Self {
        let mut refusal = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        refusal.0.metadata.continue_token = token;
        refusal
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    pub(crate) fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn invalid(kind: Qualified<'_>, name: &str, errors: &[FieldError]) -> Self {
        // An object can be wrong in more places than its text has bytes to spare.
        let errors = errors.get(..ERRORS_NAMED).unwrap_or(errors);
        let mut said = HashSet::new();
        let mut words: Vec<String> = errors.iter().map(FieldError::to_string).collect();
        words.retain(|word| said.insert(word.clone()));
        let message = match words.as_slice() {
            [one] => format!("{kind} {name:?} is invalid: {one}"),
            many => format!("{kind} {name:?} is invalid: [{}]", many.join(", ")),
        };
        let mut details = kind.details(name);
        details.causes = errors
            .iter()
            .map(|error| Cause {
                reason: error.wrong.reason(),
                message: error.body(),
                field: error.field.clone(),
            })
            .collect();
        Self::new(422, "Invalid", message).about(details)
    }

    /// Options of a request (`ListOptions`, `DeleteOptions`, …) that contradict each other.
    pub(crate) fn invalid_options(kind: &str, errors: &[FieldError]) -> Self {
        Self::invalid(Qualified { group: "meta.k8s.io", name: kind }, "", errors)
    }

    /// A patch that cannot be applied to this object.
    /// A patch that leaves something that is no object of its kind. The patched object is not quoted back, unlike in
    /// Kubernetes: it may be a Secret.
    pub(crate) fn misfit_after_patch(why: String) -> Self {
        let error = FieldError::invalid("patch", "<patched object>", why);
        Self::invalid(Qualified { group: "", name: "" }, "", &[error])
    }

    pub(crate) fn patch_failed() -> Self {
        Self::new(422, "Invalid", "the server rejected our request due to an error in our request")
            .about(Details::default())
    }

    pub(crate) fn internal(why: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {why}");
        let mut refusal = Self::new(500, "InternalError", message).about(Details::default());
        refusal.0.details.get_or_insert_default().causes.push(Cause {
            reason: "",
            message: why.to_string(),
            field: String::new(),
        });
        refusal
    }

    pub(crate) fn too_many_requests() -> Self {
        Self::new(429, "TooManyRequests", "Too many requests, please try again later.".to_owned())
            .retry_after(Duration::from_secs(1))
    }

    pub(crate) fn unavailable(why: impl std::fmt::Display, wait: Duration) -> Self {
        Self::new(503, "ServiceUnavailable", why.to_string()).retry_after(wait)
    }

    pub(crate) fn timeout(why: impl std::fmt::Display) -> Self {
        Self::new(504, "Timeout", format!("Timeout: {why}")).about(Details::default())
    }

    pub(crate) fn future_revision(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut details = Details::default();
        details.causes.push(Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".into(),
            field: String::new(),
        });
        Self::new(504, "Timeout", message).about(details).retry_after(Duration::from_secs(1))
    }

    /// The Status as JSON.
    pub(crate) fn to_json(&self) -> Bytes {
        serde_json::to_vec(&self.0).unwrap_or_default().into()
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.to_json()));
        *response.status_mut() =
            StatusCode::from_u16(self.0.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(wait) = self.0.details.as_ref().and_then(|details| details.retry_after_seconds) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(wait));
        }
        response
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.0.code, self.0.reason, self.0.message)
    }
}

impl std::error::Error for Refusal {}

/// The Status that says that an object is gone, and which one it was.
pub(crate) fn gone(resource: Qualified<'_>, name: &str, uid: &str) -> Bytes {
    let details = Details { uid: uid.into(), ..resource.details(name) };
    let status = Status {
        kind: "Status",
        api_version: "v1",
        metadata: ListMeta::default(),
        status: "Success",
        message: String::new(),
        reason: "",
        details: Some(details),
        code: 0,
    };
    // A Success carries no code, unlike a Failure.
    let mut value = serde_json::to_value(&status).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.remove("code");
    }
    serde_json::to_vec(&value).unwrap_or_default().into()
}
