//! Decides when a component reports success or failure, from the results of its workers. Pure; the cycles and the reports are
//! left to others.

use std::num::NonZeroU32;

use super::cycle::{CycleError, Forwarded};
use crate::vocabulary::ComponentReason;

/// The report after a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The state of the component.
    pub reason: ComponentReason,
    /// Why.
    pub message: String,
}

/// The result of one worker's cycle.
pub(crate) type CycleOutcome = Result<Forwarded, CycleError>;

/// Counts failed passes of a component. A pass is one cycle of every worker; it fails if one of them fails.
///
/// It starts without a state: after a restart nothing is reported until a pass has ended.
#[derive(Debug)]
pub(crate) struct OutcomeTracker {
    threshold: NonZeroU32,
    failures: u32,
}

impl OutcomeTracker {
    /// A tracker that reports a failure after this many failed passes in a row.
    pub(crate) fn new(threshold: NonZeroU32) -> Self {
        Self { threshold, failures: 0 }
    }

    /// Takes the results of a pass, one per worker, and returns what to report.
    pub(crate) fn observe(&mut self, pass: &[CycleOutcome]) -> Option<Report> {
        let Some(message) = failure_message(pass) else {
            self.failures = 0;
            let any_sent = pass.iter().any(|outcome| matches!(outcome, Ok(Forwarded::Sent)));
            let message = if any_sent { Forwarded::Sent } else { Forwarded::Nothing }.to_string();
            return Some(Report { reason: ComponentReason::ForwardSuccessful, message });
        };
        self.failures = self.failures.saturating_add(1);
        (self.failures >= self.threshold.get())
            .then_some(Report { reason: ComponentReason::ForwardFailure, message })
    }

    /// The number of failed passes since the last success.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }
}

/// The first failure of a pass and, if there are several workers, how many failed.
pub(crate) fn failure_message(pass: &[CycleOutcome]) -> Option<String> {
    let mut failures = pass.iter().filter_map(|outcome| outcome.as_ref().err());
    let first = failures.next()?.to_string();
    let failed = 1 + failures.count();
    match pass.len() {
        1 => Some(first),
        workers => Some(format!("{first} ({failed} of {workers} workers failed)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The workers of one pass: `s` sent metrics, `n` had none, `r` could not retrieve them, `q` could not evaluate rules, and
    /// `w` could not write them.
    fn pass(workers: &str) -> Vec<CycleOutcome> {
        let outcome = |worker| match worker {
            's' => Ok(Forwarded::Sent),
            'n' => Ok(Forwarded::Nothing),
            'r' => Err(CycleError::Retrieve("down".into())),
            'q' => Err(CycleError::RetrieveRecording("down".into())),
            'w' => Err(CycleError::Send("down".into())),
            other => panic!("{other:?} is no outcome"),
        };
        workers.chars().map(outcome).collect()
    }

    /// What is reported after each pass: `-` is nothing, `+` a success, `!` a failure.
    fn reports(threshold: u32, passes: &str) -> String {
        let mut tracker = OutcomeTracker::new(NonZeroU32::new(threshold).unwrap());
        let report = |workers| match tracker.observe(&pass(workers)) {
            None => '-',
            Some(Report { reason: ComponentReason::ForwardSuccessful, .. }) => '+',
            Some(_) => '!',
        };
        passes.split_whitespace().map(report).collect()
    }

    #[test]
    fn reports_after_each_pass() {
        let rows = [
            ("a success is reported at once", 3, "s", "+"),
            ("every success is reported, so that a lost status is restored", 3, "s s n", "+++"),
            ("two failures are not reported", 3, "w w", "--"),
            ("two failures and a success are never a failure", 3, "w w s w w s w w s", "--+--+--+"),
            ("three failures are reported", 3, "w w w", "--!"),
            ("further failures too, because the cause may change", 3, "r r r w w", "--!!!"),
            ("a success ends the failure at once", 3, "w w w s", "--!+"),
            ("after it, three failures are needed again", 3, "w w w s w w w", "--!+--!"),
            ("causes are counted together", 3, "r q w", "--!"),
            ("the threshold can be 1", 1, "w s w", "!+!"),
            ("the threshold can be higher", 5, "w w w w w", "----!"),
            ("one failed worker of two is a failure", 3, "sw sw sw", "--!"),
            ("another worker's success does not end it", 3, "sw ws sw ws", "--!!"),
            ("a worker without metrics does not end it", 3, "nw nw nw nw", "--!!"),
            ("only a pass without failures ends it", 3, "sw sw sw ss sw", "--!+-"),
            ("failures of several workers in one pass count once", 3, "ww ww", "--"),
        ];
        for (sentence, threshold, passes, expected) in rows {
            assert_eq!(reports(threshold, passes), expected, "{sentence}");
        }
    }

    #[test]
    fn every_sequence_of_six_passes_is_reported_by_the_rule() {
        for bits in 0_u32..64 {
            let passes: Vec<bool> = (0..6).map(|index| bits >> index & 1 == 1).collect();
            let text: Vec<&str> =
                passes.iter().map(|succeeded| if *succeeded { "ns" } else { "sw" }).collect();
            let mut in_a_row = 0;
            let mut expected = String::new();
            for succeeded in passes {
                in_a_row = if succeeded { 0 } else { in_a_row + 1 };
                expected.push(match in_a_row {
                    0 => '+',
                    1 | 2 => '-',
                    _ => '!',
                });
            }
            assert_eq!(reports(3, &text.join(" ")), expected, "{text:?}");
        }
    }

    #[test]
    fn message_is_that_of_the_first_failed_worker() {
        let rows = [
            ("s", "Cluster metrics sent successfully"),
            ("n", "No metrics to send"),
            ("ns", "Cluster metrics sent successfully"),
            ("nn", "No metrics to send"),
            ("r", "Failed to retrieve metrics: down"),
            ("q", "Failed to retrieve recording metrics: down"),
            ("w", "Failed to send metrics: down"),
            ("swr", "Failed to send metrics: down (2 of 3 workers failed)"),
            ("ww", "Failed to send metrics: down (2 of 2 workers failed)"),
        ];
        for (workers, message) in rows {
            let mut tracker = OutcomeTracker::new(NonZeroU32::MIN);
            assert_eq!(tracker.observe(&pass(workers)).unwrap().message, message, "{workers}");
        }
    }
}
