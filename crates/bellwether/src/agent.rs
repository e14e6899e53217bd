//! `bellwether run agent`: the controllers of one cluster of real Kubernetes, and what they say of themselves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bellwether_api::addons_managed::AddonInstance;
use bellwether_clock::SystemClock;
use bellwether_runtime::{Context, Election, Health, Leadership, Metrics, Shutdown, http};
use clap::Args;
use kube::api::{Api, ListParams};
use tokio::net::TcpListener;

use crate::cli::TargetArgs;
use crate::controllers::ControllerArgs;
use crate::signals::StopSignals;
use crate::target::Target;

/// How long a clean stop may take.
const STOP: Duration = Duration::from_secs(5);
/// How long the first answer may take.
const FIRST_ANSWER: Duration = Duration::from_secs(15);
/// The lease by which copies of the agent agree on one.
const LEASE: &str = "bellwether-agent";

/// Run the controllers of a spoke: the Addon controller and the heartbeat checker.
///
/// The cluster needs our definitions: `bellwether crds --install`. Of several copies one acts and the others stand by,
/// by a Lease in the namespace of the context (in a pod: its own namespace).
///
///   bellwether run agent --context spoke-1
///   bellwether run agent --controllers heartbeat-checker --timeout-multiplier 5
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    target: TargetArgs,

    #[command(flatten)]
    controllers: ControllerArgs,

    /// Where plain HTTP listens: /healthz, /readyz and /metrics. Port 0 picks a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8001")]
    listen: SocketAddr,

    /// The name of the cluster in logs and metrics.
    #[arg(long, value_name = "NAME", default_value = "local")]
    cluster_name: String,

    /// Whether copies of the agent agree on one that acts. Switch it off where there is only one.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    leader_election: bool,
}

pub(crate) fn run(arguments: &AgentArgs) -> anyhow::Result<()> {
    // Nothing here computes for long. Where a thousand small events a second come in, handing each from thread to thread
    // would cost more than the work.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(arguments));
    runtime.shutdown_timeout(Duration::from_millis(200));
    outcome
}

async fn serve(arguments: &AgentArgs) -> anyhow::Result<()> {
    let mut stop = StopSignals::listen()?;
    let listener = TcpListener::bind(arguments.listen).await.with_context(|| {
        format!("cannot listen on {}; choose another address with --listen", arguments.listen)
    })?;
    let target = Target::find(&arguments.target).await?;
    tokio::select! {
        checked = check_definitions(&target) => checked?,
        () = stop.next() => return Ok(()),
    }
    let context = context(arguments, &target);
    arguments.controllers.start(|_| context.clone());
    println!("The agent of {target} is up; http://{} has /readyz and /metrics.", listener.local_addr()?);
    let routes = http::routes(context.health.clone(), context.metrics.clone());
    tokio::spawn(async move { axum::serve(listener, routes).await });

    stop.next().await;
    eprintln!("Stopping; press Ctrl-C again to stop at once.");
    tokio::select! {
        _ = tokio::time::timeout(STOP, context.shutdown.finish()) => {}
        () = stop.next() => {}
    }
    Ok(())
}

/// Controllers would wait for ever for kinds that nobody serves; a person had better know at once.
async fn check_definitions(target: &Target) -> anyhow::Result<()> {
    let instances: Api<AddonInstance> = Api::all(target.client.clone());
    let one = ListParams::default().limit(1);
    let listed = tokio::time::timeout(FIRST_ANSWER, instances.list(&one)).await;
    let Ok(listed) = listed else {
        anyhow::bail!("no answer from {target} within {FIRST_ANSWER:?}; is the cluster running?");
    };
    match listed {
        Ok(_) => Ok(()),
        // By its code: a server that does not know the group answers in plain text, without a reason.
        Err(kube::Error::Api(status)) if status.code == 404 => anyhow::bail!(
            "{target} does not serve addoninstances.addons.managed.openshift.io; install our definitions there with \
             `bellwether crds --install`"
        ),
        Err(error) => Err(target.explain("list AddonInstances", error)),
    }
}

fn context(arguments: &AgentArgs, target: &Target) -> Context {
    let (shutdown, health) = (Shutdown::default(), Health::default());
    let leadership = if arguments.leader_election {
        let election = Election {
            namespace: target.client.default_namespace().to_owned(),
            lease: LEASE.to_owned(),
            candidate: candidate(),
        };
        Leadership::elected(target.client.clone(), election, &shutdown, &health)
    } else {
        Leadership::alone()
    };
    Context {
        client: target.client.clone(),
        cluster: arguments.cluster_name.as_str().into(),
        clock: Arc::new(SystemClock),
        leadership,
        metrics: Metrics::default(),
        health,
        shutdown,
    }
}

/// A name that no other copy has, and that says which one it is.
fn candidate() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "agent".to_owned());
    format!("{host}-{:08x}", rand::random::<u32>())
}
