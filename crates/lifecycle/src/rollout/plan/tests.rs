use bellwether_api::addon::{MandatoryDecisionGroup, SuccessCriteria};
use proptest::{prop_assert, prop_assert_eq, proptest};

use jiff::SignedDuration;

use super::*;

fn now() -> Timestamp {
    "2024-05-01T10:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn strategy(pace: Pace) -> Strategy {
    Strategy {
        pace,
        criteria: SuccessCriteria::Applied,
        soak: Duration::ZERO,
        deadline: None,
        tolerated: Share::Count(0),
        mandatory: Vec::new(),
        paused: false,
    }
}

fn at_a_time(count: usize) -> Strategy {
    strategy(Pace::Progressive(Some(Share::Count(count))))
}

/// Clusters `c1`, `c2`, … with a letter each for their state: `m`issing, `w`aiting, `x` diverted, `c`hanging, `u`nproven,
/// `d`one long ago, `n`ow done, `f`ailed, `t`imed out, overridden (`a`); followed by the index of their group.
fn members(states: &str) -> Vec<Member> {
    let state = |letter: u8| match letter {
        b'm' => State::Absent,
        b'w' => State::Waiting,
        b'x' => State::Diverted,
        b'c' => State::Changing(ago(1)),
        b'u' => State::Unproven { since: ago(1), unmet_since: ago(1), missing: "no heartbeat".to_owned() },
        b'd' => State::Done(ago(3600)),
        b'n' => State::Done(ago(1)),
        b'f' => State::Failed,
        b't' => State::TimedOut,
        _ => State::Overridden,
    };
    states
        .split_whitespace()
        .enumerate()
        .map(|(number, word)| {
            let group = usize::from(*word.as_bytes().get(1).unwrap_or(&b'0') - b'0');
            Member {
                cluster: format!("c{}", number + 1),
                group,
                group_name: if group == 0 && word.len() > 1 { "canary".to_owned() } else { String::new() },
                state: state(word.as_bytes()[0]),
            }
        })
        .collect()
}

fn run(strategy: &Strategy, states: &str) -> Plan {
    plan(&Ok(strategy.clone()), members(states), Share::Percent(100), now())
}

fn admitted_clusters(plan: &Plan) -> Vec<String> {
    let start = plan.turns.iter().filter(|(_, step)| **step == Step::Starts);
    let mut names: Vec<String> = start.map(|(name, _)| name.clone()).collect();
    names.sort();
    names
}

/// The admitted clusters, and what the others wait for.
fn summarize(strategy: &Strategy, states: &str) -> (String, Vec<String>) {
    let found = run(strategy, states);
    let start = admitted_clusters(&found);
    let waits = found.waiting.iter().map(|waiting| format!("{}: {}", waiting.clusters.join(" "), waiting));
    (start.join(" "), waits.collect())
}

#[test]
fn plan_admits_clusters_by_strategy() {
    let canary = |pace| Strategy {
        mandatory: vec![MandatoryDecisionGroup { group_name: "canary".to_owned(), group_index: None }],
        ..strategy(pace)
    };
    let by_index = Strategy {
        mandatory: vec![MandatoryDecisionGroup { group_name: String::new(), group_index: Some(1) }],
        ..at_a_time(1)
    };
    let tolerant = |count| Strategy { tolerated: Share::Count(count), ..at_a_time(2) };
    let soaking = |pace| Strategy { soak: Duration::from_secs(60), ..strategy(pace) };
    let two = Pace::Progressive(Some(Share::Count(2)));
    let rows: Vec<(&str, Strategy, &str, &str, Vec<&str>)> = vec![
        ("all at once", strategy(Pace::All), "w w w w", "c1 c2 c3 c4", vec![]),
        (
            "failures hold no cluster back if all start at once",
            strategy(Pace::All),
            "f w t w",
            "c2 c4",
            vec![],
        ),
        (
            "the first two by name",
            at_a_time(2),
            "w w w w",
            "c1 c2",
            vec!["c3 c4: at most 2 at a time: c1, c2"],
        ),
        (
            "one is done, the next starts",
            at_a_time(2),
            "d c w w",
            "c3",
            vec!["c4: at most 2 at a time: c2, c3"],
        ),
        (
            "a changing cluster keeps its permit",
            at_a_time(1),
            "w w c",
            "",
            vec!["c1 c2: at most 1 at a time: c3"],
        ),
        (
            "a diverted cluster has a permit and starts at once",
            at_a_time(2),
            "w w x",
            "c1 c3",
            vec!["c2: at most 2 at a time: c3, c1"],
        ),
        (
            "a cluster without ManagedClusterAddOn keeps its position and is named",
            at_a_time(1),
            "m w",
            "c1",
            vec!["c2: at most 1 at a time: c1 (it has no ManagedClusterAddOn yet)"],
        ),
        (
            "a mandatory group proves nothing if all its clusters are overridden",
            Strategy {
                mandatory: vec![serde_json::from_value(serde_json::json!({"groupName": "canary"})).unwrap()],
                ..at_a_time(1)
            },
            "a0 w1",
            "",
            vec!["c2: group canary comes first, and a user has set the version of all its clusters"],
        ),
        (
            "half of five is three",
            strategy(Pace::Progressive(Some(Share::Percent(50)))),
            "w w w w w",
            "c1 c2 c3",
            vec!["c4 c5: at most 3 at a time: c1, c2, c3"],
        ),
        (
            "at least one cluster starts",
            strategy(Pace::Progressive(Some(Share::Count(0)))),
            "w w",
            "c1",
            vec!["c2: at most 1 at a time: c1"],
        ),
        ("group size by default", strategy(Pace::Progressive(None)), "w w w", "c1 c2 c3", vec![]),
        (
            "an unproven cluster keeps its permit",
            at_a_time(1),
            "u w",
            "",
            vec!["c2: at most 1 at a time: c1 (no heartbeat)"],
        ),
        (
            "no failure is tolerated by default",
            at_a_time(2),
            "f w w",
            "",
            vec!["c2 c3: the rollout stopped: 1 failed, 0 may: c1"],
        ),
        (
            "a tolerated failure frees its permit",
            tolerant(1),
            "f w w w",
            "c2 c3",
            vec!["c4: at most 2 at a time: c2, c3"],
        ),
        (
            "more failures than tolerated",
            tolerant(1),
            "f t w c",
            "",
            vec!["c3: the rollout stopped: 2 failed, 1 may: c1, c2"],
        ),
        (
            "an overridden cluster needs no permit",
            at_a_time(1),
            "a w w",
            "c2",
            vec!["c3: at most 1 at a time: c2"],
        ),
        (
            "clusters soak before others start",
            soaking(two),
            "n n w",
            "",
            vec![
                "c3: at most 2 at a time: c1 (soaks until 2024-05-01T10:00:59Z), c2 (soaks until 2024-05-01T10:00:59Z)",
            ],
        ),
        (
            "a cluster that soaked long enough is done",
            soaking(two),
            "d n w w",
            "c3",
            vec!["c4: at most 2 at a time: c2 (soaks until 2024-05-01T10:00:59Z), c3"],
        ),
        (
            "no cluster soaks if all start at once",
            Strategy { soak: Duration::ZERO, ..soaking(Pace::All) },
            "n w",
            "c2",
            vec![],
        ),
        (
            "mandatory group first",
            canary(Pace::Progressive(Some(Share::Count(5)))),
            "w0 w0 w1 w1",
            "c1 c2",
            vec!["c3 c4: group canary comes first: c1, c2"],
        ),
        (
            "then the other clusters",
            canary(Pace::Progressive(Some(Share::Count(1)))),
            "d0 d0 w1 w1",
            "c3",
            vec!["c4: at most 1 at a time: c3"],
        ),
        (
            "a failure in a mandatory group stops the rollout",
            Strategy { tolerated: Share::Count(9), ..canary(two) },
            "f0 w0 w1",
            "",
            vec![
                "c2: the rollout stopped: 1 failed, 0 may: c1",
                "c3: the rollout stopped: 1 failed, 0 may: c1",
            ],
        ),
        ("mandatory group by index", by_index, "w0 w1 w1", "c2 c3", vec!["c1: group 1 comes first: c2, c3"]),
        (
            "mandatory group first, also if all others start at once",
            canary(Pace::All),
            "w0 w1 w1",
            "c1",
            vec!["c2 c3: group canary comes first: c1"],
        ),
        (
            "one group after the other",
            strategy(Pace::PerGroup),
            "w0 w0 w1 w2",
            "c1 c2",
            vec!["c3: group canary comes first: c1, c2", "c4: group canary comes first: c1, c2"],
        ),
        (
            "the second group",
            strategy(Pace::PerGroup),
            "d0 d0 w1 w2",
            "c3",
            vec!["c4: group 1 comes first: c3"],
        ),
        (
            "a group soaks before the next",
            soaking(Pace::PerGroup),
            "n0 d0 w1",
            "",
            vec!["c3: group canary comes first: c1 (soaks until 2024-05-01T10:00:59Z)"],
        ),
        (
            "too many failures in a group",
            strategy(Pace::PerGroup),
            "d0 f0 w1",
            "",
            vec!["c3: the rollout stopped: 1 failed, 0 may: c2"],
        ),
        (
            "tolerated failure in a group",
            Strategy { tolerated: Share::Percent(50), ..strategy(Pace::PerGroup) },
            "d0 f0 w1",
            "c3",
            vec![],
        ),
        (
            "paused",
            Strategy { paused: true, ..at_a_time(2) },
            "w c w",
            "",
            vec!["c1 c3: the rollout is paused"],
        ),
        (
            "mandatory group without clusters",
            Strategy {
                mandatory: vec![MandatoryDecisionGroup {
                    group_name: "canray".to_owned(),
                    group_index: None,
                }],
                ..at_a_time(1)
            },
            "w w",
            "",
            vec!["c1 c2: group canray comes first and has no clusters"],
        ),
        ("many names", at_a_time(4), "c c c c w", "", vec!["c5: at most 4 at a time: c1, c2, c3 and 1 more"]),
        ("no clusters", strategy(Pace::All), "", "", vec![]),
    ];
    for (case, strategy, states, start, waits) in rows {
        let found = summarize(&strategy, states);
        assert_eq!(found, (start.to_owned(), waits.into_iter().map(str::to_owned).collect()), "{case}");
    }
}

#[test]
fn invalid_strategy_starts_no_cluster() {
    let found = plan(&Err("it is odd".to_owned()), members("w c d"), Share::Percent(100), now());
    let reason = WaitReason::InvalidStrategy("it is odd".to_owned());
    assert_eq!(reason.to_string(), "the rolloutStrategy is invalid: it is odd");
    assert_eq!(found.turn("c1"), Some(Turn::Waits(reason)));
    assert_eq!((found.turn("c2"), found.turn("c3"), found.turn("c9")), (None, None, None));
}

#[test]
fn soak_time_ends_without_events() {
    let soaking = Strategy { soak: Duration::from_secs(60), ..at_a_time(1) };
    assert_eq!(run(&soaking, "n w").next, Some(now() + SignedDuration::from_secs(59)));
    assert_eq!(run(&soaking, "d w").next, None);
}

#[test]
fn unmet_criteria_after_deadline_are_a_failure() {
    let patient = Strategy { deadline: Some(Duration::from_secs(60)), ..at_a_time(1) };
    assert_eq!(run(&patient, "u w").next, Some(now() + SignedDuration::from_secs(59)));
    let hasty = Strategy { deadline: Some(Duration::from_secs(1)), ..at_a_time(1) };
    let found = run(&hasty, "u w");
    assert_eq!((found.counts.timed_out, admitted_clusters(&found).len()), (1, 0));
}

#[test]
fn briefly_unhealthy_cluster_has_not_failed() {
    // Seconds since everything was applied and since the criteria were last met; the deadline; the seconds that remain.
    let rows = [
        ("it never was healthy", 100, 100, 600, Some(500)),
        ("it never was healthy, and its deadline is over", 600, 600, 600, None),
        ("it was healthy until now", 3600, 0, 600, Some(60)),
        ("it was healthy until a moment ago", 3600, 59, 600, Some(1)),
        ("it was healthy, too long ago", 3600, 60, 600, None),
        ("it flaps before its deadline", 100, 10, 600, Some(500)),
        ("it flaps shortly before its deadline", 590, 10, 600, Some(50)),
        ("the grace period is not longer than the deadline", 3600, 0, 5, Some(5)),
        ("its clock is ahead", 3600, -1800, 600, None),
        ("its clock is ahead, before its deadline", 100, -1800, 600, Some(500)),
    ];
    for (sentence, done, unmet_since, deadline, left) in rows {
        let state =
            State::Unproven { since: ago(done), unmet_since: ago(unmet_since), missing: "x".to_owned() };
        let [first, second] = <[Member; 2]>::try_from(members("w w")).unwrap();
        let strategy = Ok(Strategy { deadline: Some(Duration::from_secs(deadline)), ..at_a_time(1) });
        let plan = plan(&strategy, vec![Member { state, ..first }, second], Share::Percent(100), now());
        let late = usize::from(left.is_none());
        assert_eq!((plan.counts.timed_out, plan.next), (late, left.map(|left| ago(-left))), "{sentence}");
    }
}

#[test]
fn every_cluster_is_counted_once() {
    let Counts { selected, waiting, changing, done, failed, timed_out, overridden } =
        run(&strategy(Pace::All), "m w c u d n f t a").counts;
    assert_eq!((selected, waiting, changing, done, failed, timed_out, overridden), (9, 2, 2, 2, 1, 1, 1));
}

proptest! {
    #[test]
    fn limits_hold_and_rollout_never_gets_stuck(
        states in proptest::collection::vec("[mwxcudnfta]", 1..12),
        slots in 1usize..5,
        tolerated in 0usize..4,
        soak in 0u64..100,
    ) {
        let strategy = Strategy {
            tolerated: Share::Count(tolerated),
            soak: Duration::from_secs(soak),
            ..at_a_time(slots)
        };
        let states = states.join(" ");
        let (start, _) = summarize(&strategy, &states);
        let found = run(&strategy, &states);
        let start = start.split_whitespace().count();
        let count = |is: fn(&State) -> bool| members(&states).iter().filter(|member| is(&member.state)).count();
        let busy = count(|state| matches!(state, State::Changing(_) | State::Unproven { .. } | State::Diverted));
        let diverted = count(|state| *state == State::Diverted);
        // Diverted clusters keep their slots; other clusters start only in free slots.
        let fresh = start.saturating_sub(diverted);
        prop_assert!(fresh == 0 || fresh + busy <= slots, "{fresh} start beside {busy}");
        // Every waiting cluster is listed once, with its reason.
        let listed: usize = found.waiting.iter().map(|waiting| waiting.clusters.len()).sum();
        prop_assert_eq!(listed + start, found.counts.waiting + diverted);
        // If no cluster is changing or soaking and the failures are within the limit, at least one cluster starts.
        let failed = found.counts.failed + found.counts.timed_out;
        if busy == 0 && failed <= tolerated && found.next.is_none() && found.counts.waiting > 0 {
            prop_assert!(start > 0);
        }
    }
}
