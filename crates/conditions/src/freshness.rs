//! Silence, measured.
//!
//! A sender promises to be heard within some time. [`Beat`] is the evidence that we have of it,
//! [`Freshness::judge`] says whether that is still fresh at a given instant, and when to look again. No clock
//! is read and no timer is kept.
//!
//! **Instants that an observer hands in (`seen`, `now`) must come from one clock that does not step**; the
//! stamps are the sender's, whose clock may be wrong in either direction.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The last sign of life of a sender, as an observer has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Beat {
    /// The time that the sender gave.
    stamp: Timestamp,
    /// When the observer first saw this stamp.
    seen: Timestamp,
    sight: Sight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Sight {
    /// It was there when the observer came: the stamp is the only evidence of when it was sent.
    Found,
    /// It took the place of another while the observer looked: the sender was alive then, whatever its clock
    /// says.
    Arrived,
}

impl Beat {
    /// What is known after seeing `stamp` at `now`. Any change of the stamp is a beat, even to an earlier time;
    /// the same stamp again is none.
    #[must_use]
    pub fn observe(previous: Option<Beat>, stamp: Timestamp, now: Timestamp) -> Beat {
        match previous {
            Some(beat) if beat.stamp == stamp => beat,
            Some(_) => Beat::arrived(stamp, now),
            None => Beat { stamp, seen: now, sight: Sight::Found },
        }
    }

    /// A stamp that the observer saw come where none was before, at `now`.
    pub fn arrived(stamp: Timestamp, now: Timestamp) -> Beat {
        Beat { stamp, seen: now, sight: Sight::Arrived }
    }

    /// A sign of life that the observer itself has witnessed or given, on its own clock.
    pub fn witnessed(at: Timestamp) -> Beat {
        Beat::arrived(at, at)
    }
}

/// Which side the limit itself is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// Silence is stale from the limit on.
    StaleAtLimit,
    /// Silence is stale only past the limit.
    FreshAtLimit,
}

/// How long a silence is tolerated, and how far a sender's clock is believed.
///
/// ```
/// use std::time::Duration;
/// use bellwether_conditions::freshness::{Beat, Freshness, Judgement};
///
/// let start = "2024-05-01T10:00:00Z".parse()?;
/// let timeout = "2024-05-01T10:00:30Z".parse()?;
/// let beat = Beat::observe(None, start, start);
///
/// let three_periods = Freshness::of_period(Duration::from_secs(10), 3);
/// assert_eq!(three_periods.judge(Some(&beat), start), Judgement::Fresh { last: start, until: timeout });
/// assert_eq!(three_periods.judge(Some(&beat), timeout), Judgement::Stale { last: start, since: timeout });
/// assert_eq!(three_periods.judge(None, timeout), Judgement::Never);
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    /// The silence that is tolerated.
    pub limit: Duration,
    /// Which side the limit itself is on.
    pub boundary: Boundary,
    /// How far ahead of the observer a stamp may be and still be believed; beyond, the observation counts.
    pub lead: Duration,
}

impl Freshness {
    /// For a sender that promises a beat every `period`: stale once `periods` of them have gone by, and a stamp
    /// of more than one period ahead is not believed.
    pub fn of_period(period: Duration, periods: u32) -> Self {
        Self { limit: period.saturating_mul(periods), boundary: Boundary::StaleAtLimit, lead: period }
    }

    /// For news that expire: stale when older than `limit`, and a stamp of more than `limit` ahead is not
    /// believed.
    pub fn within(limit: Duration) -> Self {
        Self { limit, boundary: Boundary::FreshAtLimit, lead: limit }
    }

    /// Whether the beat is fresh at `now`.
    ///
    /// The judgement depends on `now` only by comparing it with one fixed instant: until the next beat, what is
    /// stale stays stale.
    pub fn judge(&self, beat: Option<&Beat>, now: Timestamp) -> Judgement {
        let Some(beat) = beat else { return Judgement::Never };
        let last = self.last_sign(beat);
        let stale_from = match self.boundary {
            Boundary::StaleAtLimit => after(last, self.limit),
            Boundary::FreshAtLimit => after(after(last, self.limit), Duration::from_nanos(1)),
        };
        if now < stale_from {
            Judgement::Fresh { last, until: stale_from }
        } else {
            Judgement::Stale { last, since: stale_from }
        }
    }

    /// When the sender was last alive, as far as we can tell.
    fn last_sign(&self, beat: &Beat) -> Timestamp {
        // Measured when the stamp was seen, not now: otherwise a stamp of the future would be believed later,
        // and bring a sender back to life that has been silent all along.
        if beat.stamp > after(beat.seen, self.lead) {
            return beat.seen;
        }
        match beat.sight {
            Sight::Found => beat.stamp,
            Sight::Arrived => beat.stamp.max(beat.seen),
        }
    }
}

/// What silence means at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// There has never been a beat.
    Never,
    /// The sender was heard recently enough.
    Fresh {
        /// The last sign of life.
        last: Timestamp,
        /// The first instant at which it is stale, unless there is another beat.
        until: Timestamp,
    },
    /// The sender has been silent for too long.
    Stale {
        /// The last sign of life.
        last: Timestamp,
        /// The first instant at which it was stale.
        since: Timestamp,
    },
}

impl Judgement {
    /// When to judge again if no beat comes; `None` where only a beat can change the judgement.
    pub fn next_change(self) -> Option<Timestamp> {
        match self {
            Judgement::Fresh { until, .. } => Some(until),
            Judgement::Never | Judgement::Stale { .. } => None,
        }
    }

    /// Whether the sender has been silent for too long.
    pub fn is_stale(self) -> bool {
        matches!(self, Judgement::Stale { .. })
    }
}

fn after(instant: Timestamp, duration: Duration) -> Timestamp {
    instant.checked_add(duration).unwrap_or(Timestamp::MAX)
}
