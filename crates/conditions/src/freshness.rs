//! Whether the last heartbeat or report of a sender is recent enough.
//!
//! [`Beat`] is the last heartbeat of a sender, as an observer received it. [`Freshness::judge`] determines whether it is fresh
//! at a given time, and when it becomes stale. Reading the clock and waiting are left to the caller.
//!
//! **Invariant:** the times of the observer (`seen`, `now`) must come from one monotonic clock. The timestamps come from the
//! sender, whose clock may be wrong in either direction.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The last heartbeat of a sender, as an observer received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Beat {
    /// The timestamp of the sender.
    stamp: Timestamp,
    /// When the observer first received this timestamp.
    seen: Timestamp,
    sight: Sight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Sight {
    /// It existed when the observer started, so only its timestamp tells when it was sent.
    Found,
    /// It arrived while the observer was running, so the sender was alive at that time, even if its clock is wrong.
    Arrived,
}

impl Beat {
    /// Returns the last heartbeat after receiving `stamp` at `now`. Any change of the timestamp is a heartbeat, even to an
    /// earlier time; the same timestamp again is not.
    #[must_use]
    pub fn observe(previous: Option<Beat>, stamp: Timestamp, now: Timestamp) -> Beat {
        match previous {
            Some(heartbeat) if heartbeat.stamp == stamp => heartbeat,
            Some(_) => Beat::arrived(stamp, now),
            None => Beat { stamp, seen: now, sight: Sight::Found },
        }
    }

    /// A heartbeat that arrived at `now`, when there was none before.
    pub fn arrived(stamp: Timestamp, now: Timestamp) -> Beat {
        Beat { stamp, seen: now, sight: Sight::Arrived }
    }

    /// A heartbeat at `at` by the clock of the observer.
    pub fn witnessed(at: Timestamp) -> Beat {
        Beat::arrived(at, at)
    }
}

/// Whether a heartbeat is stale when its age is exactly the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// Stale if the age is greater than or equal to the limit.
    StaleAtLimit,
    /// Stale if the age is greater than the limit.
    FreshAtLimit,
}

/// How old the last heartbeat may be, and how far ahead the clock of a sender may be.
///
/// ```
/// use std::time::Duration;
/// use bellwether_conditions::freshness::{Beat, Freshness, Judgement};
///
/// let start = "2024-05-01T10:00:00Z".parse()?;
/// let timeout = "2024-05-01T10:00:30Z".parse()?;
/// let heartbeat = Beat::observe(None, start, start);
///
/// let three_periods = Freshness::of_period(Duration::from_secs(10), 3);
/// assert_eq!(three_periods.judge(Some(&heartbeat), start), Judgement::Fresh { last: start, until: timeout });
/// assert_eq!(three_periods.judge(Some(&heartbeat), timeout), Judgement::Stale { last: start, since: timeout });
/// assert_eq!(three_periods.judge(None, timeout), Judgement::Never);
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    /// The maximum age of the last heartbeat.
    pub limit: Duration,
    /// Whether a heartbeat is stale when its age is exactly the limit.
    pub boundary: Boundary,
    /// How far ahead of the observer's clock a timestamp may be. If it is further ahead, it is ignored, and the time of receipt
    /// is used.
    pub max_clock_lead: Duration,
}

impl Freshness {
    /// For a sender with a heartbeat every `period`: stale after this many `periods`. A timestamp that is more than one period
    /// ahead is ignored.
    pub fn of_period(period: Duration, periods: u32) -> Self {
        Self {
            limit: period.saturating_mul(periods),
            boundary: Boundary::StaleAtLimit,
            max_clock_lead: period,
        }
    }

    /// For reports that expire: stale if older than `limit`. A timestamp that is more than `limit` ahead is ignored.
    pub fn within(limit: Duration) -> Self {
        Self { limit, boundary: Boundary::FreshAtLimit, max_clock_lead: limit }
    }

    /// Determines whether the last heartbeat is fresh at `now`.
    ///
    /// A stale heartbeat stays stale until the next heartbeat, because `now` is only compared with one fixed time.
    pub fn judge(&self, heartbeat: Option<&Beat>, now: Timestamp) -> Judgement {
        let Some(heartbeat) = heartbeat else { return Judgement::Never };
        let last = self.last_alive(heartbeat);
        let stale_from = match self.boundary {
            Boundary::StaleAtLimit => add_saturating(last, self.limit),
            Boundary::FreshAtLimit => {
                add_saturating(add_saturating(last, self.limit), Duration::from_nanos(1))
            }
        };
        if now < stale_from {
            Judgement::Fresh { last, until: stale_from }
        } else {
            Judgement::Stale { last, since: stale_from }
        }
    }

    /// When the sender was last alive, as far as the observer can determine.
    fn last_alive(&self, heartbeat: &Beat) -> Timestamp {
        // The comparison uses the time of receipt, not the current time. Otherwise a timestamp in the future would become valid
        // later, and a sender that is silent all the time would count as alive again.
        if heartbeat.stamp > add_saturating(heartbeat.seen, self.max_clock_lead) {
            return heartbeat.seen;
        }
        match heartbeat.sight {
            Sight::Found => heartbeat.stamp,
            Sight::Arrived => heartbeat.stamp.max(heartbeat.seen),
        }
    }
}

/// Whether a sender is alive at a given time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// There has been no heartbeat yet.
    Never,
    /// The last heartbeat is recent enough.
    Fresh {
        /// When the sender was last alive.
        last: Timestamp,
        /// When it becomes stale, unless another heartbeat arrives.
        until: Timestamp,
    },
    /// The last heartbeat is too old.
    Stale {
        /// When the sender was last alive.
        last: Timestamp,
        /// When it became stale.
        since: Timestamp,
    },
}

impl Judgement {
    /// When the judgement changes if no heartbeat arrives; `None` if only a heartbeat can change it.
    pub fn next_change(self) -> Option<Timestamp> {
        match self {
            Judgement::Fresh { until, .. } => Some(until),
            Judgement::Never | Judgement::Stale { .. } => None,
        }
    }

    /// Whether the last heartbeat is too old.
    pub fn is_stale(self) -> bool {
        matches!(self, Judgement::Stale { .. })
    }
}

fn add_saturating(instant: Timestamp, duration: Duration) -> Timestamp {
    instant.checked_add(duration).unwrap_or(Timestamp::MAX)
}
