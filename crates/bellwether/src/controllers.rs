//! The controllers that run on every cluster, on spokes by `run agent` and everywhere by `up`: which of them, and how.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::str::FromStr;

use bellwether_heartbeat::addon::{Addons, MirrorTimeouts, Operators};
use bellwether_heartbeat::checker;
use bellwether_runtime::{Context, Reconciler as _};
use clap::Args;

/// A controller that runs on every cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Controller {
    Addon,
    HeartbeatChecker,
}

impl Controller {
    pub(crate) const ALL: [Controller; 2] = [Controller::Addon, Controller::HeartbeatChecker];

    /// Its name in flags, logs and metrics, and as an identity.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Controller::Addon => Addons::NAME,
            Controller::HeartbeatChecker => checker::NAME,
        }
    }
}

/// Some of the controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection(BTreeSet<Controller>);

impl Default for Selection {
    fn default() -> Self {
        Self(Controller::ALL.into())
    }
}

impl FromStr for Selection {
    type Err = String;

    /// `-a` leaves one out of all, `+a` keeps it in; `a,b` are these alone.
    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        let alone = words.iter().any(|word| !word.starts_with(['+', '-']));
        let mut chosen = if alone { BTreeSet::new() } else { Self::default().0 };
        for word in words {
            let (keep, name) = match word.strip_prefix('-') {
                Some(name) => (false, name),
                None => (true, word.strip_prefix('+').unwrap_or(word)),
            };
            let known = Controller::ALL.into_iter().find(|controller| controller.name() == name);
            let controller = known.ok_or_else(|| {
                let names = Controller::ALL.map(Controller::name).join(", ");
                format!("there is no controller {name:?}; there are: {names}")
            })?;
            if keep {
                chosen.insert(controller);
            } else {
                chosen.remove(&controller);
            }
        }
        Ok(Self(chosen))
    }
}

/// Which controllers run, and how they judge.
#[derive(Clone, Debug, Args)]
pub(crate) struct ControllerArgs {
    /// Which controllers run: all but some (-addon-controller), or some alone (heartbeat-checker). There are
    /// addon-controller, which provides what Addons ask for, and heartbeat-checker, which notices add-ons that fall
    /// silent.
    #[arg(
        long,
        value_name = "[+|-]NAME,…",
        allow_hyphen_values = true,
        default_value = "",
        hide_default_value = true
    )]
    controllers: Selection,

    /// After how many periods without a heartbeat an add-on counts as silent.
    #[arg(long, value_name = "N", default_value_t = checker::Settings::default().timeout_multiplier, value_parser = multiplier)]
    timeout_multiplier: NonZeroU32,

    /// Also say of an AddonInstance that has never had a heartbeat that it is awaited: Healthy is then
    /// Unknown/PendingFirstHeartbeat. Without this it is left alone.
    #[arg(long)]
    report_pending: bool,

    /// Also say on an Addon that its add-on is silent, in a condition HeartbeatTimeout. Without this it is said on the
    /// AddonInstance alone.
    #[arg(long)]
    mirror_timeouts: bool,
}

fn multiplier(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| "it is a whole number from 1 on".to_owned())
}

impl ControllerArgs {
    /// Starts the controllers of a cluster, each as itself, until the shutdown of the context that it is given.
    pub(crate) fn start(&self, context_of: impl Fn(Controller) -> Context) {
        for controller in &self.controllers.0 {
            let context = context_of(*controller);
            let shutdown = context.shutdown.clone();
            match controller {
                Controller::Addon => {
                    let addons = Addons::new(&context, self.mirror());
                    let operators = Operators::new(&context);
                    shutdown.spawn(bellwether_runtime::run(operators, context.clone()));
                    shutdown.spawn(bellwether_runtime::run(addons, context));
                }
                Controller::HeartbeatChecker => shutdown.spawn(checker::run(context, self.checker())),
            }
        }
    }

    fn mirror(&self) -> MirrorTimeouts {
        if self.mirror_timeouts { MirrorTimeouts::On } else { MirrorTimeouts::Off }
    }

    fn checker(&self) -> checker::Settings {
        checker::Settings {
            timeout_multiplier: self.timeout_multiplier,
            never_beaten: if self.report_pending {
                checker::NeverBeaten::Reported
            } else {
                checker::NeverBeaten::Silent
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_is_all_but_some_or_some_alone() {
        use Controller::{Addon, HeartbeatChecker};
        let rows: [(&str, &[Controller]); 6] = [
            ("", &[Addon, HeartbeatChecker]),
            ("-addon-controller", &[HeartbeatChecker]),
            ("+addon-controller,-heartbeat-checker", &[Addon]),
            ("heartbeat-checker", &[HeartbeatChecker]),
            ("heartbeat-checker, addon-controller", &[Addon, HeartbeatChecker]),
            ("-addon-controller,-heartbeat-checker", &[]),
        ];
        for (text, wanted) in rows {
            assert_eq!(text.parse(), Ok(Selection(wanted.iter().copied().collect())), "{text}");
        }
        let refused = "-checker".parse::<Selection>();
        assert_eq!(
            refused,
            Err("there is no controller \"checker\"; there are: addon-controller, heartbeat-checker".into())
        );
    }
}
