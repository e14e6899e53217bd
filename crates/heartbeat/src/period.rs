//! How often an add-on beats, as far as its instance says something sensible.

use std::time::Duration;

use crate::duration;

/// How often an add-on beats.
///
/// Whatever an instance says, there is a period: what makes no sense counts as the default, and what is too short or
/// too long is held to the bounds.
///
/// ```
/// use std::time::Duration;
/// use bellwether_heartbeat::Period;
///
/// assert_eq!(Period::of(Some("1m30s")).effective(), Duration::from_secs(90));
/// assert_eq!(Period::of(Some("banana")).effective(), Period::DEFAULT);
/// assert_eq!(Period::of(Some("1ms")).effective(), Duration::from_secs(1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    effective: Duration,
    shortcoming: Option<Shortcoming>,
}

/// Why an instance's own text is not its period.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Shortcoming {
    /// There is none.
    #[error("spec.heartbeatUpdatePeriod is not set")]
    Missing,
    /// It is no duration.
    #[error("spec.heartbeatUpdatePeriod: {0}")]
    Unreadable(#[from] duration::NotADuration),
    /// It is zero or less.
    #[error("spec.heartbeatUpdatePeriod is {0:?}, which is not above zero")]
    NotPositive(String),
}

impl Period {
    /// What counts where an instance says nothing sensible.
    pub const DEFAULT: Duration = Duration::from_secs(10);
    /// The default as it is written.
    pub const DEFAULT_TEXT: &str = "10s";
    pub(crate) const SHORTEST: Duration = Duration::from_secs(1);
    pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

    /// The period of an instance whose spec has this text.
    pub fn of(text: Option<&str>) -> Self {
        match read(text) {
            Ok(asked) => Self { effective: asked.clamp(Self::SHORTEST, Self::LONGEST), shortcoming: None },
            Err(shortcoming) => Self { effective: Self::DEFAULT, shortcoming: Some(shortcoming) },
        }
    }

    /// The period that counts.
    pub fn effective(&self) -> Duration {
        self.effective
    }

    /// What is wrong with the text, where the default counts instead.
    pub fn shortcoming(&self) -> Option<&Shortcoming> {
        self.shortcoming.as_ref()
    }
}

fn read(text: Option<&str>) -> Result<Duration, Shortcoming> {
    let text = text.ok_or(Shortcoming::Missing)?;
    let asked = duration::parse(text)?;
    match Duration::try_from(asked) {
        Ok(asked) if !asked.is_zero() => Ok(asked),
        _ => Err(Shortcoming::NotPositive(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_has_a_period() {
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
        for (text, millis, sensible) in rows {
            let period = Period::of(text);
            assert_eq!(period.effective(), Duration::from_millis(millis), "{text:?}");
            assert_eq!(period.shortcoming().is_none(), sensible, "{text:?}");
        }
    }
}
