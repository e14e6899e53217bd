//! The part `status`: changes of thousands of clusters on their way to the hub, a fleet in which nothing changes, and outages of
//! the hub.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::task::JoinSet;
use tokio::time::{Instant as TokioInstant, sleep, sleep_until};

use super::changes::Changes;
use super::spokes::{Spokes, hub_revision, prepare_hub};
use crate::bellwether::Bellwether;
use crate::measurement::{Figures, Progress};
use crate::process::own_resident_bytes;
use crate::report::{Figure, Unit};
use crate::server::{Server, ServerKind};

/// The number of steps, for the progress bar.
pub(super) const STEPS: u64 = 6;
/// The short outage of the hub, and which part of the clusters changes during it.
const SHORT_OUTAGE: (Duration, f64) = (Duration::from_secs(5), 0.1);
/// How long after the last change a change may still arrive before it counts as lost.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the first status of all clusters may take, and the status of all clusters after an outage.
const SYNC_TIMEOUT: Duration = Duration::from_secs(600);
/// How many clusters report their first status concurrently.
const CONCURRENT_FIRST_CHANGES: usize = 16;
/// How long the hub may still write on its own after the last change of a cluster.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// The size of the part.
pub(super) struct Plan {
    pub(super) spokes: usize,
    pub(super) changes_per_second: u32,
    pub(super) changing: Duration,
    pub(super) idle: Duration,
    pub(super) outage: Duration,
}

impl Plan {
    pub(super) fn notes(&self) -> Vec<String> {
        vec![
            format!(
                "status: {} clusters, each with its own API, status controller, identity and TLS connection to the hub. A change \
                 is another state of a collector; its time is from the report on the cluster until a watch on the hub shows it. \
                 Target: p99 ≤ 2 s.",
                self.spokes
            ),
            format!(
                "status: writes while nothing changes are counted for {:?} as revisions of the stores. Target: 0.",
                self.idle
            ),
            format!(
                "status: the hub is killed, and {:.0} % of the clusters change while it is away for {:?}, all while it is away for \
                 {:?}. The time to sync is from the start of the hub process until the hub has the status of every cluster. \
                 Target: ≤ 120 s.",
                SHORT_OUTAGE.1 * 100.0,
                SHORT_OUTAGE.0,
                self.outage
            ),
            "CPU is in percent of one core.".to_owned(),
        ]
    }
}

pub(super) async fn measure(
    bellwether: &Bellwether,
    plan: &Plan,
    progress: &Progress,
) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Figures::default();
    progress.step("create the clusters");
    let mut hub = ServerKind::Bellwether(bellwether.clone()).start().await?;
    prepare_hub(&hub, plan.spokes).await?;
    let mut spokes = Spokes::create(plan.spokes).await?;
    let changes = Changes::new(plan.spokes);
    let mut tasks = JoinSet::new();
    tasks.spawn(changes.clone().follow(hub.access.clone()));
    let before = own_resident_bytes()?;
    spokes.start_controllers(&hub).await?;
    let spokes = Arc::new(spokes);

    progress.step("the first status of all clusters");
    let begun = Instant::now();
    change_all_at_once(&spokes, &changes).await?;
    changes.wait_until_shown(SYNC_TIMEOUT).await?;
    figures.add("status, first of all clusters", Unit::Seconds, begun.elapsed().as_secs_f64());
    let per_spoke = own_resident_bytes()?.saturating_sub(before) as f64 / plan.spokes as f64;
    changes.take_latencies();
    sleep(SETTLE_TIME).await;

    progress.step("changes");
    let (usage, begun) = (Usage::of(&hub)?, Instant::now());
    let made = make_changes(&spokes, &changes, plan).await?;
    figures.add("status, changes made", Unit::PerSecond, made as f64 / begun.elapsed().as_secs_f64());
    usage.add_to(&mut figures, "status, changes", &hub)?;
    // What is pending afterwards is counted as lost.
    let _ = changes.wait_until_shown(ARRIVAL_TIMEOUT).await;
    let lost = changes.pending();
    figures.add("status, changes lost", Unit::Count, lost as f64);
    let mut latencies = changes.take_latencies();
    for (name, part) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        if let Some(millis) = latencies.quantile_millis(part) {
            figures.add(&format!("status, change on the hub, {name}"), Unit::Milliseconds, millis);
        }
    }
    anyhow::ensure!(lost == 0, "{lost} of {made} changes were not on the hub after {ARRIVAL_TIMEOUT:?}");
    sleep(SETTLE_TIME).await;

    progress.step("nothing changes");
    let (usage, revisions) = (Usage::of(&hub)?, (hub_revision(&hub).await?, spokes.revision().await?));
    sleep(plan.idle).await;
    let (hub_after, spokes_after) = (hub_revision(&hub).await?, spokes.revision().await?);
    usage.add_to(&mut figures, "status, idle", &hub)?;
    figures.add("status, idle: writes of the hub", Unit::Count, (hub_after - revisions.0) as f64);
    figures.add("status, idle: writes of the clusters", Unit::Count, (spokes_after - revisions.1) as f64);

    for (outage, part) in [SHORT_OUTAGE, (plan.outage, 1.0)] {
        progress.step("the hub restarts");
        let changed = (plan.spokes as f64 * part).ceil() as usize;
        hub.kill();
        change_spread(&spokes, &changes, changed, outage).await?;
        let begun = Instant::now();
        hub.start_again(bellwether).await?;
        let label = format!("status, outage of {} s", outage.as_secs());
        figures.add(&format!("{label}: hub ready"), Unit::Seconds, hub.ready_after.as_secs_f64());
        let synced = changes.wait_until_shown(SYNC_TIMEOUT).await?.context("no change was shown")?;
        let took = synced.saturating_duration_since(begun);
        figures.add(&format!("{label}: {changed} clusters in sync"), Unit::Seconds, took.as_secs_f64());
        changes.take_latencies();
    }
    figures.add("status, memory of the hub", Unit::Megabytes, hub.resident_bytes()? as f64 / 1e6);
    figures.add("status, memory of a status controller", Unit::Kilobytes, per_spoke / 1e3);
    Ok(figures.0)
}

/// Changes all clusters as fast as they respond.
async fn change_all_at_once(spokes: &Arc<Spokes>, changes: &Changes) -> anyhow::Result<()> {
    use futures::{StreamExt as _, TryStreamExt as _};
    let made = (0..spokes.count()).map(|spoke| change(spokes.clone(), changes.clone(), spoke));
    futures::stream::iter(made).buffer_unordered(CONCURRENT_FIRST_CHANGES).try_collect::<()>().await
}

/// Changes random clusters at a constant rate, whether or not earlier changes have arrived. Returns the number of changes.
async fn make_changes(spokes: &Arc<Spokes>, changes: &Changes, plan: &Plan) -> anyhow::Result<usize> {
    let count = (plan.changing.as_secs_f64() * f64::from(plan.changes_per_second)) as usize;
    let numbers = (0..count).map(|_| rand::random_range(0..plan.spokes)).collect();
    change_at_times(spokes, changes, numbers, plan.changing).await
}

/// Changes the first clusters, one after the other over a duration.
async fn change_spread(
    spokes: &Arc<Spokes>,
    changes: &Changes,
    count: usize,
    duration: Duration,
) -> anyhow::Result<usize> {
    change_at_times(spokes, changes, (0..count).collect(), duration).await
}

async fn change_at_times(
    spokes: &Arc<Spokes>,
    changes: &Changes,
    numbers: Vec<usize>,
    duration: Duration,
) -> anyhow::Result<usize> {
    let (begun, count) = (TokioInstant::now(), numbers.len());
    let mut tasks = JoinSet::new();
    for (index, spoke) in numbers.into_iter().enumerate() {
        sleep_until(begun + duration.mul_f64(index as f64 / count as f64)).await;
        tasks.spawn(change(spokes.clone(), changes.clone(), spoke));
    }
    sleep_until(begun + duration).await;
    while let Some(made) = tasks.join_next().await {
        made.context("a task of the load generator panicked")??;
    }
    Ok(count)
}

/// Changes a cluster, or the next one whose last change has arrived.
async fn change(spokes: Arc<Spokes>, changes: Changes, first: usize) -> anyhow::Result<()> {
    let count = spokes.count();
    let free = (0..count).find_map(|offset| {
        let spoke = (first + offset) % count;
        changes.begin(spoke).map(|number| (spoke, number))
    });
    let (spoke, number) = free.context("a change of every cluster is still on its way to the hub")?;
    spokes.change(spoke, number).await
}

/// The CPU time that the hub had used at an instant.
struct Usage {
    at: Instant,
    cpu: Duration,
}

impl Usage {
    fn of(hub: &Server) -> anyhow::Result<Self> {
        Ok(Self { at: Instant::now(), cpu: hub.cpu_time()? })
    }

    /// Adds what the hub has used since then.
    fn add_to(&self, figures: &mut Figures, label: &str, hub: &Server) -> anyhow::Result<()> {
        let used = hub.cpu_time()?.saturating_sub(self.cpu).as_secs_f64() / self.at.elapsed().as_secs_f64();
        figures.add(&format!("{label}: CPU of the hub"), Unit::Percent, used * 100.0);
        Ok(())
    }
}
