//! Addons on our server in process, where time is paused, and on real Kubernetes, which checks what is written.
#![cfg(feature = "controllers")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod validation;

use bellwether_testkit::{Cluster, embedded, on_paused_time};

/// A fresh cluster of our own that knows our kinds.
async fn embedded() -> Cluster {
    prepared(embedded::in_process().await).await
}

async fn prepared(cluster: Cluster) -> Cluster {
    let definitions = bellwether_api::crds().into_iter();
    cluster
        .install_definitions(definitions.map(|definition| serde_json::to_value(definition.crd).unwrap()))
        .await;
    cluster
}

/// Runs each scenario on our server with time paused, and all of them on one real Kubernetes.
macro_rules! scenarios {
    ($($module:ident::$scenario:ident),* $(,)?) => {
        $(
            #[test]
            fn $scenario() {
                on_paused_time(async { $module::$scenario(&embedded().await).await });
            }
        )*

        #[cfg(feature = "real-kubernetes")]
        #[test]
        fn real_kubernetes_behaves_the_same() {
            bellwether_testkit::on_real_time(async {
                let cluster = prepared(bellwether_testkit::real::cluster("addon").await).await;
                $(
                    println!("{}", stringify!($scenario));
                    $module::$scenario(&cluster).await;
                )*
            });
        }
    };
}

scenarios! {
    validation::every_new_addon_is_judged_by_the_rules,
    validation::every_change_of_an_addon_is_judged_by_the_rules,
}
