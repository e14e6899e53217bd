//! The decision cycles of Sentinel while all resources are Ready: how long each takes, and what it costs.
//!
//! Sentinel measures the duration of a cycle itself: the time of its evaluations, without the changes that it handles between them.

use std::time::{Duration, Instant};

use super::process::{Metrics, Sentinel};
use crate::statistics::Latencies;

/// How long Sentinel may take to read and evaluate all resources, for each thousand of them, and in addition.
const SYNC_TIMEOUT_PER_THOUSAND: Duration = Duration::from_secs(2);
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a cycle may take, with the time until it begins.
const CYCLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The measured cycles.
pub(super) struct Cycles {
    pub(super) durations: Latencies,
    /// The CPU time of the process per cycle.
    pub(super) cpu_per_cycle: Duration,
    /// The part of one core that the process used, from 0.
    pub(super) cpu_share: f64,
}

/// Waits until Sentinel has received and evaluated every resource, and returns the time from its start to the last evaluation.
pub(super) async fn wait_for_sync(sentinel: &mut Sentinel, resources: usize) -> anyhow::Result<Duration> {
    let timeout = SYNC_TIMEOUT + SYNC_TIMEOUT_PER_THOUSAND * u32::try_from(resources / 1000)?;
    let mut sync = Sync::new(resources);
    loop {
        let metrics = sentinel.poll_metrics().await?;
        let now = sentinel.started.elapsed();
        if let Some(synced) = sync.update(metrics, now) {
            return Ok(synced);
        }
        anyhow::ensure!(
            now < timeout,
            "Sentinel has received {} of {resources} resources within {timeout:?}",
            metrics.resources
        );
    }
}

/// Finds the time at which the last resource was evaluated after it had arrived. The number of resources is known only at the
/// end of a cycle, which can be seconds later, and a cycle evaluates all resources again.
struct Sync {
    resources: f64,
    last: Metrics,
    evaluated: Duration,
}

impl Sync {
    fn new(resources: usize) -> Self {
        Self { resources: resources as f64, last: Metrics::default(), evaluated: Duration::ZERO }
    }

    /// Notes the metrics at a time, and returns the time of the last evaluation if all resources have arrived.
    fn update(&mut self, metrics: Metrics, now: Duration) -> Option<Duration> {
        let evaluations = |metrics: Metrics| metrics.skipped + metrics.published;
        let is_complete = metrics.resources >= self.resources;
        let has_cycle_ended = metrics.cycles > self.last.cycles;
        let has_evaluated = evaluations(metrics) > evaluations(self.last);
        if has_evaluated && !(has_cycle_ended && is_complete) {
            self.evaluated = now;
        }
        self.last = metrics;
        is_complete.then_some(self.evaluated)
    }
}

/// Measures a number of cycles.
pub(super) async fn measure_cycles(sentinel: &mut Sentinel, count: usize) -> anyhow::Result<Cycles> {
    // The measurement begins with the end of a cycle, so that it has whole cycles.
    let mut before = wait_for_cycle(sentinel).await?;
    let (begun, cpu) = (Instant::now(), sentinel.process.cpu_time()?);
    let mut durations = Latencies::default();
    for _ in 0..count {
        let after = wait_for_cycle_after(sentinel, before).await?;
        let cycles = after.cycles - before.cycles;
        durations.add(Duration::from_secs_f64((after.cycle_seconds - before.cycle_seconds) / cycles));
        before = after;
    }
    let cpu = sentinel.process.cpu_time()?.saturating_sub(cpu);
    Ok(Cycles {
        durations,
        cpu_per_cycle: cpu / u32::try_from(count.max(1))?,
        cpu_share: cpu.as_secs_f64() / begun.elapsed().as_secs_f64(),
    })
}

async fn wait_for_cycle(sentinel: &mut Sentinel) -> anyhow::Result<Metrics> {
    let now = sentinel.poll_metrics().await?;
    wait_for_cycle_after(sentinel, now).await
}

/// Waits until another cycle has ended.
async fn wait_for_cycle_after(sentinel: &mut Sentinel, before: Metrics) -> anyhow::Result<Metrics> {
    let begun = Instant::now();
    while begun.elapsed() < CYCLE_TIMEOUT {
        let metrics = sentinel.poll_metrics().await?;
        if metrics.cycles > before.cycles {
            return Ok(metrics);
        }
    }
    anyhow::bail!("Sentinel has not ended a cycle within {CYCLE_TIMEOUT:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sync_ends_with_the_last_evaluation_and_not_with_the_cycle_after_it() {
        let mut sync = Sync::new(30);
        for (cycles, resources, skipped, seconds, expected) in [
            (1.0, 0.0, 10.0, 1, None),
            // The cycle has evaluated 20 resources again.
            (2.0, 25.0, 45.0, 2, None),
            (2.0, 25.0, 50.0, 3, None),
            (2.0, 25.0, 50.0, 4, None),
            (3.0, 30.0, 80.0, 5, Some(3)),
        ] {
            let metrics = Metrics { cycles, resources, skipped, ..Metrics::default() };
            let synced = sync.update(metrics, Duration::from_secs(seconds));
            assert_eq!(synced, expected.map(Duration::from_secs), "after {seconds} s");
        }
    }
}
