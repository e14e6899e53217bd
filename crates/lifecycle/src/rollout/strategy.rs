//! How a placement's clusters are to change, read from what people write: durations and shares as numbers, and what makes
//! no sense as words.

use std::time::Duration;

use bellwether_api::addon::{
    MandatoryDecisionGroup, PlacementStrategy, RolloutLimits, RolloutType, SuccessCriteria,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How the clusters of a placement are to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// How many at a time.
    pub pace: Pace,
    /// When a cluster counts as changed.
    pub criteria: SuccessCriteria,
    /// How long it must have been well before others follow.
    pub soak: Duration,
    /// How long it may take.
    pub deadline: Option<Duration>,
    /// How many may fail.
    pub tolerated: Share,
    /// Groups that go first, and must not fail.
    pub mandatory: Vec<MandatoryDecisionGroup>,
    /// Whether nobody begins.
    pub paused: bool,
}

/// How many clusters change at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// All.
    All,
    /// So many, by name; as many as a decision group has, where nobody says.
    Progressive(Option<Share>),
    /// A group.
    PerGroup,
}

/// A number, or so many of a hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// So many.
    Count(usize),
    /// So many of a hundred, rounded up.
    Percent(usize),
}

impl Share {
    /// Reads what people write.
    pub fn read(written: &IntOrString) -> Result<Self, String> {
        let wrong = || format!("{} is neither a number nor a percentage", shown(written));
        match written {
            IntOrString::Int(number) => usize::try_from(*number).map(Self::Count).map_err(|_| wrong()),
            IntOrString::String(text) => {
                let (number, make): (&str, fn(usize) -> Self) = match text.strip_suffix('%') {
                    Some(number) => (number, Self::Percent),
                    None => (text, Self::Count),
                };
                number.parse().map(make).map_err(|_| wrong())
            }
        }
    }

    /// How many that is of so many.
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => total.saturating_mul(percent).div_ceil(100),
        }
    }
}

fn shown(written: &IntOrString) -> String {
    match written {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => format!("{text:?}"),
    }
}

impl Strategy {
    /// Reads what a placement asks for; in words what of it makes no sense.
    pub fn read(placement: &PlacementStrategy) -> Result<Self, String> {
        let written = placement.rollout_strategy.clone().unwrap_or_default();
        let strategy = match written.type_ {
            RolloutType::All => {
                // Nobody waits for anybody, so that neither soaking nor failures keep anybody back.
                let limits = limited(&written.all.unwrap_or_default().limits)?;
                Strategy { soak: Duration::ZERO, tolerated: Share::Percent(100), ..limits }
            }
            RolloutType::Progressive => {
                let progressive = written.progressive.unwrap_or_default();
                let concurrency = progressive.max_concurrency.as_ref().map(Share::read).transpose();
                let concurrency = concurrency.map_err(|why| format!("maxConcurrency: {why}"))?;
                Strategy {
                    pace: Pace::Progressive(concurrency),
                    mandatory: progressive.mandatory_decision_groups,
                    ..limited(&progressive.limits)?
                }
            }
            RolloutType::ProgressivePerGroup => {
                let per_group = written.progressive_per_group.unwrap_or_default();
                Strategy {
                    pace: Pace::PerGroup,
                    mandatory: per_group.mandatory_decision_groups,
                    ..limited(&per_group.limits)?
                }
            }
            RolloutType::Other => return Err("this type of rollout is not known".to_owned()),
        };
        if written.success_criteria == SuccessCriteria::Other {
            return Err("these successCriteria are not known".to_owned());
        }
        Ok(Self { criteria: written.success_criteria, paused: placement.paused, ..strategy })
    }
}

/// All at once, within limits.
fn limited(limits: &RolloutLimits) -> Result<Strategy, String> {
    let tolerated = limits.max_failures.as_ref().map(Share::read).transpose();
    Ok(Strategy {
        pace: Pace::All,
        criteria: SuccessCriteria::Applied,
        soak: soak(limits.min_success_time.as_deref())?,
        deadline: deadline(limits.progress_deadline.as_deref())?,
        tolerated: tolerated.map_err(|why| format!("maxFailures: {why}"))?.unwrap_or(Share::Count(0)),
        mandatory: Vec::new(),
        paused: false,
    })
}

fn soak(written: Option<&str>) -> Result<Duration, String> {
    match written {
        None | Some("" | "0") => Ok(Duration::ZERO),
        Some(text) => {
            duration(text).ok_or_else(|| format!("minSuccessTime: {text:?} is no duration, as 5m or 1h30m"))
        }
    }
}

fn deadline(written: Option<&str>) -> Result<Option<Duration>, String> {
    match written {
        None | Some("" | "None") => Ok(None),
        Some(text) => duration(text)
            .map(Some)
            .ok_or_else(|| format!("progressDeadline: {text:?} is no duration, as 5m or 1h30m, nor None")),
    }
}

/// Numbers, each with its unit: `1h30m`.
fn duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, u64); 4] = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at_checked(digits)?;
        let (unit, milliseconds) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        let part = number.parse::<u64>().ok()?.checked_mul(*milliseconds)?;
        total = total.checked_add(Duration::from_millis(part))?;
        rest = after.get(unit.len()..)?;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use proptest::proptest;
    use serde_json::{Value, json};

    use super::*;

    fn read(rollout: Value) -> Result<Strategy, String> {
        Strategy::read(
            &serde_json::from_value(json!({"name": "p", "namespace": "n", "rolloutStrategy": rollout}))
                .unwrap(),
        )
    }

    #[test]
    fn without_a_word_all_change_at_once() {
        let nothing = Strategy::read(&PlacementStrategy::default()).unwrap();
        assert_eq!(nothing.pace, Pace::All);
        assert_eq!(
            (nothing.soak, nothing.deadline, nothing.tolerated),
            (Duration::ZERO, None, Share::Percent(100))
        );
        assert_eq!(read(json!({"type": "All"})).unwrap(), nothing);
    }

    #[test]
    fn every_field_is_read() {
        let found = read(json!({
            "type": "Progressive",
            "successCriteria": "Healthy",
            "progressive": {
                "maxConcurrency": "25%",
                "minSuccessTime": "1h30m",
                "progressDeadline": "90s",
                "maxFailures": 2,
                "mandatoryDecisionGroups": [{"groupName": "canary"}],
            },
        }));
        let found = found.unwrap();
        assert_eq!(found.pace, Pace::Progressive(Some(Share::Percent(25))));
        assert_eq!(found.criteria, SuccessCriteria::Healthy);
        assert_eq!((found.soak, found.deadline), (Duration::from_secs(5400), Some(Duration::from_secs(90))));
        assert_eq!(found.tolerated, Share::Count(2));
        assert_eq!(found.mandatory.len(), 1);
    }

    #[test]
    fn what_makes_no_sense_is_said_in_words() {
        let rows = [
            (json!({"type": "Sideways"}), "this type of rollout is not known"),
            (json!({"type": "All", "successCriteria": "Vibes"}), "these successCriteria are not known"),
            (
                json!({"type": "Progressive", "progressive": {"maxConcurrency": "many"}}),
                "maxConcurrency: \"many\" is neither a number nor a percentage",
            ),
            (
                json!({"type": "Progressive", "progressive": {"maxConcurrency": -1}}),
                "maxConcurrency: -1 is neither a number nor a percentage",
            ),
            (
                json!({"type": "ProgressivePerGroup", "progressivePerGroup": {"progressDeadline": "10mfoo"}}),
                "progressDeadline: \"10mfoo\" is no duration, as 5m or 1h30m, nor None",
            ),
            (
                json!({"type": "ProgressivePerGroup", "progressivePerGroup": {"minSuccessTime": "soon"}}),
                "minSuccessTime: \"soon\" is no duration, as 5m or 1h30m",
            ),
        ];
        for (rollout, words) in rows {
            assert_eq!(read(rollout), Err(words.to_owned()));
        }
    }

    #[test]
    fn a_share_is_a_number_or_rounded_up() {
        let rows = [
            (Share::Count(3), 2, 3),
            (Share::Percent(50), 5, 3),
            (Share::Percent(1), 4, 1),
            (Share::Percent(0), 4, 0),
        ];
        for (share, total, wanted) in rows {
            assert_eq!(share.of(total), wanted, "{share:?} of {total}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd_for_a_duration(text in "[0-9hms]{0,12}|.{0,8}") {
            let _ = duration(&text);
        }
    }
}
