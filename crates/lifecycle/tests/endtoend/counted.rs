//! What is counted: the writes of the hub, by its audit log; and clusters that change at the same time, at every write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use bellwether_apiserver::HUB;
use bellwether_lifecycle::{addon, clusters, install, placement};
use bellwether_testkit::rights::{Refusals, grant};
use bellwether_testkit::{embedded, eventually, on_paused_time};
use serde_json::{Value, json};

use crate::fleet::{ADDONS, Addon, CLUSTERS, Controllers, Fleet, Theatre, WORKS, condition};

const RIGHTS: &str = include_str!("../../../../deploy/hub/roles.yaml");

pub(crate) async fn concurrency_limit_is_never_exceeded(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 6).await;
    let addon = fleet.addon();
    addon.publish(&["v1", "v2"]).await;
    fleet.placement("all", json!({})).await;
    addon.place(json!([addon.placed("all", "v1")])).await;
    addon.until_progression("all", "False/Completed: 6 of 6 clusters have it.").await;
    let begun = fleet.revision().await;
    let watch =
        async |path: &str| fleet.hub.watch(format!("{path}?watch=true&resourceVersion={begun}")).await;
    let mut addons = watch(&format!("{ADDONS}/managedclusteraddons")).await;
    let mut works = watch(&format!("{WORKS}/manifestworks")).await;
    let pace = json!({"type": "Progressive", "progressive": {"maxConcurrency": 2}});
    addon.place(json!([addon.paced("all", "v2", pace)])).await;
    addon.until_progression("all", "False/Completed: 6 of 6 clusters have it.").await;
    for number in 1..=6 {
        addon.until_done(number, "v2", "v1").await;
    }
    // Every write of both kinds, in the order of the hub.
    let mut writes: BTreeMap<u64, Value> = BTreeMap::new();
    for watch in [&mut addons, &mut works] {
        while let Ok(Some(event)) = watch.within(Duration::from_millis(300)).await {
            let revision = event.object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            writes.insert(revision, event.object);
        }
    }
    let (mut changing, mut most, mut done) = (BTreeSet::new(), 0, BTreeSet::new());
    for (revision, object) in &writes {
        let label =
            |name: &str| object["metadata"]["labels"][format!("open-cluster-management.io/{name}")].clone();
        let cluster = object["metadata"]["namespace"].as_str().unwrap().to_owned();
        let is_work = object["kind"] == "ManifestWork";
        let ours = if is_work { label("addon-name") } else { object["metadata"]["name"].clone() };
        if ours != addon.name.as_str() {
            continue;
        }
        let status = &object["status"];
        let begun = if is_work { label("addon-version") == "v2" } else { status["installVersion"] == "v2" };
        if !is_work && status["currentVersion"] == "v2" {
            changing.remove(&cluster);
            done.insert(cluster);
        } else if begun && !done.contains(&cluster) {
            changing.insert(cluster);
        }
        most = most.max(changing.len());
        assert!(changing.len() <= 2, "at {revision} these change: {changing:?}");
    }
    assert_eq!((done.len(), most), (6, 2));
}

/// What a line of the audit log says.
struct Line {
    user: String,
    verb: String,
    path: String,
}

fn lines(log: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(log).unwrap();
    let read = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let user = match &event["impersonatedUser"]["username"] {
            Value::Null => text(&event["user"]["username"]),
            user => text(user),
        };
        Line { user, verb: text(&event["verb"]), path: text(&event["requestURI"]) }
    };
    text.lines().map(read).collect()
}

/// The audit log of a hub, and what of it was counted so far.
struct Ledger<'a> {
    fleet: &'a Fleet<'a>,
    log: std::path::PathBuf,
    marks: usize,
}

impl Ledger<'_> {
    /// The writes of the controllers of the hub since this was last asked.
    async fn writes(&mut self) -> Vec<String> {
        // What was asked for before this line is before it.
        self.marks += 1;
        let mark = |number: usize| format!("/api/v1/namespaces/mark-{number}");
        self.fleet.hub.get(mark(self.marks)).await;
        let found = eventually("the mark is in the log", async || {
            let lines = lines(&self.log);
            lines.iter().any(|line| line.path == mark(self.marks)).then_some(lines)
        })
        .await;
        let after =
            |path: String| found.iter().position(|line| line.path == path).map_or(0, |place| place + 1);
        let (from, to) = (after(mark(self.marks - 1)), after(mark(self.marks)));
        let controllers = [
            clusters::CLUSTERS,
            clusters::CLUSTER_SETS,
            clusters::CLUSTER_SET_BINDINGS,
            placement::NAME,
            install::NAME,
            addon::NAME,
        ];
        let is_ours = |line: &&Line| {
            let controller = line.user.strip_prefix("bellwether:");
            let writes = !["get", "list", "watch"].contains(&line.verb.as_str());
            writes && controller.is_some_and(|name| controllers.contains(&name))
        };
        let told = |line: &Line| format!("{} {} {}", line.user, line.verb, line.path);
        found[from..to].iter().filter(is_ours).map(told).collect()
    }

    /// How many of them were for an add-on on each cluster.
    async fn most_of_a_cluster(&mut self) -> (usize, Vec<String>) {
        let writes = self.writes().await;
        let of = |number: usize| {
            let part = format!("/namespaces/{}/", self.fleet.cluster(number));
            writes.iter().filter(|line| line.contains(&part)).cloned().collect::<Vec<_>>()
        };
        let most = (1..=self.fleet.size()).map(of).max_by_key(Vec::len).unwrap();
        (most.len(), most)
    }
}

const CONTROLLERS: [(&str, &str); 6] = [
    (clusters::CLUSTERS, CLUSTERS),
    (clusters::CLUSTER_SETS, "/apis/cluster.open-cluster-management.io/v1beta2/managedclustersets"),
    (
        clusters::CLUSTER_SET_BINDINGS,
        "/apis/cluster.open-cluster-management.io/v1beta2/managedclustersetbindings",
    ),
    (placement::NAME, "/apis/cluster.open-cluster-management.io/v1beta1/placements"),
    (install::NAME, "/apis/addon.open-cluster-management.io/v1alpha1/managedclusteraddons"),
    (addon::NAME, "/apis/work.open-cluster-management.io/v1/manifestworks"),
];

/// Runs a test on a paused clock that goes on by itself, a little at a time: where a file is written, it does not jump
/// ahead when nothing else is left to do.
fn on_moving_time(test: impl Future<Output = ()>) {
    on_paused_time(async {
        let clock = async {
            loop {
                for _ in 0..50 {
                    tokio::task::yield_now().await;
                }
                tokio::time::advance(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = test => {}
            () = clock => {}
        }
    });
}

/// A fleet of three clusters whose controllers are whom they are in production, and the audit log of its hub.
async fn audited(directory: &Path) -> (Theatre, std::path::PathBuf) {
    let log = directory.join("audit.log");
    let server = embedded::builder().clusters(["s1", "s2", "s3"]).audit_log(&log).start().await.unwrap();
    let spokes = ["s1", "s2", "s3"].map(|name| embedded::of(&server, name));
    let theatre = Theatre::prepare(embedded::of(&server, HUB), spokes.into(), Controllers::Shared).await;
    grant(&theatre.hub, RIGHTS, &CONTROLLERS).await;
    (theatre, log)
}

#[test]
fn hub_writes_stay_within_budget_and_are_all_needed() {
    on_moving_time(async {
        let directory = tempfile::tempdir().unwrap();
        let (theatre, log) = audited(directory.path()).await;
        let refusals = Refusals::default();
        let controllers = Fleet::bare(&theatre).await;
        controllers.start(|name| refusals.client(&theatre.hub.client(), name));
        let fleet = Fleet::new(&theatre, 3).await;
        let mut ledger = Ledger { fleet: &fleet, log, marks: 0 };
        fleet.placement("all", json!({})).await;

        let addon = fleet.addon();
        addon.publish(&["v1", "v2"]).await;
        fleet.pass(5).await;
        ledger.writes().await;
        addon.place(json!([addon.placed("all", "v1")])).await;
        addon.until_progression("all", "False/Completed: 3 of 3 clusters have it.").await;
        fleet.pass(5).await;
        // It is made, begun, brought, and done.
        let (most, writes) = ledger.most_of_a_cluster().await;
        assert_eq!(most, 4, "an install: {writes:#?}");

        addon.place(json!([addon.placed("all", "v2")])).await;
        for number in 1..=3 {
            addon.until_done(number, "v2", "v1").await;
        }
        fleet.pass(5).await;
        let (most, writes) = ledger.most_of_a_cluster().await;
        assert_eq!(most, 4, "an upgrade: {writes:#?}");

        let follower = fleet.addon();
        follower.publish(&["v1"]).await;
        follower.place(json!([follower.placed("all", "")])).await;
        follower.until_progression("all", "False/Completed: 3 of 3 clusters have it.").await;
        fleet.pass(5).await;
        ledger.writes().await;
        follower.publish(&["v2"]).await;
        for number in 1..=3 {
            follower.until_done(number, "v2", "v1").await;
        }
        fleet.pass(5).await;
        let (most, writes) = ledger.most_of_a_cluster().await;
        assert_eq!(most, 3, "another default: {writes:#?}");

        fleet.pass(60).await;
        assert_eq!(ledger.writes().await, [""; 0], "a quiet minute");
        controllers.start(|name| refusals.client(&theatre.hub.client(), name));
        fleet.pass(60).await;
        assert_eq!(ledger.writes().await, [""; 0], "a restart");
        assert_eq!(refusals.all(), [""; 0]);
    });
}

/// That all is there and that it is up is one thing to say, where the workloads come up soon after they were applied; they
/// are waited for. One that takes longer is told of as it is, and again when it is up.
#[test]
fn quickly_available_workloads_cost_no_extra_write() {
    on_moving_time(async {
        let directory = tempfile::tempdir().unwrap();
        let (theatre, log) = audited(directory.path()).await;
        let refusals = Refusals::default();
        let controllers = Fleet::bare(&theatre).await;
        controllers.start(|name| refusals.client(&theatre.hub.client(), name));
        let fleet = Fleet::new(&theatre, 3).await;
        let mut ledger = Ledger { fleet: &fleet, log, marks: 0 };
        fleet.placement("all", json!({})).await;
        let addon = fleet.addon();
        let follower = fleet.addon();
        let publish = async |addon: &Addon<'_>, version: &str| {
            addon.publish_with(version, json!([addon.deployment("d", version)])).await;
        };
        for version in ["v1", "v2", "v3"] {
            publish(&addon, version).await;
        }
        publish(&follower, "v1").await;
        fleet.pass(5).await;
        ledger.writes().await;
        let come_up = async |addon: &Addon<'_>, version: &str, last: &str| {
            for number in 1..=3 {
                addon.until_image("d", number, version).await;
            }
            for (new, ready) in [(0, 2), (1, 2), (2, 1), (2, 2)] {
                for number in 1..=3 {
                    addon.copies("d", number, new, ready).await;
                }
                fleet.pass(1).await;
            }
            for number in 1..=3 {
                addon.until_done(number, version, last).await;
                addon
                    .until_condition(number, "Available", "True/ProbeAvailable: 1 workload(s) are available.")
                    .await;
            }
        };
        for (version, last) in [("v1", ""), ("v2", "v1")] {
            addon.place(json!([addon.placed("all", version)])).await;
            come_up(&addon, version, last).await;
            let (most, writes) = ledger.most_of_a_cluster().await;
            assert_eq!(most, 4, "{version}: {writes:#?}");
        }

        follower.place(json!([follower.placed("all", "")])).await;
        come_up(&follower, "v1", "").await;
        ledger.writes().await;
        publish(&follower, "v2").await;
        come_up(&follower, "v2", "v1").await;
        let (most, writes) = ledger.most_of_a_cluster().await;
        assert_eq!(most, 3, "another default: {writes:#?}");

        // It is asked for, begun, brought, and told as it is; then it is up.
        addon.place(json!([addon.placed("all", "v3")])).await;
        for number in 1..=3 {
            addon.until_image("d", number, "v3").await;
            addon.copies("d", number, 1, 2).await;
        }
        for number in 1..=3 {
            addon.until_done(number, "v3", "v2").await;
            let named = format!("Deployment default/{}", addon.object("d", number));
            let late = format!("False/ProbeUnavailable: {named}: 1 of 2 replicas are updated.");
            addon.until_condition(number, "Available", &late).await;
        }
        let (most, writes) = ledger.most_of_a_cluster().await;
        assert_eq!(most, 4, "not up in time: {writes:#?}");
        for number in 1..=3 {
            addon.copies("d", number, 2, 2).await;
            addon
                .until_condition(number, "Available", "True/ProbeAvailable: 1 workload(s) are available.")
                .await;
        }
        let (most, writes) = ledger.most_of_a_cluster().await;
        assert_eq!(most, 1, "up at last: {writes:#?}");

        fleet.pass(5).await;
        ledger.writes().await;
        fleet.pass(60).await;
        assert_eq!(ledger.writes().await, [""; 0], "a quiet minute");
        assert_eq!(refusals.all(), [""; 0]);
    });
}

#[test]
fn joining_first_cluster_removes_no_addon_of_150_clusters() {
    on_paused_time(async {
        let server = embedded::builder().start().await.unwrap();
        let theatre = Theatre::prepare(embedded::of(&server, HUB), Vec::new(), Controllers::Own).await;
        let fleet = Fleet::bare(&theatre).await;
        fleet.start(|_| theatre.hub.client());
        // Names of three digits, so that the first by number is the first by name.
        for number in 101..=250 {
            fleet.join(number, json!({})).await;
        }
        fleet.placement("all", json!({"tolerations": [{"operator": "Exists"}]})).await;
        let addon = fleet.addon();
        addon.publish(&["v1"]).await;
        addon.place(json!([addon.placed("all", "v1")])).await;
        let holders = async || {
            let list = fleet.hub.get(format!("{ADDONS}/managedclusteraddons")).await.expect(200);
            let name = |item: &Value| item["metadata"]["uid"].as_str().unwrap().to_owned();
            list["items"].as_array().unwrap().iter().map(name).collect::<BTreeSet<_>>()
        };
        let before = eventually("all have it", async || {
            let holders = holders().await;
            (holders.len() == 150).then_some(holders)
        })
        .await;
        let begun = fleet.revision().await;
        let path = format!("{ADDONS}/managedclusteraddons?watch=true&resourceVersion={begun}");
        let mut watch = fleet.hub.watch(path).await;
        fleet.join(100, json!({})).await;
        eventually("the new one has it", async || (holders().await.len() == 151).then_some(())).await;
        fleet.pass(60).await;
        while let Ok(Some(event)) = watch.within(Duration::from_millis(300)).await {
            let deleted = &event.object["metadata"]["deletionTimestamp"];
            assert!(event.kind != "DELETED" && deleted.is_null(), "{:?}", event.brief());
        }
        assert!(holders().await.is_superset(&before), "they are the same objects");
        let object = addon.read(100).await;
        assert_eq!(condition(&object, "Progressing")["reason"], "Installing");
    });
}
