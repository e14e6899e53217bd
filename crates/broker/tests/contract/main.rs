//! What every broker does: one suite, which runs on the built-in queue, and with the feature `real-brokers` also on NATS JetStream
//! and RabbitMQ.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod backend;
mod delivery;
mod failure;
#[cfg(feature = "real-brokers")]
mod nats;
mod outage;
#[cfg(feature = "real-brokers")]
mod rabbitmq;
mod sqlite;

use backend::Environment;

/// Runs each scenario as a test on the built-in queue, and all of them as one test on each server.
macro_rules! scenarios {
    (scenarios: $($module:ident::$scenario:ident),*; outages: $($outage:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                let environment: Environment = Box::new(sqlite::Sqlite::new());
                $module::$scenario(&environment).await;
            }
        )*
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $outage() {
                let environment: Environment = Box::new(sqlite::Sqlite::new());
                outage::$outage(&environment).await;
            }
        )*

        #[cfg(feature = "real-brokers")]
        fn scenarios() -> Vec<bellwether_testkit::Scenario<Environment>> {
            vec![$((stringify!($scenario), |environment| Box::pin($module::$scenario(environment)))),*]
        }

        #[cfg(feature = "real-brokers")]
        fn outages() -> Vec<bellwether_testkit::Scenario<Environment>> {
            vec![$((stringify!($outage), |environment| Box::pin(outage::$outage(environment)))),*]
        }
    };
}

scenarios! {
    scenarios:
    delivery::published_event_is_delivered,
    delivery::each_subscription_gets_every_event,
    delivery::subscribers_of_one_subscription_get_each_event_once,
    delivery::acknowledged_event_is_not_delivered_again,
    delivery::rejected_event_is_delivered_again_after_its_delay,
    delivery::unanswered_event_is_delivered_again_after_the_visibility_timeout,
    delivery::extended_event_is_delivered_once_however_long_it_takes,
    delivery::event_is_delivered_again_when_its_extensions_end,
    delivery::subscription_keeps_events_while_nobody_listens,
    delivery::topics_with_similar_names_are_separate,
    delivery::cancelled_next_loses_nothing,
    delivery::event_can_be_answered_after_its_subscriber_is_gone,
    failure::event_rejected_five_times_is_a_dead_letter,
    failure::event_unanswered_five_times_is_a_dead_letter,
    failure::body_that_is_not_an_event_is_a_dead_letter_and_the_next_event_is_delivered,
    failure::full_broker_rejects_an_event_and_keeps_the_others,
    failure::invalid_names_and_events_are_rejected,
    failure::running_broker_is_healthy;
    outages:
    restart_loses_nothing,
    stopped_broker_is_unreachable_and_recovers,
}

/// The number of scenarios that run at the same time on one server.
#[cfg(feature = "real-brokers")]
const LANES: usize = 6;

#[cfg(feature = "real-brokers")]
async fn run(backend: impl backend::Backend + Clone + 'static) {
    let environment = async |_| Box::new(backend.clone()) as Environment;
    bellwether_testkit::run_in_lanes(LANES, &environment, scenarios()).await;
    bellwether_testkit::run_in_lanes(1, &environment, outages()).await;
}

#[cfg(feature = "real-brokers")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_behaves_the_same() {
    run(nats::Nats::start()).await;
}

#[cfg(feature = "real-brokers")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rabbitmq_behaves_the_same() {
    run(rabbitmq::RabbitMq::start()).await;
}
