//! The simulated behaviour of an object, from its annotation, and the stage of its rollout.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

/// The annotation of an object, or of its pod template, that sets its behaviour: `fail`, `never`, or `delay=5s`.
pub const ANNOTATION: &str = "bellwether.io/simulate";

/// The result of a simulated rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behaviour {
    /// It succeeds after the default delay.
    #[default]
    Succeed,
    /// It succeeds after this delay.
    SucceedAfter(Duration),
    /// It fails after the default delay.
    Fail,
    /// It never finishes.
    Never,
}

/// An invalid value of the annotation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the annotation {ANNOTATION} has the invalid value {0:?}, which is ignored; use fail, never, or delay=DURATION such as delay=5s"
)]
pub struct Unreadable(String);

impl FromStr for Behaviour {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        match text {
            "fail" => return Ok(Self::Fail),
            "never" => return Ok(Self::Never),
            _ => {}
        }
        let delay: Option<SignedDuration> = text.strip_prefix("delay=").and_then(|delay| delay.parse().ok());
        delay
            .and_then(|delay| Duration::try_from(delay).ok())
            .map(Self::SucceedAfter)
            .ok_or_else(|| Unreadable(text.to_owned()))
    }
}

type Annotations = BTreeMap<String, String>;

impl Behaviour {
    /// The behaviour from the annotations of an object and of its pod template. The annotation of the object takes precedence. An
    /// invalid value is ignored and returned, so that it can be logged.
    pub(crate) fn requested(
        object: Option<&Annotations>,
        template: Option<&Annotations>,
    ) -> (Self, Option<Unreadable>) {
        let mut unreadable = None;
        for annotations in [object, template].into_iter().flatten() {
            match annotations.get(ANNOTATION).map(|value| value.parse()) {
                Some(Ok(behaviour)) => return (behaviour, unreadable),
                Some(Err(error)) => unreadable = unreadable.or(Some(error)),
                None => {}
            }
        }
        (Self::default(), unreadable)
    }

    /// The stage of a rollout, and after how much time it changes.
    pub(crate) fn stage(self, default_delay: Duration, since: Duration) -> (Stage, Option<Duration>) {
        let (delay, end) = match self {
            Self::Succeed => (default_delay, Stage::Succeeded),
            Self::SucceedAfter(delay) => (delay, Stage::Succeeded),
            Self::Fail => (default_delay, Stage::Failed),
            Self::Never => return (Stage::Begun, None),
        };
        match delay.checked_sub(since).filter(|left| !left.is_zero()) {
            Some(left) => (Stage::Begun, Some(left)),
            None => (end, None),
        }
    }
}

/// The stage of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Begun,
    Succeeded,
    Failed,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[rstest]
    #[case("fail", Some(Behaviour::Fail))]
    #[case("never", Some(Behaviour::Never))]
    #[case("delay=5s", Some(Behaviour::SucceedAfter(5 * SECOND)))]
    #[case("delay=500ms", Some(Behaviour::SucceedAfter(SECOND / 2)))]
    #[case("delay=1m", Some(Behaviour::SucceedAfter(60 * SECOND)))]
    #[case("delay=1m30s", Some(Behaviour::SucceedAfter(90 * SECOND)))]
    #[case("delay=0s", Some(Behaviour::SucceedAfter(Duration::ZERO)))]
    #[case("delay=-5s", None)]
    #[case("delay=5", None)]
    #[case("delay=", None)]
    #[case("delay", None)]
    #[case("5s", None)]
    #[case("Fail", None)]
    #[case("", None)]
    fn valid_values_are_parsed(#[case] text: &str, #[case] expected: Option<Behaviour>) {
        assert_eq!(text.parse::<Behaviour>().ok(), expected);
    }

    #[rstest]
    #[case::no_annotation(None, None, Behaviour::Succeed, None)]
    #[case::annotation_of_the_template(None, Some("fail"), Behaviour::Fail, None)]
    #[case::annotation_of_the_object_takes_precedence(Some("never"), Some("fail"), Behaviour::Never, None)]
    #[case::invalid_value_is_ignored(Some("what"), Some("fail"), Behaviour::Fail, Some("what"))]
    #[case::first_invalid_value_is_returned(Some("a"), Some("b"), Behaviour::Succeed, Some("a"))]
    fn annotation_of_the_object_is_read_before_that_of_the_template(
        #[case] object: Option<&str>,
        #[case] template: Option<&str>,
        #[case] expected: Behaviour,
        #[case] invalid: Option<&str>,
    ) {
        let annotations = |value: Option<&str>| {
            value.map(|value| Annotations::from([(ANNOTATION.to_owned(), value.to_owned())]))
        };
        let (object, template) = (annotations(object), annotations(template));
        let (behaviour, unreadable) = Behaviour::requested(object.as_ref(), template.as_ref());
        assert_eq!((behaviour, unreadable), (expected, invalid.map(|text| Unreadable(text.to_owned()))));
    }

    #[rstest]
    #[case(Behaviour::Succeed, 0, Stage::Begun, Some(2))]
    #[case(Behaviour::Succeed, 1, Stage::Begun, Some(1))]
    #[case(Behaviour::Succeed, 2, Stage::Succeeded, None)]
    #[case(Behaviour::Succeed, 9, Stage::Succeeded, None)]
    #[case(Behaviour::SucceedAfter(5 * SECOND), 2, Stage::Begun, Some(3))]
    #[case(Behaviour::SucceedAfter(Duration::ZERO), 0, Stage::Succeeded, None)]
    #[case(Behaviour::Fail, 1, Stage::Begun, Some(1))]
    #[case(Behaviour::Fail, 2, Stage::Failed, None)]
    #[case(Behaviour::Never, 9999, Stage::Begun, None)]
    fn rollout_is_in_progress_until_its_delay_has_passed(
        #[case] behaviour: Behaviour,
        #[case] since: u64,
        #[case] stage: Stage,
        #[case] left: Option<u64>,
    ) {
        let found = behaviour.stage(2 * SECOND, Duration::from_secs(since));
        assert_eq!(found, (stage, left.map(Duration::from_secs)));
    }
}
