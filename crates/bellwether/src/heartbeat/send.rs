//! `bellwether heartbeat send`: sends one heartbeat, or repeats it until a signal arrives. Sending and retrying are left to the
//! client of `bellwether-heartbeat`.

use anyhow::Context as _;
use bellwether_conditions::Desired;
use bellwether_heartbeat::client::{Health, Instance, Reporter, SentHeartbeat};
use jiff::Timestamp;
use serde_json::json;

use super::arguments::{LineFormat, SendArgs};
use crate::output::{print, time_of_day};
use crate::signals::StopSignals;
use crate::target::Target;

pub(super) async fn run(arguments: SendArgs) -> anyhow::Result<()> {
    let target = Target::find(&arguments.target).await?;
    let client = target.client.clone();
    let namespace = arguments.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
    let instance = Instance::in_namespace(client, &namespace).with_name(&arguments.name);
    let printer = Printer {
        instance: instance.to_string(),
        conditions: arguments.conditions,
        format: arguments.output,
    };
    match arguments.every {
        None => {
            let sent = instance.set_conditions(&printer.conditions).await;
            let sent = sent.with_context(|| format!("no heartbeat was sent to {target}"))?;
            Ok(printer.print_heartbeat(&sent, Next::None)?)
        }
        Some(every) => {
            let conditions = printer.conditions.clone();
            let reporter = match every {
                None => Reporter::start(instance, conditions),
                Some(period) => Reporter::start_with_period(period, instance, conditions),
            };
            repeat_until_signal(&reporter, &printer).await
        }
    }
}

/// Prints every heartbeat until a signal arrives, and then sends a last heartbeat. If that one fails, the error is printed, but
/// the command still succeeds: it has stopped, as requested.
async fn repeat_until_signal(reporter: &Reporter, printer: &Printer) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let mut health = reporter.subscribe();
    loop {
        tokio::select! {
            changed = health.changed() => {
                changed.context("the task that sends heartbeats has ended unexpectedly")?;
                let health = health.borrow_and_update().clone();
                printer.print_health(&health)?;
            }
            () = signals.next() => break,
        }
    }
    match reporter.stop().await {
        Ok(()) => {
            let last = reporter.health().last_success;
            Ok(last.map_or(Ok(()), |sent| printer.print_heartbeat(&sent, Next::Stopped))?)
        }
        Err(error) => {
            eprintln!("{} the last heartbeat was not sent: {error}", time_of_day(Timestamp::now()));
            Ok(())
        }
    }
}

/// What happens after a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    None,
    In(f64),
    Stopped,
}

/// Prints heartbeats and errors.
struct Printer {
    instance: String,
    conditions: Vec<Desired>,
    format: LineFormat,
}

impl Printer {
    fn print_health(&self, health: &Health) -> std::io::Result<()> {
        let next = health.next_in.as_secs_f64();
        match (&health.last_success, &health.last_error) {
            (Some(sent), _) if health.is_healthy() => self.print_heartbeat(sent, Next::In(next)),
            (_, Some(failure)) => {
                eprintln!("{} {}; trying again in {next:.1} s", time_of_day(failure.at), failure.error);
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }

    fn print_heartbeat(&self, sent: &SentHeartbeat, next: Next) -> std::io::Result<()> {
        print(&match self.format {
            LineFormat::Text => format!("{} {}", time_of_day(sent.at), self.format_text(next)),
            LineFormat::Json => self.format_json(sent.at, next).to_string(),
        })
    }

    fn format_text(&self, next: Next) -> String {
        let conditions: Vec<String> = self
            .conditions
            .iter()
            .map(|it| format!("{}={} ({})", without_prefix(it.type_.as_str()), it.status, it.reason))
            .collect();
        let with =
            if conditions.is_empty() { String::new() } else { format!(" with {}", conditions.join(", ")) };
        let then = match next {
            Next::None => String::new(),
            Next::In(seconds) => format!(", next in {seconds:.1} s"),
            Next::Stopped => ", stopped".into(),
        };
        format!("sent {}{with}{then}", self.instance)
    }

    fn format_json(&self, at: Timestamp, next: Next) -> serde_json::Value {
        let types: Vec<&str> = self.conditions.iter().map(|condition| condition.type_.as_str()).collect();
        let seconds = if let Next::In(seconds) = next { Some(seconds) } else { None };
        json!({"time": at, "sent": self.instance, "conditions": types, "nextInSeconds": seconds})
    }
}

/// A condition type without its prefix, for people.
fn without_prefix(type_: &str) -> &str {
    type_.rsplit('/').next().unwrap_or(type_)
}

#[cfg(test)]
mod tests {
    use bellwether_conditions::{Reason, Status};
    use bellwether_heartbeat::vocabulary::instance::HEALTHY;

    use super::*;

    #[test]
    fn heartbeat_is_printed_as_one_line() {
        let down = Desired::new(HEALTHY, Status::False, Reason::constant("ComponentDown"), "");
        let rows = [
            (vec![], Next::None, "sent ns/addon-instance"),
            (vec![], Next::In(9.44), "sent ns/addon-instance, next in 9.4 s"),
            (
                vec![down.clone()],
                Next::Stopped,
                "sent ns/addon-instance with Healthy=False (ComponentDown), stopped",
            ),
        ];
        for (conditions, next, expected) in rows {
            let instance = "ns/addon-instance".into();
            let printer = Printer { instance, conditions, format: LineFormat::Text };
            assert_eq!(printer.format_text(next), expected);
        }
    }
}
