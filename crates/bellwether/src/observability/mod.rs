//! `bellwether observability`: shows whether clusters forward their metrics. It reads from the hub and writes nothing; what the
//! states mean is decided in `bellwether_observability`.

pub(crate) mod arguments;
mod changes;
mod status;
mod table;

use self::arguments::Action;
use crate::output::ignore_broken_pipe;

pub(crate) fn run(action: Action) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let Action::Status(arguments) = action;
    ignore_broken_pipe(runtime.block_on(status::run(&arguments)))
}
