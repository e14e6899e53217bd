//! The writes of the hub controllers, counted in the audit log, and the number of clusters that change at the
//! same time, checked at every write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use bellwether_apiserver::HUB;
use bellwether_lifecycle::{addon, clusters, install, placement};
use bellwether_testkit::rights::{Refusals, grant};
use bellwether_testkit::{embedded, eventually, on_paused_time};
use serde_json::{Value, json};

use crate::fleet::{ADDONS, Addon, CLUSTERS, Controllers, Environment, Fleet, WORKS, find_condition};

const ROLES: &str = include_str!("../../../../deploy/hub/roles.yaml");

pub(crate) async fn concurrency_limit_is_never_exceeded(environment: &Environment) {
    let fleet = Fleet::new(environment, 6).await;
    let addon = fleet.new_addon();
    addon.create_versions(&["v1", "v2"]).await;
    fleet.create_placement("all", json!({})).await;
    addon.set_placements(json!([addon.placement_strategy("all", "v1")])).await;
    addon.wait_for_progression("all", "False/Completed: 6 of 6 clusters have it.").await;
    let start_version = fleet.resource_version().await;
    let watch = async |path: &str| {
        fleet.hub.watch(format!("{path}?watch=true&resourceVersion={start_version}")).await
    };
    let mut addons = watch(&format!("{ADDONS}/managedclusteraddons")).await;
    let mut works = watch(&format!("{WORKS}/manifestworks")).await;
    let rollout = json!({"type": "Progressive", "progressive": {"maxConcurrency": 2}});
    addon.set_placements(json!([addon.placement_strategy_with_rollout("all", "v2", rollout)])).await;
    addon.wait_for_progression("all", "False/Completed: 6 of 6 clusters have it.").await;
    for number in 1..=6 {
        addon.wait_for_success(number, "v2", "v1").await;
    }
    // All writes to objects of both kinds, by resourceVersion.
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
        let addon_name = if is_work { label("addon-name") } else { object["metadata"]["name"].clone() };
        if addon_name != addon.name.as_str() {
            continue;
        }
        let status = &object["status"];
        let has_started =
            if is_work { label("addon-version") == "v2" } else { status["installVersion"] == "v2" };
        if !is_work && status["currentVersion"] == "v2" {
            changing.remove(&cluster);
            done.insert(cluster);
        } else if has_started && !done.contains(&cluster) {
            changing.insert(cluster);
        }
        most = most.max(changing.len());
        assert!(
            changing.len() <= 2,
            "more than two clusters change at resourceVersion {revision}: {changing:?}"
        );
    }
    assert_eq!((done.len(), most), (6, 2));
}

/// One line of the audit log.
struct AuditEvent {
    user: String,
    verb: String,
    path: String,
}

fn read_audit_log(log: &Path) -> Vec<AuditEvent> {
    let text = std::fs::read_to_string(log).unwrap();
    let parse = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let user = match &event["impersonatedUser"]["username"] {
            Value::Null => text(&event["user"]["username"]),
            user => text(user),
        };
        AuditEvent { user, verb: text(&event["verb"]), path: text(&event["requestURI"]) }
    };
    // The server may be writing the last line.
    text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(parse).collect()
}

/// The audit log of a hub. Requests for namespaces `mark-<n>` separate the periods that are counted.
struct WriteLog<'a> {
    fleet: &'a Fleet<'a>,
    log: std::path::PathBuf,
    marks: usize,
}

impl WriteLog<'_> {
    /// The writes of the hub controllers since the last call.
    async fn writes(&mut self) -> Vec<String> {
        // Requests that were sent before the mark are logged before it.
        self.marks += 1;
        let mark = |number: usize| format!("/api/v1/namespaces/mark-{number}");
        self.fleet.hub.get(mark(self.marks)).await;
        let events = eventually("the mark is in the audit log", async || {
            let events = read_audit_log(&self.log);
            events.iter().any(|event| event.path == mark(self.marks)).then_some(events)
        })
        .await;
        let after =
            |path: String| events.iter().position(|event| event.path == path).map_or(0, |index| index + 1);
        let (from, to) = (after(mark(self.marks - 1)), after(mark(self.marks)));
        let controllers = [
            clusters::CLUSTERS,
            clusters::CLUSTER_SETS,
            clusters::CLUSTER_SET_BINDINGS,
            placement::NAME,
            install::NAME,
            addon::NAME,
        ];
        let is_controller_write = |event: &&AuditEvent| {
            let controller = event.user.strip_prefix("bellwether:");
            let is_write = !["get", "list", "watch"].contains(&event.verb.as_str());
            is_write && controller.is_some_and(|name| controllers.contains(&name))
        };
        let format_event = |event: &AuditEvent| format!("{} {} {}", event.user, event.verb, event.path);
        events[from..to].iter().filter(is_controller_write).map(format_event).collect()
    }

    /// The writes since the last call to the namespace of the cluster that has the most of them, and their
    /// number.
    async fn most_writes_of_a_cluster(&mut self) -> (usize, Vec<String>) {
        let writes = self.writes().await;
        let writes_of = |number: usize| {
            let namespace = format!("/namespaces/{}/", self.fleet.cluster_name(number));
            writes.iter().filter(|line| line.contains(&namespace)).cloned().collect::<Vec<_>>()
        };
        let most = (1..=self.fleet.size()).map(writes_of).max_by_key(Vec::len).unwrap();
        (most.len(), most)
    }
}

/// A resource that each controller may read once its role is in effect.
const READABLE: [(&str, &str); 6] = [
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

/// Runs a test on a paused clock that is advanced in small steps. The usual jump to the next timer does not
/// happen while a blocking task, such as the writer of the audit log, is running.
fn on_advancing_time(test: impl Future<Output = ()>) {
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

/// A hub with three spokes, the roles of production for the controllers, and the path of the audit log.
async fn environment_with_audit_log(directory: &Path) -> (Environment, std::path::PathBuf) {
    let log = directory.join("audit.log");
    let server = embedded::builder().clusters(["s1", "s2", "s3"]).audit_log(&log).start().await.unwrap();
    let spokes = ["s1", "s2", "s3"].map(|name| embedded::logical_cluster(&server, name));
    let environment =
        Environment::prepare(embedded::logical_cluster(&server, HUB), spokes.into(), Controllers::Shared)
            .await;
    grant(&environment.hub, ROLES, &READABLE).await;
    (environment, log)
}

#[test]
fn hub_writes_stay_within_budget_and_are_all_needed() {
    on_advancing_time(async {
        let directory = tempfile::tempdir().unwrap();
        let (environment, log) = environment_with_audit_log(directory.path()).await;
        let forbidden = Refusals::default();
        let controllers = Fleet::without_clusters(&environment).await;
        controllers.start_controllers(|name| forbidden.client(&environment.hub.client(), name));
        let fleet = Fleet::new(&environment, 3).await;
        let mut write_log = WriteLog { fleet: &fleet, log, marks: 0 };
        fleet.create_placement("all", json!({})).await;

        let addon = fleet.new_addon();
        addon.create_versions(&["v1", "v2"]).await;
        fleet.sleep(5).await;
        write_log.writes().await;
        addon.set_placements(json!([addon.placement_strategy("all", "v1")])).await;
        addon.wait_for_progression("all", "False/Completed: 3 of 3 clusters have it.").await;
        fleet.sleep(5).await;
        // Create the add-on, report Installing, create the ManifestWork, report Succeed.
        let (most, writes) = write_log.most_writes_of_a_cluster().await;
        assert_eq!(most, 4, "an install: {writes:#?}");

        addon.set_placements(json!([addon.placement_strategy("all", "v2")])).await;
        for number in 1..=3 {
            addon.wait_for_success(number, "v2", "v1").await;
        }
        fleet.sleep(5).await;
        let (most, writes) = write_log.most_writes_of_a_cluster().await;
        assert_eq!(most, 4, "an upgrade: {writes:#?}");

        let follower = fleet.new_addon();
        follower.create_versions(&["v1"]).await;
        follower.set_placements(json!([follower.placement_strategy("all", "")])).await;
        follower.wait_for_progression("all", "False/Completed: 3 of 3 clusters have it.").await;
        fleet.sleep(5).await;
        write_log.writes().await;
        follower.create_versions(&["v2"]).await;
        for number in 1..=3 {
            follower.wait_for_success(number, "v2", "v1").await;
        }
        fleet.sleep(5).await;
        let (most, writes) = write_log.most_writes_of_a_cluster().await;
        assert_eq!(most, 3, "a new default: {writes:#?}");

        fleet.sleep(60).await;
        assert_eq!(write_log.writes().await, [""; 0], "an idle minute");
        controllers.start_controllers(|name| forbidden.client(&environment.hub.client(), name));
        fleet.sleep(60).await;
        assert_eq!(write_log.writes().await, [""; 0], "a restart");
        assert_eq!(forbidden.all(), [""; 0]);
    });
}

/// If workloads become available soon after they were applied, the controller reports both with one write. If
/// they take longer, it reports them as unavailable, and once more when they are available.
#[test]
fn quickly_available_workloads_cost_no_extra_write() {
    on_advancing_time(async {
        let directory = tempfile::tempdir().unwrap();
        let (environment, log) = environment_with_audit_log(directory.path()).await;
        let forbidden = Refusals::default();
        let controllers = Fleet::without_clusters(&environment).await;
        controllers.start_controllers(|name| forbidden.client(&environment.hub.client(), name));
        let fleet = Fleet::new(&environment, 3).await;
        let mut write_log = WriteLog { fleet: &fleet, log, marks: 0 };
        fleet.create_placement("all", json!({})).await;
        let addon = fleet.new_addon();
        let follower = fleet.new_addon();
        let create_version = async |addon: &Addon<'_>, version: &str| {
            addon.create_version_with(version, json!([addon.deployment("d", version)])).await;
        };
        for version in ["v1", "v2", "v3"] {
            create_version(&addon, version).await;
        }
        create_version(&follower, "v1").await;
        fleet.sleep(5).await;
        write_log.writes().await;
        let update_workloads = async |addon: &Addon<'_>, version: &str, last: &str| {
            for number in 1..=3 {
                addon.wait_for_image("d", number, version).await;
            }
            for (updated, ready) in [(0, 2), (1, 2), (2, 1), (2, 2)] {
                for number in 1..=3 {
                    addon.set_replicas("d", number, updated, ready).await;
                }
                fleet.sleep(1).await;
            }
            for number in 1..=3 {
                addon.wait_for_success(number, version, last).await;
                addon
                    .wait_for_condition(
                        number,
                        "Available",
                        "True/ProbeAvailable: 1 workload(s) are available.",
                    )
                    .await;
            }
        };
        for (version, last) in [("v1", ""), ("v2", "v1")] {
            addon.set_placements(json!([addon.placement_strategy("all", version)])).await;
            update_workloads(&addon, version, last).await;
            let (most, writes) = write_log.most_writes_of_a_cluster().await;
            assert_eq!(most, 4, "{version}: {writes:#?}");
        }

        follower.set_placements(json!([follower.placement_strategy("all", "")])).await;
        update_workloads(&follower, "v1", "").await;
        write_log.writes().await;
        create_version(&follower, "v2").await;
        update_workloads(&follower, "v2", "v1").await;
        let (most, writes) = write_log.most_writes_of_a_cluster().await;
        assert_eq!(most, 3, "a new default: {writes:#?}");

        // Set the version, report Upgrading, update the ManifestWork, report the workload as unavailable; one
        // more write follows when it is available.
        addon.set_placements(json!([addon.placement_strategy("all", "v3")])).await;
        for number in 1..=3 {
            addon.wait_for_image("d", number, "v3").await;
            addon.set_replicas("d", number, 1, 2).await;
        }
        for number in 1..=3 {
            addon.wait_for_success(number, "v3", "v2").await;
            let named = format!("Deployment default/{}", addon.object_name("d", number));
            let unavailable = format!("False/ProbeUnavailable: {named}: 1 of 2 replicas are updated.");
            addon.wait_for_condition(number, "Available", &unavailable).await;
        }
        let (most, writes) = write_log.most_writes_of_a_cluster().await;
        assert_eq!(most, 4, "an upgrade with an unavailable workload: {writes:#?}");
        for number in 1..=3 {
            addon.set_replicas("d", number, 2, 2).await;
            addon
                .wait_for_condition(number, "Available", "True/ProbeAvailable: 1 workload(s) are available.")
                .await;
        }
        let (most, writes) = write_log.most_writes_of_a_cluster().await;
        assert_eq!(most, 1, "the workload became available: {writes:#?}");

        fleet.sleep(5).await;
        write_log.writes().await;
        fleet.sleep(60).await;
        assert_eq!(write_log.writes().await, [""; 0], "an idle minute");
        assert_eq!(forbidden.all(), [""; 0]);
    });
}

#[test]
fn joining_first_cluster_removes_no_addon_of_150_clusters() {
    on_paused_time(async {
        let server = embedded::builder().start().await.unwrap();
        let environment =
            Environment::prepare(embedded::logical_cluster(&server, HUB), Vec::new(), Controllers::PerFleet)
                .await;
        let fleet = Fleet::without_clusters(&environment).await;
        fleet.start_controllers(|_| environment.hub.client());
        // Numbers of three digits, so that the order by number is the order by name.
        for number in 101..=250 {
            fleet.create_cluster(number, json!({})).await;
        }
        fleet.create_placement("all", json!({"tolerations": [{"operator": "Exists"}]})).await;
        let addon = fleet.new_addon();
        addon.create_versions(&["v1"]).await;
        addon.set_placements(json!([addon.placement_strategy("all", "v1")])).await;
        let addon_uids = async || {
            let list = fleet.hub.get(format!("{ADDONS}/managedclusteraddons")).await.expect(200);
            let uid = |item: &Value| item["metadata"]["uid"].as_str().unwrap().to_owned();
            list["items"].as_array().unwrap().iter().map(uid).collect::<BTreeSet<_>>()
        };
        let before = eventually("150 clusters have the add-on", async || {
            let uids = addon_uids().await;
            (uids.len() == 150).then_some(uids)
        })
        .await;
        let start_version = fleet.resource_version().await;
        let path = format!("{ADDONS}/managedclusteraddons?watch=true&resourceVersion={start_version}");
        let mut watch = fleet.hub.watch(path).await;
        fleet.create_cluster(100, json!({})).await;
        eventually("the new cluster has the add-on", async || {
            (addon_uids().await.len() == 151).then_some(())
        })
        .await;
        fleet.sleep(60).await;
        while let Ok(Some(event)) = watch.within(Duration::from_millis(300)).await {
            let deleted = &event.object["metadata"]["deletionTimestamp"];
            assert!(event.kind != "DELETED" && deleted.is_null(), "{:?}", event.brief());
        }
        assert!(addon_uids().await.is_superset(&before), "an add-on was deleted or recreated");
        let object = addon.get_addon(100).await;
        assert_eq!(find_condition(&object, "Progressing")["reason"], "Installing");
    });
}
