//! Names of streams, subjects and consumers. Topics and subscriptions may have dots, which these may not.

use crate::CloudEvent;

/// The header by which a stream drops an event that was published twice.
pub(super) const MESSAGE_ID: &str = "Nats-Msg-Id";
/// The longest ID of a message.
const MAX_MESSAGE_ID_BYTES: usize = 512;

/// The names for a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StreamNames {
    pub(super) stream: String,
    pub(super) subject: String,
    pub(super) dead_letter_stream: String,
}

impl StreamNames {
    pub(super) fn new(topic: &str) -> Self {
        let stream = without_dots(topic);
        Self {
            subject: format!("bellwether.topic.{stream}"),
            // No topic has this name: `~` is not allowed in one.
            dead_letter_stream: format!("{stream}~dlq"),
            stream,
        }
    }

    /// The subject of the dead letters of a subscription.
    pub(super) fn dead_letter_subject(&self, consumer: &str) -> String {
        format!("bellwether.dead-letter.{}.{consumer}", self.stream)
    }
}

/// The name of the consumer for a subscription.
pub(super) fn consumer(subscription: &str) -> String {
    without_dots(subscription)
}

/// Different names stay different: `=` is not allowed in a topic or subscription.
fn without_dots(name: &str) -> String {
    name.replace('.', "=")
}

/// What identifies an event among all events, if it can be a header.
pub(super) fn message_id(event: &CloudEvent) -> Option<String> {
    let id = format!("{}/{}", event.source, event.id);
    (id.len() <= MAX_MESSAGE_ID_BYTES && !id.contains(char::is_control)).then_some(id)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::Value;

    use super::*;

    #[test]
    fn topics_with_dots_have_names_that_nats_accepts_and_that_do_not_collide() {
        let names = StreamNames::new("ns.clusters");
        assert_eq!(
            (names.stream.as_str(), names.subject.as_str()),
            ("ns=clusters", "bellwether.topic.ns=clusters")
        );
        assert_eq!(names.dead_letter_stream, "ns=clusters~dlq");
        assert_eq!(names.dead_letter_subject(&consumer("a.b")), "bellwether.dead-letter.ns=clusters.a=b");
        let streams = ["a.b", "a-b", "a_b", "a-dlq", "a"].map(|topic| StreamNames::new(topic).stream);
        assert_eq!(streams.iter().collect::<std::collections::BTreeSet<_>>().len(), streams.len());
    }

    #[test]
    fn id_of_a_message_has_the_source_and_no_control_characters() {
        let mut event = CloudEvent::new("sentinel", "t", Value::Null, Timestamp::UNIX_EPOCH);
        event.id = "1".into();
        assert_eq!(message_id(&event).as_deref(), Some("sentinel/1"));
        event.source = "a\r\nb".into();
        assert_eq!(message_id(&event), None);
    }
}
