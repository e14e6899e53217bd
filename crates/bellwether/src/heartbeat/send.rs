//! `bellwether heartbeat send`: beats once, or until it is told to stop.

use anyhow::Context as _;
use bellwether_conditions::Desired;
use bellwether_heartbeat::client::{Health, Instance, Reporter, Sent};
use jiff::Timestamp;
use serde_json::json;

use super::arguments::{Lines, SendArgs};

use crate::output::{print, time_of_day};
use crate::signals::StopSignals;
use crate::target::Target;

pub(super) async fn run(arguments: SendArgs) -> anyhow::Result<()> {
    let target = Target::find(&arguments.target).await?;
    let client = target.client.clone();
    let namespace = arguments.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
    let instance = Instance::in_namespace(client, &namespace).named(&arguments.name);
    let voice =
        Voice { instance: instance.to_string(), conditions: arguments.conditions, lines: arguments.output };
    match arguments.every {
        None => {
            let sent = instance.set_conditions(&voice.conditions).await;
            let sent = sent.with_context(|| format!("no heartbeat was sent to {target}"))?;
            Ok(voice.tell(&sent, Next::None)?)
        }
        Some(every) => {
            let conditions = voice.conditions.clone();
            let reporter = match every {
                None => Reporter::start(instance, conditions),
                Some(period) => Reporter::every(period, instance, conditions),
            };
            go_on(&reporter, &voice).await
        }
    }
}

/// Tells every beat until a signal comes, and then says the last word. That it could not be said is told, but whoever
/// sent the signal got what they asked for.
async fn go_on(reporter: &Reporter, voice: &Voice) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let mut health = reporter.subscribe();
    loop {
        tokio::select! {
            changed = health.changed() => {
                changed.context("the reporter has ended")?;
                let health = health.borrow_and_update().clone();
                voice.tell_health(&health)?;
            }
            () = signals.next() => break,
        }
    }
    match reporter.stop().await {
        Ok(()) => {
            let last = reporter.health().last_success;
            Ok(last.map_or(Ok(()), |sent| voice.tell(&sent, Next::Stopped))?)
        }
        Err(error) => {
            eprintln!("{} the last heartbeat was not sent: {error}", time_of_day(Timestamp::now()));
            Ok(())
        }
    }
}

/// What comes after a beat.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    None,
    In(f64),
    Stopped,
}

/// How beats are told.
struct Voice {
    instance: String,
    conditions: Vec<Desired>,
    lines: Lines,
}

impl Voice {
    fn tell_health(&self, health: &Health) -> std::io::Result<()> {
        let next = health.next_in.as_secs_f64();
        match (&health.last_success, &health.last_error) {
            (Some(sent), _) if health.is_well() => self.tell(sent, Next::In(next)),
            (_, Some(failure)) => {
                eprintln!("{} {}; trying again in {next:.1} s", time_of_day(failure.at), failure.error);
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }

    fn tell(&self, sent: &Sent, next: Next) -> std::io::Result<()> {
        print(&match self.lines {
            Lines::Text => format!("{} {}", time_of_day(sent.at), self.text(next)),
            Lines::Json => self.json(sent.at, next).to_string(),
        })
    }

    fn text(&self, next: Next) -> String {
        let said: Vec<String> = self
            .conditions
            .iter()
            .map(|said| format!("{}={} ({})", short(said.type_.as_str()), said.status, said.reason))
            .collect();
        let with = if said.is_empty() { String::new() } else { format!(" with {}", said.join(", ")) };
        let then = match next {
            Next::None => String::new(),
            Next::In(seconds) => format!(", next in {seconds:.1} s"),
            Next::Stopped => ", stopped".into(),
        };
        format!("sent {}{with}{then}", self.instance)
    }

    fn json(&self, at: Timestamp, next: Next) -> serde_json::Value {
        let types: Vec<&str> = self.conditions.iter().map(|said| said.type_.as_str()).collect();
        let seconds = if let Next::In(seconds) = next { Some(seconds) } else { None };
        json!({"time": at, "sent": self.instance, "conditions": types, "nextInSeconds": seconds})
    }
}

/// A condition type without its group, which a person takes for granted.
fn short(type_: &str) -> &str {
    type_.rsplit('/').next().unwrap_or(type_)
}

#[cfg(test)]
mod tests {
    use bellwether_conditions::{Reason, Status};
    use bellwether_heartbeat::vocabulary::instance::HEALTHY;

    use super::*;

    #[test]
    fn a_beat_is_told_in_a_line() {
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
        for (conditions, next, wanted) in rows {
            let voice = Voice { instance: "ns/addon-instance".into(), conditions, lines: Lines::Text };
            assert_eq!(voice.text(next), wanted);
        }
    }
}
