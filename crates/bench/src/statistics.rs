//! Statistics: quantiles of latencies, medians of runs.

use std::time::Duration;

/// Samples of a latency.
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

    /// The quantile `part`, from 0 to 1, in milliseconds. It is `None` without samples.
    pub(crate) fn quantile_millis(&mut self, part: f64) -> Option<f64> {
        self.0.sort_unstable();
        let rank = (part * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).map(|took| took.as_secs_f64() * 1000.0)
    }
}

/// The median: the middle value, or the mean of the two middle values. It is `None` without values.
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
    fn quantile_is_the_smallest_sample_that_covers_its_part() {
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
    fn samples_of_several_clients_are_combined() {
        let mut all = latencies([1, 2]);
        all.append(latencies([9]));
        assert_eq!((all.count(), all.quantile_millis(1.0)), (3, Some(9.0)));
    }

    #[test]
    fn median_ignores_one_outlier() {
        for (values, expected) in [
            (&[3.0, 1000.0, 1.0, 2.0, 4.0][..], Some(3.0)),
            (&[1.0, 2.0], Some(1.5)),
            (&[5.0], Some(5.0)),
            (&[], None),
        ] {
            assert_eq!(median(values), expected, "{values:?}");
        }
    }
}
