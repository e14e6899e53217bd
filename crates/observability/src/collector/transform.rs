//! Decides which samples are forwarded and with which labels: renames, removes and adds labels, and drops old and duplicate
//! samples. Pure; reading and sending are left to others.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::time::Duration;

use super::exposition::LabelValue;
use super::remote_write::{NAME_LABEL, SeriesBuffer};

/// How old a sample may be.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The rules of a collector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelRules {
    /// Labels that every series gets. They replace labels of the source with the same name.
    pub add: Vec<(String, String)>,
    /// New names of metrics by their old names.
    pub rename: HashMap<String, String>,
    /// Labels of the source that are removed.
    pub elide: Vec<String>,
}

impl LabelRules {
    fn is_replaced_or_elided(&self, label: &str) -> bool {
        self.elide.iter().any(|elided| elided == label) || self.add.iter().any(|(added, _)| added == label)
    }
}

/// What the transform decides about a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is forwarded.
    Keep,
    /// It is older than 24 hours.
    TooOld,
    /// The cycle already has a sample of the series.
    Duplicate,
}

/// Applies the rules to the samples of one cycle.
#[derive(Debug)]
pub(crate) struct Transform<'a> {
    rules: &'a LabelRules,
    now: i64,
    oldest: i64,
    /// A hash of each series, with keys that differ between cycles, so that a collision does not last.
    seen: HashSet<u64>,
    hasher: RandomState,
}

impl<'a> Transform<'a> {
    /// A transform for a cycle that begins at a time, in milliseconds since 1970.
    pub(crate) fn new(rules: &'a LabelRules, now: i64) -> Self {
        let max_age = i64::try_from(MAX_AGE.as_millis()).unwrap_or(i64::MAX);
        let oldest = now.saturating_sub(max_age);
        Self { rules, now, oldest, seen: HashSet::new(), hasher: RandomState::new() }
    }

    /// Writes a sample with its new labels into `out`. If it is not kept, what is in `out` is of no use.
    pub(crate) fn apply<'l>(
        &mut self,
        name: &str,
        labels: impl Iterator<Item = (&'l str, LabelValue<'l>)>,
        value: f64,
        timestamp: Option<i64>,
        out: &mut SeriesBuffer,
    ) -> Verdict {
        let timestamp = timestamp.unwrap_or(self.now).min(self.now);
        if timestamp < self.oldest {
            return Verdict::TooOld;
        }
        out.clear();
        let name = self.rules.rename.get(name).map_or(name, String::as_str);
        out.add_label(NAME_LABEL, |out| out.push_str(name));
        for (name, value) in &self.rules.add {
            out.add_label(name, |out| out.push_str(value));
        }
        for (name, value) in labels {
            if !value.is_empty() && !self.rules.is_replaced_or_elided(name) {
                out.add_label(name, |out| value.append_to(out));
            }
        }
        out.sort_labels();
        out.set_sample(value, timestamp);
        if self.is_first_of_its_series(out) { Verdict::Keep } else { Verdict::Duplicate }
    }

    fn is_first_of_its_series(&mut self, series: &SeriesBuffer) -> bool {
        let mut hasher = self.hasher.build_hasher();
        for label in series.labels() {
            label.hash(&mut hasher);
        }
        self.seen.insert(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const NOW: i64 = 1_700_000_000_000;
    const DAY: i64 = 24 * 60 * 60 * 1000;

    fn rules() -> LabelRules {
        let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
        LabelRules {
            add: vec![pair("cluster", "spoke-1"), pair("clusterID", "42")],
            rename: HashMap::from([pair("old_name", "new_name")]),
            elide: ["prometheus", "prometheus_replica"].map(String::from).to_vec(),
        }
    }

    type Labels<'a> = &'a [(&'a str, &'a str)];

    fn apply(
        transform: &mut Transform<'_>,
        name: &str,
        labels: Labels<'_>,
        timestamp: Option<i64>,
        out: &mut SeriesBuffer,
    ) -> Verdict {
        let labels = labels.iter().map(|(name, value)| (*name, LabelValue::plain(value)));
        transform.apply(name, labels, 1.5, timestamp, out)
    }

    #[rstest]
    #[case::labels_are_added("up", &[("job", "a")], "up", &[("cluster", "spoke-1"), ("clusterID", "42"), ("job", "a")])]
    #[case::added_labels_replace("up", &[("cluster", "other")], "up", &[("cluster", "spoke-1"), ("clusterID", "42")])]
    #[case::metrics_are_renamed("old_name", &[], "new_name", &[("cluster", "spoke-1"), ("clusterID", "42")])]
    #[case::labels_are_elided("up", &[("prometheus", "k8s"), ("prometheus_replica", "0")], "up", &[("cluster", "spoke-1"), ("clusterID", "42")])]
    #[case::empty_labels_are_dropped("up", &[("instance", "")], "up", &[("cluster", "spoke-1"), ("clusterID", "42")])]
    #[case::the_first_of_two_labels_is_kept("up", &[("job", "a"), ("job", "b")], "up", &[("cluster", "spoke-1"), ("clusterID", "42"), ("job", "a")])]
    #[case::a_name_among_the_labels_is_dropped("up", &[("__name__", "other")], "up", &[("cluster", "spoke-1"), ("clusterID", "42")])]
    #[case::labels_are_sorted("up", &[("z", "1"), ("A", "2")], "up", &[("A", "2"), ("cluster", "spoke-1"), ("clusterID", "42"), ("z", "1")])]
    fn labels_of_a_sample(
        #[case] name: &str,
        #[case] labels: Labels<'_>,
        #[case] new_name: &str,
        #[case] new_labels: Labels<'_>,
    ) {
        let (rules, mut out) = (rules(), SeriesBuffer::default());
        let verdict = apply(&mut Transform::new(&rules, NOW), name, labels, None, &mut out);
        assert_eq!(verdict, Verdict::Keep);
        let mut expected = new_labels.to_vec();
        expected.push((NAME_LABEL, new_name));
        expected.sort_unstable();
        let found: Vec<_> =
            out.labels().iter().map(|label| (label.name.as_str(), label.value.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case::without_a_timestamp_it_is_of_now(None, Some(NOW))]
    #[case::a_past_timestamp_is_kept(Some(NOW - 1), Some(NOW - 1))]
    #[case::the_last_day_is_kept(Some(NOW - DAY), Some(NOW - DAY))]
    #[case::older_samples_are_dropped(Some(NOW - DAY - 1), None)]
    #[case::the_lowest_timestamp_is_dropped(Some(i64::MIN), None)]
    #[case::a_future_timestamp_becomes_now(Some(NOW + 5), Some(NOW))]
    #[case::the_highest_timestamp_becomes_now(Some(i64::MAX), Some(NOW))]
    fn time_of_a_sample(#[case] timestamp: Option<i64>, #[case] expected: Option<i64>) {
        let (rules, mut out) = (rules(), SeriesBuffer::default());
        let verdict = apply(&mut Transform::new(&rules, NOW), "up", &[], timestamp, &mut out);
        match expected {
            Some(expected) => assert_eq!(out.series().samples[0].timestamp, expected),
            None => assert_eq!(verdict, Verdict::TooOld),
        }
    }

    #[test]
    fn only_the_first_sample_of_a_series_is_kept() {
        let (rules, mut out) = (rules(), SeriesBuffer::default());
        let mut transform = Transform::new(&rules, NOW);
        let mut verdict =
            |name: &str, labels: Labels<'_>| apply(&mut transform, name, labels, None, &mut out);
        assert_eq!(verdict("up", &[("job", "a"), ("prometheus_replica", "0")]), Verdict::Keep);
        assert_eq!(verdict("up", &[("prometheus_replica", "1"), ("job", "a")]), Verdict::Duplicate);
        assert_eq!(verdict("up", &[("job", "b")]), Verdict::Keep);
        assert_eq!(verdict("up", &[("jo", "bb")]), Verdict::Keep);
        assert_eq!(verdict("old_name", &[]), Verdict::Keep);
        assert_eq!(verdict("new_name", &[]), Verdict::Duplicate, "after the rename it is the same series");
        let mut next_cycle = Transform::new(&rules, NOW);
        assert_eq!(apply(&mut next_cycle, "up", &[("job", "b")], None, &mut out), Verdict::Keep);
    }
}
