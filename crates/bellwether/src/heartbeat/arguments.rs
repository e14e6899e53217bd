//! What a person types after `bellwether heartbeat`.

use std::time::Duration;

use bellwether_conditions::{Desired, Status};
use bellwether_heartbeat::vocabulary::{GROUP, INSTANCE};
use clap::{Args, Subcommand, ValueEnum};

use crate::cli::{Output, TargetArgs, duration};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    Send(SendArgs),
    Watch(WatchArgs),
}

/// Say that an add-on is alive, once or again and again
///
/// Stamps the status of the add-on's AddonInstance, as the client libraries do: for add-ons that cannot link one, from
/// a shell, a cron job or a sidecar. With --every it goes on until Ctrl-C or SIGTERM, whatever goes wrong, and then
/// sends a last beat. In a pod without a kubeconfig it uses the pod's ServiceAccount, which needs to `get
/// addoninstances` and to `update addoninstances/status`.
///
///   bellwether heartbeat send --namespace reference-addon
///   bellwether heartbeat send -n reference-addon --every
///   bellwether heartbeat send -n reference-addon --every 5s --condition 'Healthy=True:ComponentsUp:All is well.'
///   bellwether heartbeat send -n reference-addon --condition 'Healthy=False:ComponentDown:Component X is down!'
///
/// Exit codes: 0 sent, or stopped by a signal; 1 error; 2 usage.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SendArgs {
    /// The namespace of the add-on. Without it: that of the context or of the pod.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// The AddonInstance of the add-on.
    #[arg(long, value_name = "NAME", default_value = INSTANCE)]
    pub(crate) name: String,

    /// Say also how the add-on is; may be given once for each TYPE. A TYPE without a / is one of
    /// addons.managed.openshift.io: Healthy, Degraded, Installed, ReadyToBeDeleted. STATUS is True, False or Unknown,
    /// REASON one word in CamelCase, MESSAGE any text.
    #[arg(long = "condition", value_name = "TYPE=STATUS:REASON:MESSAGE", value_parser = condition)]
    pub(crate) conditions: Vec<Desired>,

    /// Go on, with a beat in every such time: 10s, 1m30s. Without a DURATION: the period of the instance, also when it
    /// changes.
    #[arg(long, value_name = "DURATION", num_args = 0..=1, value_parser = period)]
    pub(crate) every: Option<Option<Duration>>,

    /// How to print each beat: a line of text, or of JSON.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Lines::Text)]
    pub(crate) output: Lines,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lines {
    Text,
    Json,
}

/// Watch which add-ons are alive
///
/// On a terminal it shows a table that is kept up to date, those in trouble first. Elsewhere it prints a line for every
/// instance, and from then on one for every change of state. It asks the cluster only to be told of changes.
///
///   bellwether heartbeat watch
///   bellwether heartbeat watch -n reference-addon
///   bellwether heartbeat watch --once -o json | jq '.[] | select(.state != "Alive")'
///
/// STATE is Alive, Down (it says itself that it is not healthy), Silent (the checker noticed that its heartbeats
/// stopped), Late (they stopped, and no checker has said so yet), Unknown, or Never (no heartbeat so far).
///
/// Exit codes: 0 done, or stopped by a signal; 1 error; 2 usage.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct WatchArgs {
    /// Only the add-ons of one namespace. Without it: of all.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Print the table as it is now, and end.
    #[arg(long)]
    pub(crate) once: bool,

    /// How to print: a table, or JSON: with --once a list, else a line for each change.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

fn period(text: &str) -> Result<Duration, String> {
    let period = duration(text)?;
    if period < Duration::from_secs(1) {
        return Err("heartbeats are at least 1s apart, because they are dated in whole seconds".into());
    }
    Ok(period)
}

/// `Healthy=False:ComponentDown:Component X is down: see the log.`
fn condition(text: &str) -> Result<Desired, String> {
    let (type_, rest) = text.split_once('=').ok_or("there is no '=': write TYPE=STATUS:REASON:MESSAGE")?;
    let type_ = if type_.contains('/') { type_.to_owned() } else { format!("{GROUP}/{type_}") };
    let (status, rest) =
        rest.split_once(':').ok_or("there is no REASON: write TYPE=STATUS:REASON:MESSAGE")?;
    let (reason, message) = rest.split_once(':').unwrap_or((rest, ""));
    Ok(Desired::new(
        type_.parse().map_err(|error| format!("{error}"))?,
        status_of(status)?,
        reason.parse().map_err(|error| format!("{error}"))?,
        message,
    ))
}

fn status_of(word: &str) -> Result<Status, String> {
    [Status::True, Status::False, Status::Unknown]
        .into_iter()
        .find(|status| status.as_str().eq_ignore_ascii_case(word))
        .ok_or_else(|| format!("{word:?} is not a status: write True, False or Unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_read() {
        let rows = [
            (
                "Healthy=True:ComponentsUp:All is well.",
                "addons.managed.openshift.io/Healthy",
                Status::True,
                "ComponentsUp",
                "All is well.",
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
            let read = condition(text).unwrap();
            let found = (read.type_.as_str(), read.status, read.reason.as_str(), read.message.as_str());
            assert_eq!(found, (type_, status, reason, message), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_condition_is_said() {
        let rows = [
            ("Healthy", "no '='"),
            ("Healthy=True", "no REASON"),
            ("Healthy=Yes:R:m", "\"Yes\" is not a status: write True, False or Unknown"),
            ("Healthy=True::m", "\"\" is not a reason"),
            ("Healthy=True:two words:m", "\"two words\" is not a reason"),
            ("not a type=True:R:m", "is not a condition type"),
            ("=True:R:m", "is not a condition type"),
        ];
        for (text, wanted) in rows {
            let error = condition(text).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn a_period_is_at_least_a_second() {
        assert_eq!(period("1m30s"), Ok(Duration::from_secs(90)));
        assert!(period("500ms").unwrap_err().contains("at least 1s"));
        assert!(period("often").unwrap_err().contains("a number with a unit"));
    }
}
