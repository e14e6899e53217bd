//! One suite of scenarios for every kind of cluster: each by itself on our server, where time is paused, and all of them on
//! real Kubernetes, a few at the same time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Instant;

use futures::future::{LocalBoxFuture, join_all};

/// A scenario and its name.
pub type Scenario<T> = (&'static str, for<'a> fn(&'a T) -> LocalBoxFuture<'a, ()>);

/// Goes through scenarios in as many lanes, each with what `prepare` makes for it, and says how long each took.
pub async fn in_lanes<T>(lanes: usize, prepare: impl AsyncFn(usize) -> T, scenarios: Vec<Scenario<T>>) {
    let queue = RefCell::new(VecDeque::from(scenarios));
    let lane = async |number: usize| {
        let ground = prepare(number).await;
        loop {
            let next = queue.borrow_mut().pop_front();
            let Some((name, scenario)) = next else { break };
            let begun = Instant::now();
            let told = Told(name);
            scenario(&ground).await;
            std::mem::forget(told);
            println!("{name}: {:.1} s", begun.elapsed().as_secs_f64());
        }
    };
    join_all((0..lanes).map(lane)).await;
}

/// Says which scenario it was that ended in a panic.
struct Told(&'static str);

impl Drop for Told {
    fn drop(&mut self) {
        println!("{}: it did not come to its end", self.0);
    }
}

/// Makes a test of each scenario on our server with time paused, and one of all of them on real Kubernetes. A scenario is a
/// function of a reference to the stage, which is made anew for each from the ground that it stands on.
///
/// ```ignore
/// bellwether_testkit::scenarios! {
///     ground: Theatre, embedded: embedded, real: real, lanes: 3, stage: Stage::new;
///
///     module::a_sentence,
/// }
/// ```
#[macro_export]
macro_rules! scenarios {
    (
        ground: $ground:ty, embedded: $embedded:path, real: $real:path, lanes: $lanes:literal, stage: $stage:path;
        $($module:ident::$scenario:ident),* $(,)?
    ) => {
        $(
            #[test]
            fn $scenario() {
                $crate::on_paused_time(async {
                    let ground: $ground = $embedded().await;
                    let stage = $stage(&ground).await;
                    $module::$scenario(&stage).await;
                });
            }
        )*

        #[cfg(feature = "real-kubernetes")]
        #[test]
        fn real_kubernetes_behaves_the_same() {
            let scenarios: Vec<$crate::Scenario<$ground>> = vec![$(
                (stringify!($scenario), |ground| {
                    Box::pin(async move {
                        let stage = $stage(ground).await;
                        $module::$scenario(&stage).await;
                    })
                }),
            )*];
            $crate::on_real_time($crate::in_lanes($lanes, $real, scenarios));
        }
    };
}
