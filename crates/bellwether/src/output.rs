//! What commands print: lines, tables that line up, ages.

use std::io::{ErrorKind, Write as _};
use std::time::Duration;

use comfy_table::{Table, presets};

/// One line on stdout, at once, also into a pipe.
pub(crate) fn print(line: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// Whoever read may have read enough, which is no error.
pub(crate) fn forgive_broken_pipe(done: anyhow::Result<()>) -> anyhow::Result<()> {
    match done {
        Err(error) if is_broken_pipe(&error) => Ok(()),
        done => done,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// The lines of a table: a header, and one for each row.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    table.add_rows(rows);
    // Every cell has a space before it, the first of a line too.
    table.trim_fmt().lines().map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned()).collect()
}

/// The two largest units.
pub(crate) fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{minutes}m{}s", seconds % 60),
        3_600..86_400 => format!("{hours}h{minutes}m"),
        _ => format!("{days}d{hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units() {
        let rows =
            [(0, "0s"), (59, "59s"), (60, "1m0s"), (3_599, "59m59s"), (3_660, "1h1m"), (90_000, "1d1h")];
        for (seconds, wanted) in rows {
            assert_eq!(age(Duration::from_secs(seconds)), wanted);
        }
    }
}
