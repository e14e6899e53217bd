//! A complete add-on: it checks its components every two seconds, reports their health, and sends heartbeats until Ctrl-C.
//!
//! With `bellwether up` running in another terminal, and an AddonInstance in the namespace reference-addon:
//!
//! ```text
//! KUBECONFIG=.bellwether/kubeconfig cargo run -p bellwether-heartbeat --example reference_addon
//! bellwether heartbeat watch
//! ```
//!
//! The file ./component-x stands for a component: remove it and create it again to see the condition Healthy change.

use std::path::Path;
use std::time::Duration;

use bellwether_conditions::{Desired, Reason, Status};
use bellwether_heartbeat::client::{Instance, Reporter};
use bellwether_heartbeat::vocabulary::instance::HEALTHY;

const COMPONENTS_UP: Reason = Reason::constant("ComponentsUp");
const COMPONENT_DOWN: Reason = Reason::constant("ComponentDown");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = kube::Client::try_default().await?;
    let instance = Instance::in_namespace(client, "reference-addon");
    let reporter = Reporter::start(instance, vec![condition()]);

    let mut reported = condition();
    let mut checks = tokio::time::interval(Duration::from_secs(2));
    let stop = tokio::signal::ctrl_c();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            _ = checks.tick() => {
                let now = condition();
                // The reporter repeats conditions by itself, so only changes are passed on.
                if now != reported
                    && let Err(error) = reporter.set_conditions(vec![now.clone()]).await
                {
                    eprintln!("{error}; the conditions are sent again with the next heartbeat");
                }
                reported = now;
            }
            _ = &mut stop => break,
        }
    }
    Ok(reporter.stop().await?)
}

fn condition() -> Desired {
    if Path::new("component-x").exists() {
        Desired::new(HEALTHY, Status::True, COMPONENTS_UP, "Reference Addon is operational.")
    } else {
        Desired::new(HEALTHY, Status::False, COMPONENT_DOWN, "Component X is non-operational!")
    }
}
