//! A simulation of all writers of the status, with writes that are lost, late or out of order, and with restarts. Each seed is a
//! different course of events. It uses the same decisions as the controllers; the objects and the network are simulated.
//!
//! `BELLWETHER_SIMULATION_SEEDS` is the number of seeds; `make chaos` tries a million.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

use bellwether_conditions::guard::CurrentReason;
use bellwether_conditions::{Condition, ConditionSet};
use bellwether_observability::decide::state::{is_component, state_of, with_state};
use bellwether_observability::decide::transition::{Actor, Decision, Report, current_reason, decide};
use bellwether_observability::vocabulary::ComponentReason::{
    DisabledMetrics, ForwardFailure, ForwardSuccessful, NotSupported, UpdateFailure, UpdateSuccesful,
};
use bellwether_observability::vocabulary::{Component, ComponentReason, StandardType, Vocabulary};
use jiff::Timestamp;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

const SEEDS: &str = "BELLWETHER_SIMULATION_SEEDS";
const DEFAULT_SEEDS: u64 = 10_000;
const STEPS: usize = 120;
/// More writes than this mean that the writers never agree.
const MAX_SETTLING_STEPS: usize = 2_000;

/// An object of an API server: a write needs the version that it was decided by.
#[derive(Clone, Default)]
struct Object {
    version: u64,
    conditions: ConditionSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Reporter(usize),
    StatusController,
    HubCopy,
}

/// A write on its way to an API server.
#[derive(Clone)]
struct Write {
    by: Writer,
    /// The version of the object that it was decided by.
    based_on: u64,
    /// The version of the cluster's object whose status is copied to the hub.
    source: u64,
    conditions: ConditionSet,
}

/// The operator or a collector.
struct Process {
    actor: Actor,
    component: Option<Component>,
    /// What it still has to report.
    pending: Option<Report>,
}

struct World {
    random: SmallRng,
    time: i64,
    cluster: Object,
    hub: Object,
    /// The version of the cluster's object that the hub has.
    on_hub: u64,
    /// What the status controller has seen of the cluster's object; it never goes back.
    cache: Object,
    processes: Vec<Process>,
    network: Vec<Write>,
    /// The reasons when the state was last written.
    reasons_of_state: [CurrentReason<ComponentReason>; 2],
}

impl World {
    fn new(seed: u64) -> Self {
        let process = |actor, component| Process { actor, component, pending: None };
        Self {
            random: SmallRng::seed_from_u64(seed),
            time: 0,
            cluster: Object::default(),
            hub: Object::default(),
            on_hub: 0,
            cache: Object::default(),
            processes: vec![
                process(Actor::Operator, None),
                process(Actor::Collector, Some(Component::Platform)),
                process(Actor::Collector, Some(Component::UserWorkload)),
            ],
            network: Vec::new(),
            reasons_of_state: [CurrentReason::Absent; 2],
        }
    }

    fn now(&mut self) -> Timestamp {
        self.time += self.random.random_range(0..3);
        Timestamp::from_second(self.time).unwrap()
    }

    /// One random event.
    fn step(&mut self) {
        match self.random.random_range(0..12) {
            0..3 => {
                let number = self.random.random_range(0..self.processes.len());
                self.observe(number);
                self.send_report(number);
            }
            3 => {
                let number = self.random.random_range(0..self.processes.len());
                self.send_report(number);
            }
            4 => self.see(),
            5 => self.send_state(),
            6 => self.send_copy(),
            7..10 => self.deliver(),
            10 => self.lose(),
            _ => self.restart(),
        }
    }

    /// A process learns something that it has to report.
    fn observe(&mut self, number: usize) {
        let process = &mut self.processes[number];
        let component =
            process.component.unwrap_or_else(|| *Component::ALL.choose(&mut self.random).unwrap());
        let reasons: &[ComponentReason] = match process.actor {
            Actor::Operator => {
                &[UpdateSuccesful, UpdateSuccesful, UpdateFailure, DisabledMetrics, NotSupported]
            }
            Actor::Collector => &[ForwardSuccessful, ForwardSuccessful, ForwardFailure],
        };
        let reason = *reasons.choose(&mut self.random).unwrap();
        let message = format!("message {}", self.random.random_range(0..3));
        process.pending = Some(Report { actor: process.actor, component, reason, message });
    }

    /// A process reads the object and sends its report, or finds that there is nothing to write.
    fn send_report(&mut self, number: usize) {
        let now = self.now();
        let Some(report) = self.processes[number].pending.clone() else { return };
        match decide(&self.cluster.conditions, &report, Vocabulary::Seed, now) {
            Decision::Write(conditions) => self.network.push(Write {
                by: Writer::Reporter(number),
                based_on: self.cluster.version,
                source: 0,
                conditions,
            }),
            Decision::Unchanged | Decision::Refused(_) => self.processes[number].pending = None,
        }
    }

    /// The watch of the status controller delivers the object.
    fn see(&mut self) {
        self.cache = self.cluster.clone();
    }

    fn send_state(&mut self) {
        let now = self.now();
        let conditions = with_state(&self.cache.conditions, Vocabulary::Seed, now);
        if conditions != self.cache.conditions {
            let based_on = self.cache.version;
            self.network.push(Write { by: Writer::StatusController, based_on, source: 0, conditions });
        }
    }

    fn send_copy(&mut self) {
        if self.hub.conditions != self.cache.conditions {
            self.network.push(Write {
                by: Writer::HubCopy,
                based_on: self.hub.version,
                source: self.cache.version,
                conditions: self.cache.conditions.clone(),
            });
        }
    }

    /// Some write arrives, not necessarily the oldest.
    fn deliver(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let number = self.random.random_range(0..self.network.len());
        let write = self.network.swap_remove(number);
        let object = if write.by == Writer::HubCopy { &mut self.hub } else { &mut self.cluster };
        if write.based_on != object.version {
            return;
        }
        let before = std::mem::replace(&mut object.conditions, write.conditions.clone());
        object.version += 1;
        match write.by {
            Writer::HubCopy => {
                assert!(write.source >= self.on_hub, "the hub never goes back");
                self.on_hub = write.source;
            }
            Writer::StatusController => self.check_state_write(&before),
            Writer::Reporter(number) => {
                self.check_report_write(number, &before);
                // The response may be lost; then the process sends the report again.
                if self.random.random_bool(0.8) {
                    self.processes[number].pending = None;
                }
            }
        }
    }

    fn lose(&mut self) {
        if !self.network.is_empty() {
            let number = self.random.random_range(0..self.network.len());
            self.network.swap_remove(number);
        }
    }

    /// A process ends and starts again. What it has sent may still arrive.
    fn restart(&mut self) {
        let number = self.random.random_range(0..=self.processes.len());
        match self.processes.get_mut(number) {
            Some(process) => process.pending = None,
            // The status controller lists the object anew.
            None => self.see(),
        }
    }

    /// A report changes one component, by a change that is allowed, and nothing else.
    fn check_report_write(&self, number: usize, before: &ConditionSet) {
        let after = &self.cluster.conditions;
        assert_eq!(standard(before), standard(after), "a report changes no standard condition");
        for component in Component::ALL {
            let (from, to) = (current_reason(before, component), current_reason(after, component));
            let is_own = self.processes[number].component.is_none_or(|own| own == component);
            assert!(from == to || is_own, "a collector reports about itself");
            let is_locked =
                [UpdateFailure, DisabledMetrics, NotSupported].map(CurrentReason::Known).contains(&from);
            let by_collector = self.processes[number].actor == Actor::Collector;
            assert!(
                from == to || !(is_locked && by_collector),
                "{from} ends only by the operator, not as {to}"
            );
        }
    }

    /// The state follows from the components, and changes only if they did.
    fn check_state_write(&mut self, before: &ConditionSet) {
        let after = &self.cluster.conditions;
        assert_eq!(components(before), components(after), "the status controller changes no component");
        let (state_before, state_after) = (true_types(before), true_types(after));
        let wanted = state_of(after, Vocabulary::Seed).map(|state| state.type_);
        assert_eq!(state_after, Vec::from_iter(wanted), "the state is that of the components");
        let reasons = Component::ALL.map(|component| current_reason(after, component));
        if state_before != state_after {
            assert_ne!(reasons, self.reasons_of_state, "{state_before:?} to {state_after:?} has a cause");
        }
        self.reasons_of_state = reasons;
    }

    /// No more news and no more losses: everything is delivered, and nobody has anything to write.
    fn settle(&mut self) {
        for _ in 0..MAX_SETTLING_STEPS {
            while !self.network.is_empty() {
                self.deliver();
            }
            for number in 0..self.processes.len() {
                self.send_report(number);
            }
            self.see();
            self.send_state();
            self.send_copy();
            if self.network.is_empty() {
                return;
            }
        }
        panic!("the writers do not settle");
    }
}

fn standard(conditions: &ConditionSet) -> Vec<Condition> {
    conditions.iter().filter(|one| !is_component(&one.type_)).cloned().collect()
}

fn components(conditions: &ConditionSet) -> Vec<Condition> {
    conditions.iter().filter(|one| is_component(&one.type_)).cloned().collect()
}

fn true_types(conditions: &ConditionSet) -> Vec<StandardType> {
    StandardType::ALL.into_iter().filter(|type_| conditions.is_true(&type_.condition_type())).collect()
}

#[test]
fn states_change_only_for_a_cause_and_the_hub_ends_equal() {
    let seeds = std::env::var(SEEDS).map_or(DEFAULT_SEEDS, |text| text.parse().unwrap());
    for seed in 0..seeds {
        let outcome = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                world.step();
            }
            world.settle();
            assert_eq!(
                world.hub.conditions, world.cluster.conditions,
                "the hub has the status of the cluster"
            );
            let again = with_state(&world.cluster.conditions, Vocabulary::Seed, Timestamp::MAX);
            assert_eq!(again, world.cluster.conditions, "nothing is left to write");
        });
        assert!(outcome.is_ok(), "seed {seed} fails");
    }
}
