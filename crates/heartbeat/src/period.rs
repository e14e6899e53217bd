//! The heartbeat period of an AddonInstance, with a default for invalid values. Reporting an invalid value is left to the
//! caller.

use std::time::Duration;

use crate::duration;

/// How often an add-on sends heartbeats.
///
/// Every value of `spec.heartbeatUpdatePeriod` results in a period: the default replaces an invalid value, and a valid one
/// is limited to 1s to 24h.
///
/// ```
/// use std::time::Duration;
/// use bellwether_heartbeat::Period;
///
/// assert_eq!(Period::from_spec(Some("1m30s")).effective(), Duration::from_secs(90));
/// assert_eq!(Period::from_spec(Some("banana")).effective(), Period::DEFAULT);
/// assert_eq!(Period::from_spec(Some("1ms")).effective(), Duration::from_secs(1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    effective: Duration,
    validation_error: Option<InvalidPeriod>,
}

/// Why `spec.heartbeatUpdatePeriod` is invalid, so that the default is used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPeriod {
    /// The field is not set.
    #[error("spec.heartbeatUpdatePeriod is not set")]
    Missing,
    /// The value is not a duration.
    #[error("spec.heartbeatUpdatePeriod: {0}")]
    NotADuration(#[from] duration::InvalidDuration),
    /// The value is zero or negative.
    #[error("spec.heartbeatUpdatePeriod is {0:?}, but must be > 0")]
    NotPositive(String),
}

impl Period {
    /// The period that is used instead of an invalid value.
    pub const DEFAULT: Duration = Duration::from_secs(10);
    /// The default, as a Go duration.
    pub const DEFAULT_TEXT: &str = "10s";
    pub(crate) const MIN: Duration = Duration::from_secs(1);
    pub(crate) const MAX: Duration = Duration::from_secs(24 * 60 * 60);

    /// The period of an instance with this value of `spec.heartbeatUpdatePeriod`.
    pub fn from_spec(text: Option<&str>) -> Self {
        match parse(text) {
            Ok(period) => Self { effective: period.clamp(Self::MIN, Self::MAX), validation_error: None },
            Err(error) => Self { effective: Self::DEFAULT, validation_error: Some(error) },
        }
    }

    /// The period that is used.
    pub fn effective(&self) -> Duration {
        self.effective
    }

    /// Why the value is invalid, if it is; the default is used then.
    pub fn validation_error(&self) -> Option<&InvalidPeriod> {
        self.validation_error.as_ref()
    }
}

fn parse(text: Option<&str>) -> Result<Duration, InvalidPeriod> {
    let text = text.ok_or(InvalidPeriod::Missing)?;
    let period = duration::parse(text)?;
    match Duration::try_from(period) {
        Ok(period) if !period.is_zero() => Ok(period),
        _ => Err(InvalidPeriod::NotPositive(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_periods_become_the_default_and_others_are_limited() {
        const DAY: u64 = 24 * 60 * 60 * 1000;
        let rows: [(Option<&str>, u64, bool); 10] = [
            (Some("10s"), 10_000, true),
            (Some("2s"), 2_000, true),
            (Some("1.5s"), 1_500, true),
            (Some("100ms"), 1_000, true),
            (Some("1000h"), DAY, true),
            (Some("0s"), 10_000, false),
            (Some("-5s"), 10_000, false),
            (Some("banana"), 10_000, false),
            (Some(""), 10_000, false),
            (None, 10_000, false),
        ];
        for (text, millis, is_valid) in rows {
            let period = Period::from_spec(text);
            assert_eq!(period.effective(), Duration::from_millis(millis), "{text:?}");
            assert_eq!(period.validation_error().is_none(), is_valid, "{text:?}");
        }
    }
}
