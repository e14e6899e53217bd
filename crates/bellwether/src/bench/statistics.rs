//! From samples to figures: quantiles of latencies, medians of rounds.

use std::time::Duration;

/// How long each of many things took.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The latency that this part of all samples does not exceed, in milliseconds; nothing without samples.
    pub(crate) fn quantile_millis(&mut self, part: f64) -> Option<f64> {
        self.0.sort_unstable();
        let rank = (part * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).map(|took| took.as_secs_f64() * 1000.0)
    }
}

/// The value in the middle, or between the two in the middle; nothing without values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(millis: impl IntoIterator<Item = u64>) -> Latencies {
        Latencies(millis.into_iter().map(Duration::from_millis).collect())
    }

    #[test]
    fn a_quantile_is_the_smallest_sample_that_covers_its_part() {
        for (samples, part, expected) in [
            ((1..=100).rev().collect::<Vec<_>>(), 0.5, Some(50.0)),
            ((1..=100).collect(), 0.99, Some(99.0)),
            ((1..=100).collect(), 1.0, Some(100.0)),
            (vec![7, 3, 5], 0.5, Some(5.0)),
            (vec![7, 3, 5], 0.99, Some(7.0)),
            (vec![4], 0.5, Some(4.0)),
            (vec![], 0.5, None),
        ] {
            assert_eq!(latencies(samples.clone()).quantile_millis(part), expected, "{part} of {samples:?}");
        }
    }

    #[test]
    fn samples_of_several_clients_count_together() {
        let mut all = latencies([1, 2]);
        all.append(latencies([9]));
        assert_eq!((all.count(), all.quantile_millis(1.0)), (3, Some(9.0)));
    }

    #[test]
    fn a_median_does_not_care_for_one_odd_round() {
        for (rounds, expected) in [
            (&[3.0, 1000.0, 1.0, 2.0, 4.0][..], Some(3.0)),
            (&[1.0, 2.0], Some(1.5)),
            (&[5.0], Some(5.0)),
            (&[], None),
        ] {
            assert_eq!(median(rounds), expected, "{rounds:?}");
        }
    }
}
