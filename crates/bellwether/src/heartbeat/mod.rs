//! `bellwether heartbeat`: sends beats for an add-on, and shows which add-ons are alive.

pub(crate) mod arguments;
mod board;
mod liveness;
mod screen;
mod send;
mod table;
mod watch;

use std::io::{ErrorKind, Write as _};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use self::arguments::Action;

pub(crate) fn run(action: Action) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = match action {
        Action::Send(arguments) => runtime.block_on(send::run(arguments)),
        Action::Watch(arguments) => runtime.block_on(watch::run(&arguments)),
    };
    match done {
        // Whoever read has read enough.
        Err(error) if is_broken_pipe(&error) => Ok(()),
        done => done,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// One line on stdout, at once, also into a pipe.
fn print(line: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// The time of day where the person is.
fn time_of_day(instant: Timestamp) -> String {
    instant.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}
