//! How an object wants to be simulated, and how far its rollout is by now.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

/// Says on an object, or on its pod template, how it behaves: `fail`, `never`, or `delay=5s`.
pub const ANNOTATION: &str = "bellwether.io/simulate";

/// What becomes of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behaviour {
    /// It is ready after the usual delay.
    #[default]
    Succeed,
    /// It is ready after a delay of its own.
    SucceedAfter(Duration),
    /// It fails after the usual delay.
    Fail,
    /// It stays as it begins.
    Never,
}

/// A value of the annotation that says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{ANNOTATION} is {0:?}, which is none of fail, never, or delay=DURATION such as delay=5s; it is ignored"
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
    /// What the annotations of an object and of its pod template ask for. The object's own wins; what cannot be read
    /// counts as absent, and is handed back to be told.
    pub(crate) fn asked_for(
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

    /// How far a rollout is that was first seen some time ago, and after how much more time that changes.
    pub(crate) fn stage(self, usual_delay: Duration, since: Duration) -> (Stage, Option<Duration>) {
        let (delay, end) = match self {
            Self::Succeed => (usual_delay, Stage::Succeeded),
            Self::SucceedAfter(delay) => (delay, Stage::Succeeded),
            Self::Fail => (usual_delay, Stage::Failed),
            Self::Never => return (Stage::Begun, None),
        };
        match delay.checked_sub(since).filter(|left| !left.is_zero()) {
            Some(left) => (Stage::Begun, Some(left)),
            None => (end, None),
        }
    }
}

/// How far a rollout is.
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
    fn a_value_is_read_or_refused(#[case] text: &str, #[case] wanted: Option<Behaviour>) {
        assert_eq!(text.parse::<Behaviour>().ok(), wanted);
    }

    #[rstest]
    #[case::nothing_said(None, None, Behaviour::Succeed, None)]
    #[case::the_template_counts(None, Some("fail"), Behaviour::Fail, None)]
    #[case::the_object_wins(Some("never"), Some("fail"), Behaviour::Never, None)]
    #[case::nonsense_counts_as_absent(Some("what"), Some("fail"), Behaviour::Fail, Some("what"))]
    #[case::the_first_nonsense_is_told(Some("a"), Some("b"), Behaviour::Succeed, Some("a"))]
    fn the_object_is_asked_before_its_template(
        #[case] object: Option<&str>,
        #[case] template: Option<&str>,
        #[case] wanted: Behaviour,
        #[case] told: Option<&str>,
    ) {
        let annotations = |value: Option<&str>| {
            value.map(|value| Annotations::from([(ANNOTATION.to_owned(), value.to_owned())]))
        };
        let (object, template) = (annotations(object), annotations(template));
        let (behaviour, unreadable) = Behaviour::asked_for(object.as_ref(), template.as_ref());
        assert_eq!((behaviour, unreadable), (wanted, told.map(|text| Unreadable(text.to_owned()))));
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
    fn a_rollout_is_begun_until_its_delay_is_over(
        #[case] behaviour: Behaviour,
        #[case] since: u64,
        #[case] stage: Stage,
        #[case] left: Option<u64>,
    ) {
        let found = behaviour.stage(2 * SECOND, Duration::from_secs(since));
        assert_eq!(found, (stage, left.map(Duration::from_secs)));
    }
}
