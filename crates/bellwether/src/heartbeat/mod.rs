//! `bellwether heartbeat`: sends heartbeats for an add-on, and shows which add-ons are alive. Arguments are in `arguments`; the
//! client that sends heartbeats is in the crate `bellwether-heartbeat`.

pub(crate) mod arguments;
mod instances;
mod liveness;
mod send;
mod table;
mod watch;

use self::arguments::Action;
use crate::output::ignore_broken_pipe;

pub(crate) fn run(action: Action) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = match action {
        Action::Send(arguments) => runtime.block_on(send::run(arguments)),
        Action::Watch(arguments) => runtime.block_on(watch::run(&arguments)),
    };
    ignore_broken_pipe(done)
}
