//! The arguments and help texts of `bellwether heartbeat`. The commands themselves are in `send` and `watch`.

use std::time::Duration;

use bellwether_conditions::{Desired, Status};
use bellwether_heartbeat::vocabulary::{GROUP, INSTANCE_NAME};
use clap::{Args, Subcommand, ValueEnum};

use crate::cli::{Output, TargetArgs, duration};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    Send(SendArgs),
    Watch(WatchArgs),
}

/// Send a heartbeat for an add-on, once or repeatedly
///
/// Updates status.lastHeartbeatTime of the add-on's AddonInstance, as the client libraries do. Use it for add-ons that
/// cannot use a client library: from a shell, a cron job or a sidecar. With --every it repeats the heartbeat until Ctrl-C
/// or SIGTERM, retries after errors, and sends a last heartbeat before it exits. In a pod without a kubeconfig it uses
/// the pod's ServiceAccount, which needs the permissions `get addoninstances` and `update addoninstances/status`.
///
///   bellwether heartbeat send --namespace reference-addon --context spoke-1
///   bellwether heartbeat send -n reference-addon --every
///   bellwether heartbeat send -n reference-addon --every 5s --condition 'Healthy=True:ComponentsUp:All components are up.'
///   bellwether heartbeat send -n reference-addon --condition 'Healthy=False:ComponentDown:Component X is down!'
///
/// Exit codes: 0 sent, or stopped by a signal; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SendArgs {
    /// The namespace of the add-on. Default: the namespace of the kubeconfig context, or of the pod.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// The name of the AddonInstance.
    #[arg(long, value_name = "NAME", default_value = INSTANCE_NAME)]
    pub(crate) name: String,

    /// Set a condition with the heartbeat; can be given once for each TYPE. A TYPE without a / gets the prefix
    /// addons.managed.openshift.io/, as in Healthy, Degraded, Installed and ReadyToBeDeleted. STATUS is True, False or
    /// Unknown, REASON is one CamelCase word, MESSAGE is any text.
    #[arg(long = "condition", value_name = "TYPE=STATUS:REASON:MESSAGE", value_parser = parse_condition)]
    pub(crate) conditions: Vec<Desired>,

    /// Repeat the heartbeat with this period, such as 10s or 1m30s. Without a DURATION, the command uses the
    /// period of the AddonInstance and follows its changes.
    #[arg(long, value_name = "DURATION", num_args = 0..=1, value_parser = parse_period)]
    pub(crate) every: Option<Option<Duration>>,

    /// The output for each heartbeat: a line of text, or a line of JSON.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = LineFormat::Text)]
    pub(crate) output: LineFormat,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LineFormat {
    Text,
    Json,
}

/// Watch which add-ons of a cluster are alive
///
/// On a terminal it shows a table that updates continuously, add-ons with problems first. Otherwise it prints a line for
/// every instance, and then one for every change of state. It uses one Kubernetes watch and does not poll.
///
///   bellwether heartbeat watch --context spoke-1
///   bellwether heartbeat watch -n reference-addon
///   bellwether heartbeat watch --once -o json | jq '.[] | select(.state != "Alive")'
///
/// STATE is Alive, Down (the add-on reports Healthy=False), Silent (the heartbeat checker reported a timeout), Late
/// (heartbeats stopped, and no checker has reported it yet), Unknown (the add-on reports Healthy=Unknown), or Never (no
/// heartbeat so far).
///
/// Exit codes: 0 done, or stopped by a signal; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct WatchArgs {
    /// Show only the add-ons of this namespace. Default: all namespaces.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Print the current state once, and exit.
    #[arg(long)]
    pub(crate) once: bool,

    /// The output format: a table, or JSON. JSON is a list with --once, otherwise a line for each change.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

fn parse_period(text: &str) -> Result<Duration, String> {
    let period = duration(text)?;
    if period < Duration::from_secs(1) {
        return Err(
            "the period must be at least 1s, because heartbeats have timestamps in whole seconds".into()
        );
    }
    Ok(period)
}

/// Parses `TYPE=STATUS:REASON:MESSAGE`, such as `Healthy=False:ComponentDown:Component X is down: see the log.`
fn parse_condition(text: &str) -> Result<Desired, String> {
    let (type_, rest) = text.split_once('=').ok_or("'=' is missing: use TYPE=STATUS:REASON:MESSAGE")?;
    let type_ = if type_.contains('/') { type_.to_owned() } else { format!("{GROUP}/{type_}") };
    let (status, rest) = rest.split_once(':').ok_or("REASON is missing: use TYPE=STATUS:REASON:MESSAGE")?;
    let (reason, message) = rest.split_once(':').unwrap_or((rest, ""));
    Ok(Desired::new(
        type_.parse().map_err(|error| format!("{error}"))?,
        parse_status(status)?,
        reason.parse().map_err(|error| format!("{error}"))?,
        message,
    ))
}

fn parse_status(text: &str) -> Result<Status, String> {
    [Status::True, Status::False, Status::Unknown]
        .into_iter()
        .find(|status| status.as_str().eq_ignore_ascii_case(text))
        .ok_or_else(|| format!("{text:?} is not a status: use True, False or Unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_conditions_are_parsed() {
        let rows = [
            (
                "Healthy=True:ComponentsUp:All components are up.",
                "addons.managed.openshift.io/Healthy",
                Status::True,
                "ComponentsUp",
                "All components are up.",
            ),
            (
                "Healthy=false:Down:X: see http://x/y?a=b",
                "addons.managed.openshift.io/Healthy",
                Status::False,
                "Down",
                "X: see http://x/y?a=b",
            ),
            ("example.com/Warm=UNKNOWN:NotSure", "example.com/Warm", Status::Unknown, "NotSure", ""),
            ("Degraded=True:R:", "addons.managed.openshift.io/Degraded", Status::True, "R", ""),
        ];
        for (text, type_, status, reason, message) in rows {
            let parsed = parse_condition(text).unwrap();
            let found =
                (parsed.type_.as_str(), parsed.status, parsed.reason.as_str(), parsed.message.as_str());
            assert_eq!(found, (type_, status, reason, message), "{text}");
        }
    }

    #[test]
    fn invalid_conditions_are_rejected_with_a_cause() {
        let rows = [
            ("Healthy", "'=' is missing"),
            ("Healthy=True", "REASON is missing"),
            ("Healthy=Yes:R:m", "\"Yes\" is not a status: use True, False or Unknown"),
            ("Healthy=True::m", "\"\" is not a reason"),
            ("Healthy=True:not one word:m", "\"not one word\" is not a reason"),
            ("not a type=True:R:m", "is not a condition type"),
            ("=True:R:m", "is not a condition type"),
        ];
        for (text, expected) in rows {
            let error = parse_condition(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn period_is_at_least_a_second() {
        assert_eq!(parse_period("1m30s"), Ok(Duration::from_secs(90)));
        assert!(parse_period("500ms").unwrap_err().contains("at least 1s"));
        assert!(parse_period("often").unwrap_err().contains("a number with a unit"));
    }
}
