//! CloudEvents 1.0 in structured JSON: the body of every message.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// The largest event, as JSON.
pub const MAX_EVENT_BYTES: usize = 256 * 1024;
const SPEC_VERSION: &str = "1.0";

/// An event.
///
/// ```
/// use bellwether_broker::CloudEvent;
/// use serde_json::json;
///
/// let event = CloudEvent::new("hyperfleet-sentinel", "com.redhat.hyperfleet.cluster.reconcile", json!({"id": "1"}), jiff::Timestamp::UNIX_EPOCH);
/// let parsed = CloudEvent::parse(&event.to_json())?;
/// assert_eq!(parsed, event);
/// assert!(CloudEvent::parse(b"{}").unwrap_err().to_string().contains("specversion"));
/// # Ok::<(), bellwether_broker::EventError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CloudEvent {
    specversion: String,
    /// Identifies the event among those of its source.
    pub id: String,
    /// Who published it.
    pub source: String,
    /// What happened.
    #[serde(rename = "type")]
    pub event_type: String,
    /// When it happened. Other publishers may leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    datacontenttype: Option<String>,
    /// What the event is about.
    #[serde(default)]
    pub data: Value,
    /// Extension attributes, such as `traceparent`.
    #[serde(flatten)]
    pub extensions: Map<String, Value>,
}

/// Why a body is not an event.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// The body is not the JSON of a CloudEvent.
    #[error("the body is not a CloudEvent in JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The version is unknown.
    #[error("specversion must be \"1.0\", found {0:?}")]
    SpecVersion(String),
    /// A required attribute is empty.
    #[error("the attribute {0} must not be empty")]
    Empty(&'static str),
    /// The body is too large.
    #[error("the body has {0} bytes, and the limit is {MAX_EVENT_BYTES}")]
    TooLarge(usize),
}

impl CloudEvent {
    /// An event with a new ID.
    pub fn new(source: &str, event_type: &str, data: Value, time: Timestamp) -> Self {
        Self {
            specversion: SPEC_VERSION.to_owned(),
            id: Uuid::now_v7().to_string(),
            source: source.to_owned(),
            event_type: event_type.to_owned(),
            time: Some(time),
            datacontenttype: Some("application/json".to_owned()),
            data,
            extensions: Map::new(),
        }
    }

    /// Parses the body of a message.
    pub fn parse(body: &[u8]) -> Result<Self, EventError> {
        if body.len() > MAX_EVENT_BYTES {
            return Err(EventError::TooLarge(body.len()));
        }
        let event: Self = serde_json::from_slice(body)?;
        event.validate()?;
        Ok(event)
    }

    /// The body of a message, if subscribers would accept it.
    pub fn encode(&self) -> Result<Vec<u8>, EventError> {
        self.validate()?;
        let body = serde_json::to_vec(self)?;
        if body.len() > MAX_EVENT_BYTES {
            return Err(EventError::TooLarge(body.len()));
        }
        Ok(body)
    }

    fn validate(&self) -> Result<(), EventError> {
        if self.specversion != SPEC_VERSION {
            return Err(EventError::SpecVersion(self.specversion.clone()));
        }
        for (name, value) in [("id", &self.id), ("source", &self.source), ("type", &self.event_type)] {
            if value.is_empty() {
                return Err(EventError::Empty(name));
            }
        }
        Ok(())
    }

    /// The body of a message.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(body: Value) -> Result<CloudEvent, EventError> {
        CloudEvent::parse(body.to_string().as_bytes())
    }

    #[test]
    fn event_of_upstream_without_time_is_parsed_and_written_back_unchanged() {
        let body = json!({
            "specversion": "1.0", "type": "com.redhat.hyperfleet.cluster.reconcile", "source": "hyperfleet-sentinel",
            "id": "0199-a", "datacontenttype": "application/json", "data": {"id": "c1", "generation": 2},
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        });
        let event = parse(body.clone()).unwrap();
        assert_eq!((event.time, &event.data["generation"]), (None, &json!(2)));
        assert_eq!(serde_json::from_slice::<Value>(&event.to_json()).unwrap(), body);
    }

    #[test]
    fn invalid_bodies_are_rejected_with_the_reason() {
        let rows = [
            (json!([1]), "the body is not a CloudEvent in JSON: "),
            (json!({"specversion": "1.0", "source": "s", "type": "t"}), "missing field `id`"),
            (
                json!({"specversion": "0.3", "id": "1", "source": "s", "type": "t"}),
                "specversion must be \"1.0\", found \"0.3\"",
            ),
            (
                json!({"specversion": "1.0", "id": "", "source": "s", "type": "t"}),
                "the attribute id must not be empty",
            ),
            (
                json!({"specversion": "1.0", "id": "1", "source": "s", "type": "t", "time": "soon"}),
                "the body is not a CloudEvent",
            ),
        ];
        for (body, message) in rows {
            let error = parse(body.clone()).expect_err(&body.to_string()).to_string();
            assert!(error.contains(message), "{body}: {error}");
        }
        let large = vec![b' '; MAX_EVENT_BYTES + 1];
        assert!(CloudEvent::parse(&large).unwrap_err().to_string().starts_with("the body has 262145 bytes"));
    }

    #[test]
    fn event_that_subscribers_would_reject_is_not_encoded() {
        let mut event = CloudEvent::new("s", "t", json!("x".repeat(MAX_EVENT_BYTES)), Timestamp::UNIX_EPOCH);
        assert!(matches!(event.encode(), Err(EventError::TooLarge(_))));
        event.data = json!({});
        assert!(CloudEvent::parse(&event.encode().unwrap()).is_ok());
        event.source = String::new();
        assert!(matches!(event.encode(), Err(EventError::Empty("source"))));
    }
}
