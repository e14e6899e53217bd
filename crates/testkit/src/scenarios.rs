//! Suites of scenarios that run on every kind of cluster: each scenario as a test of its own on the embedded
//! API server with time paused, and all of them as one test on real Kubernetes, a few at the same time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Instant;

use futures::future::{LocalBoxFuture, join_all};

/// A scenario and its name.
pub type Scenario<T> = (&'static str, for<'a> fn(&'a T) -> LocalBoxFuture<'a, ()>);

/// Runs scenarios in several lanes at the same time and prints how long each scenario took. `prepare` makes
/// the environment of a lane, in which its scenarios run one after the other.
pub async fn run_in_lanes<T>(lanes: usize, prepare: impl AsyncFn(usize) -> T, scenarios: Vec<Scenario<T>>) {
    let queue = RefCell::new(VecDeque::from(scenarios));
    let lane = async |number: usize| {
        let environment = prepare(number).await;
        loop {
            let next = queue.borrow_mut().pop_front();
            let Some((name, scenario)) = next else { break };
            let started = Instant::now();
            let panic_reporter = PanicReporter(name);
            scenario(&environment).await;
            std::mem::forget(panic_reporter);
            println!("{name}: {:.1} s", started.elapsed().as_secs_f64());
        }
    };
    join_all((0..lanes).map(lane)).await;
}

/// Prints the name of a scenario if it panics; forgotten otherwise.
struct PanicReporter(&'static str);

impl Drop for PanicReporter {
    fn drop(&mut self) {
        println!("{}: the scenario panicked", self.0);
    }
}

/// Defines one test for each scenario on the embedded API server with time paused, and one test for all of
/// them on real Kubernetes. A scenario is an async function that gets a reference to its fixture.
///
/// - `ground` is the type of the environment that scenarios share on real Kubernetes, such as a [`crate::Cluster`].
/// - `embedded` makes such an environment for each scenario on the embedded API server.
/// - `real` makes one for each lane on real Kubernetes; `lanes` is the number of lanes.
/// - `stage` makes the fixture of a scenario from a reference to the environment.
///
/// ```ignore
/// bellwether_testkit::scenarios! {
///     environment: TestClusters, embedded: embedded, real: real, lanes: 3, fixture: Fixture::new;
///
///     lease::expired_lease_marks_cluster_unavailable,
/// }
/// ```
#[macro_export]
macro_rules! scenarios {
    (
        environment: $environment:ty, embedded: $embedded:path, real: $real:path, lanes: $lanes:literal, fixture: $fixture:path;
        $($module:ident::$scenario:ident),* $(,)?
    ) => {
        $(
            #[test]
            fn $scenario() {
                $crate::on_paused_time(async {
                    let environment: $environment = $embedded().await;
                    let fixture = $fixture(&environment).await;
                    $module::$scenario(&fixture).await;
                });
            }
        )*

        #[cfg(feature = "real-kubernetes")]
        #[test]
        fn real_kubernetes_behaves_the_same() {
            let scenarios: Vec<$crate::Scenario<$environment>> = vec![$(
                (stringify!($scenario), |environment| {
                    Box::pin(async move {
                        let fixture = $fixture(environment).await;
                        $module::$scenario(&fixture).await;
                    })
                }),
            )*];
            $crate::on_real_time($crate::run_in_lanes($lanes, $real, scenarios));
        }
    };
}
