use bellwether_api::addon::{MandatoryDecisionGroup, SuccessCriteria};
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::*;
use std::time::Duration;

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
/// `d`one long ago, `n`ow done, `f`ailed, `t`imed out, `a`part; and the place of their group behind it.
fn members(states: &str) -> Vec<Member> {
    let state = |letter: u8| match letter {
        b'm' => State::Absent,
        b'w' => State::Waiting,
        b'x' => State::Diverted,
        b'c' => State::Changing(ago(1)),
        b'u' => State::Unproven {
            since: ago(1),
            unmet_since: ago(1),
            missing: "it has not said that it is alive".to_owned(),
        },
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
    plan(&Ok(strategy.clone()), &members(states), Share::Percent(100), now())
}

fn admitted_clusters(plan: &Plan) -> Vec<String> {
    let begin = plan.turns.iter().filter(|(_, step)| **step == Step::Starts);
    let mut names: Vec<String> = begin.map(|(name, _)| name.clone()).collect();
    names.sort();
    names
}

/// The admitted clusters, and what the others wait for.
fn summarize(strategy: &Strategy, states: &str) -> (String, Vec<String>) {
    let found = run(strategy, states);
    let begin = admitted_clusters(&found);
    let waits = found.waiting.iter().map(|waiting| format!("{}: {}", waiting.clusters.join(" "), waiting));
    (begin.join(" "), waits.collect())
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
        ("failures keep nobody back of all", strategy(Pace::All), "f w t w", "c2 c4", vec![]),
        (
            "the first two by name",
            at_a_time(2),
            "w w w w",
            "c1 c2",
            vec!["c3 c4: at most 2 at a time: c1, c2"],
        ),
        (
            "one is through, the next admitted_clusters",
            at_a_time(2),
            "d c w w",
            "c3",
            vec!["c4: at most 2 at a time: c2, c3"],
        ),
        ("who has begun keeps its place", at_a_time(1), "w w c", "", vec!["c1 c2: at most 1 at a time: c3"]),
        (
            "who was on another way takes a place and changes its course",
            at_a_time(2),
            "w w x",
            "c1 c3",
            vec!["c2: at most 2 at a time: c3, c1"],
        ),
        (
            "who has no object yet has its place, and is named",
            at_a_time(1),
            "m w",
            "c1",
            vec!["c2: at most 1 at a time: c1 (it has no ManagedClusterAddOn yet)"],
        ),
        (
            "a group that must not fail proves nothing where a person has set all of it",
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
            "never none at all",
            strategy(Pace::Progressive(Some(Share::Count(0)))),
            "w w",
            "c1",
            vec!["c2: at most 1 at a time: c1"],
        ),
        ("group size by default", strategy(Pace::Progressive(None)), "w w w", "c1 c2 c3", vec![]),
        (
            "who is not proven keeps its place",
            at_a_time(1),
            "u w",
            "",
            vec!["c2: at most 1 at a time: c1 (it has not said that it is alive)"],
        ),
        (
            "one failure is one too many",
            at_a_time(2),
            "f w w",
            "",
            vec!["c2 c3: the rollout stopped: 1 failed, 0 may: c1"],
        ),
        (
            "a failure that is tolerated frees its place",
            tolerant(1),
            "f w w w",
            "c2 c3",
            vec!["c4: at most 2 at a time: c2, c3"],
        ),
        (
            "more than are tolerated",
            tolerant(1),
            "f t w c",
            "",
            vec!["c3: the rollout stopped: 2 failed, 1 may: c1, c2"],
        ),
        (
            "a person's choice takes no place",
            at_a_time(1),
            "a w w",
            "c2",
            vec!["c3: at most 1 at a time: c2"],
        ),
        (
            "who has just come through must stay well",
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
            "nobody soaks where all go at once",
            Strategy { soak: Duration::ZERO, ..soaking(Pace::All) },
            "n w",
            "c2",
            vec![],
        ),
        (
            "the canaries first",
            canary(Pace::Progressive(Some(Share::Count(5)))),
            "w0 w0 w1 w1",
            "c1 c2",
            vec!["c3 c4: group canary comes first: c1, c2"],
        ),
        (
            "then the others",
            canary(Pace::Progressive(Some(Share::Count(1)))),
            "d0 d0 w1 w1",
            "c3",
            vec!["c4: at most 1 at a time: c3"],
        ),
        (
            "a canary that fails stops all",
            Strategy { tolerated: Share::Count(9), ..canary(two) },
            "f0 w0 w1",
            "",
            vec![
                "c2: the rollout stopped: 1 failed, 0 may: c1",
                "c3: the rollout stopped: 1 failed, 0 may: c1",
            ],
        ),
        ("a group by its place", by_index, "w0 w1 w1", "c2 c3", vec!["c1: group 1 comes first: c2, c3"]),
        (
            "canaries come first also of all",
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
            "a group that soaks",
            soaking(Pace::PerGroup),
            "n0 d0 w1",
            "",
            vec!["c3: group canary comes first: c1 (soaks until 2024-05-01T10:00:59Z)"],
        ),
        (
            "a group with a failure too many",
            strategy(Pace::PerGroup),
            "d0 f0 w1",
            "",
            vec!["c3: the rollout stopped: 1 failed, 0 may: c2"],
        ),
        (
            "a group with a failure that is tolerated",
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
            "nobody is where the first should be",
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
        ("nobody", strategy(Pace::All), "", "", vec![]),
    ];
    for (what, strategy, states, begin, waits) in rows {
        let found = summarize(&strategy, states);
        assert_eq!(found, (begin.to_owned(), waits.into_iter().map(str::to_owned).collect()), "{what}");
    }
}

#[test]
fn invalid_strategy_starts_no_cluster() {
    let found = plan(&Err("it is odd".to_owned()), &members("w c d"), Share::Percent(100), now());
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
    // How many seconds ago all was done, and how many ago it was last well; the deadline; until when it has time, from now.
    let rows = [
        ("it never was healthy", 100, 100, 600, Some(500)),
        ("it never was healthy, and its deadline is over", 600, 600, 600, None),
        ("it was healthy until now", 3600, 0, 600, Some(60)),
        ("it was healthy until a moment ago", 3600, 59, 600, Some(1)),
        ("it was healthy, and that is too long ago", 3600, 60, 600, None),
        ("it comes and goes, within its time", 100, 10, 600, Some(500)),
        ("it comes and goes, at the end of its time", 590, 10, 600, Some(50)),
        ("nobody is given more time than the deadline", 3600, 0, 5, Some(5)),
        ("by its own clock that is still to come", 3600, -1800, 600, None),
        ("by its own clock that is still to come, within its time", 100, -1800, 600, Some(500)),
    ];
    for (sentence, done, unmet_since, deadline, left) in rows {
        let state =
            State::Unproven { since: ago(done), unmet_since: ago(unmet_since), missing: "x".to_owned() };
        let [first, second] = <[Member; 2]>::try_from(members("w w")).unwrap();
        let strategy = Ok(Strategy { deadline: Some(Duration::from_secs(deadline)), ..at_a_time(1) });
        let plan = plan(&strategy, &[Member { state, ..first }, second], Share::Percent(100), now());
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
        let (begin, _) = summarize(&strategy, &states);
        let found = run(&strategy, &states);
        let begin = begin.split_whitespace().count();
        let count = |is: fn(&State) -> bool| members(&states).iter().filter(|member| is(&member.state)).count();
        let busy = count(|state| matches!(state, State::Changing(_) | State::Unproven { .. } | State::Diverted));
        let diverted = count(|state| *state == State::Diverted);
        // Diverted clusters keep their slots; other clusters start only in free slots.
        let fresh = begin.saturating_sub(diverted);
        prop_assert!(fresh == 0 || fresh + busy <= slots, "{fresh} begin beside {busy}");
        // Everybody who waits is listed why, once.
        let listed: usize = found.waiting.iter().map(|waiting| waiting.clusters.len()).sum();
        prop_assert_eq!(listed + begin, found.counts.waiting + diverted);
        // If no cluster is changing or soaking and the failures are within the limit, at least one cluster starts.
        let failed = found.counts.failed + found.counts.timed_out;
        if busy == 0 && failed <= tolerated && found.next.is_none() && found.counts.waiting > 0 {
            prop_assert!(begin > 0);
        }
    }
}
