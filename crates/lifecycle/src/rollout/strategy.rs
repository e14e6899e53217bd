//! Parses and validates the rollout strategy of a placement; an invalid strategy is an error message.
//! Which clusters may start is left to `plan`.

use std::fmt;
use std::time::Duration;

use bellwether_api::addon::{
    MandatoryDecisionGroup, PlacementStrategy, RolloutLimits, RolloutType, SuccessCriteria,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The rollout strategy of a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// How many clusters change at a time.
    pub pace: Pace,
    /// When a cluster counts as successful.
    pub criteria: SuccessCriteria,
    /// The soak time: how long a cluster must have been successful before the next ones start.
    pub soak: Duration,
    /// The maximum duration of a change.
    pub deadline: Option<Duration>,
    /// How many clusters may fail.
    pub tolerated: Share,
    /// Decision groups that change first and must not fail.
    pub mandatory: Vec<MandatoryDecisionGroup>,
    /// Whether the rollout is paused, so that no cluster starts.
    pub paused: bool,
}

/// How many clusters change at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// All.
    All,
    /// At most this many, in the order of their names; by default, the size of a decision group.
    Progressive(Option<Share>),
    /// One decision group.
    PerGroup,
}

/// A number or a percentage of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// A number.
    Count(usize),
    /// A percentage, rounded up.
    Percent(usize),
}

impl Share {
    /// Parses a number or a percentage.
    pub fn read(written: &IntOrString) -> Result<Self, String> {
        let invalid = || format!("{} is neither a number nor a percentage", display_value(written));
        match written {
            IntOrString::Int(number) => usize::try_from(*number).map(Self::Count).map_err(|_| invalid()),
            IntOrString::String(text) => {
                let (number, make): (&str, fn(usize) -> Self) = match text.strip_suffix('%') {
                    Some(number) => (number, Self::Percent),
                    None => (text, Self::Count),
                };
                number.parse().map(make).map_err(|_| invalid())
            }
        }
    }

    /// The number of clusters out of `total`.
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => total.saturating_mul(percent).div_ceil(100),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(formatter),
            Self::Percent(percent) => write!(formatter, "{percent}%"),
        }
    }
}

/// The pace of the rollout, and the decision groups that come first.
impl fmt::Display for Strategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pace {
            Pace::All => formatter.write_str("all at once")?,
            Pace::Progressive(Some(limit)) => write!(formatter, "{limit} at a time")?,
            Pace::Progressive(None) => formatter.write_str("as many at a time as a decision group has")?,
            Pace::PerGroup => formatter.write_str("group by group")?,
        }
        for (index, group) in self.mandatory.iter().enumerate() {
            formatter.write_str(if index == 0 { ", beginning with " } else { ", " })?;
            match (group.group_name.as_str(), group.group_index) {
                ("", Some(index)) => write!(formatter, "group {index}")?,
                (name, _) => formatter.write_str(name)?,
            }
        }
        Ok(())
    }
}

fn display_value(written: &IntOrString) -> String {
    match written {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => format!("{text:?}"),
    }
}

impl Strategy {
    /// Parses the strategy of a placement; the error says which field is invalid.
    pub fn read(placement: &PlacementStrategy) -> Result<Self, String> {
        let written = placement.rollout_strategy.clone().unwrap_or_default();
        let strategy = match written.type_ {
            RolloutType::All => {
                // All clusters start at once, so neither the soak time nor failures hold any cluster back.
                let limits = with_limits(&written.all.unwrap_or_default().limits)?;
                Strategy { soak: Duration::ZERO, tolerated: Share::Percent(100), ..limits }
            }
            RolloutType::Progressive => {
                let progressive = written.progressive.unwrap_or_default();
                let concurrency = progressive.max_concurrency.as_ref().map(Share::read).transpose();
                let concurrency = concurrency.map_err(|why| format!("maxConcurrency: {why}"))?;
                Strategy {
                    pace: Pace::Progressive(concurrency),
                    mandatory: progressive.mandatory_decision_groups,
                    ..with_limits(&progressive.limits)?
                }
            }
            RolloutType::ProgressivePerGroup => {
                let per_group = written.progressive_per_group.unwrap_or_default();
                Strategy {
                    pace: Pace::PerGroup,
                    mandatory: per_group.mandatory_decision_groups,
                    ..with_limits(&per_group.limits)?
                }
            }
            RolloutType::Other => return Err("this type of rollout is not known".to_owned()),
        };
        if written.success_criteria == SuccessCriteria::Other {
            return Err("unknown successCriteria".to_owned());
        }
        Ok(Self { criteria: written.success_criteria, paused: placement.paused, ..strategy })
    }
}

/// A strategy for all clusters at once with the given limits.
fn with_limits(limits: &RolloutLimits) -> Result<Strategy, String> {
    let tolerated = limits.max_failures.as_ref().map(Share::read).transpose();
    Ok(Strategy {
        pace: Pace::All,
        criteria: SuccessCriteria::Applied,
        soak: parse_soak_time(limits.min_success_time.as_deref())?,
        deadline: parse_deadline(limits.progress_deadline.as_deref())?,
        tolerated: tolerated.map_err(|why| format!("maxFailures: {why}"))?.unwrap_or(Share::Count(0)),
        mandatory: Vec::new(),
        paused: false,
    })
}

fn parse_soak_time(written: Option<&str>) -> Result<Duration, String> {
    match written {
        None | Some("" | "0") => Ok(Duration::ZERO),
        Some(text) => parse_duration(text)
            .ok_or_else(|| format!("minSuccessTime: {text:?} is not a duration such as 5m or 1h30m")),
    }
}

fn parse_deadline(written: Option<&str>) -> Result<Option<Duration>, String> {
    match written {
        None | Some("" | "None") => Ok(None),
        Some(text) => parse_duration(text).map(Some).ok_or_else(|| {
            format!("progressDeadline: {text:?} is neither a duration such as 5m or 1h30m nor None")
        }),
    }
}

/// Parses a duration such as `1h30m`.
fn parse_duration(text: &str) -> Option<Duration> {
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
    fn default_strategy_changes_all_clusters_at_once() {
        let default = Strategy::read(&PlacementStrategy::default()).unwrap();
        assert_eq!(default.pace, Pace::All);
        assert_eq!(
            (default.soak, default.deadline, default.tolerated),
            (Duration::ZERO, None, Share::Percent(100))
        );
        assert_eq!(read(json!({"type": "All"})).unwrap(), default);
    }

    #[test]
    fn every_field_is_parsed() {
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
    fn invalid_strategy_is_rejected_with_message() {
        let rows = [
            (json!({"type": "Sideways"}), "this type of rollout is not known"),
            (json!({"type": "All", "successCriteria": "Vibes"}), "unknown successCriteria"),
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
                "progressDeadline: \"10mfoo\" is neither a duration such as 5m or 1h30m nor None",
            ),
            (
                json!({"type": "ProgressivePerGroup", "progressivePerGroup": {"minSuccessTime": "soon"}}),
                "minSuccessTime: \"soon\" is not a duration such as 5m or 1h30m",
            ),
        ];
        for (rollout, message) in rows {
            assert_eq!(read(rollout), Err(message.to_owned()));
        }
    }

    #[test]
    fn strategy_is_described_in_short() {
        let rows = [
            (json!({"type": "All"}), "all at once"),
            (json!({"type": "Progressive", "progressive": {"maxConcurrency": "25%"}}), "25% at a time"),
            (json!({"type": "Progressive"}), "as many at a time as a decision group has"),
            (
                json!({"type": "ProgressivePerGroup", "progressivePerGroup": {"mandatoryDecisionGroups": [{"groupName": "canary"}, {"groupIndex": 2}]}}),
                "group by group, beginning with canary, group 2",
            ),
        ];
        for (rollout, expected) in rows {
            assert_eq!(read(rollout).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn percentage_is_rounded_up() {
        let rows = [
            (Share::Count(3), 2, 3),
            (Share::Percent(50), 5, 3),
            (Share::Percent(1), 4, 1),
            (Share::Percent(0), 4, 0),
        ];
        for (share, total, expected) in rows {
            assert_eq!(share.of(total), expected, "{share:?} of {total}");
        }
    }

    proptest! {
        #[test]
        fn parsing_a_duration_never_panics(text in "[0-9hms]{0,12}|.{0,8}") {
            let _ = parse_duration(&text);
        }
    }
}
