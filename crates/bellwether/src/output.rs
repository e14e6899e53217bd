//! Output of commands: lines, aligned tables, ages, colours.

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::time::Duration;

use clap::ValueEnum;
use comfy_table::{Table, presets};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

/// The output formats of commands that read objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

impl Format {
    /// Whether the output is for people, who need a message instead of a table without rows.
    pub(crate) fn is_for_people(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

/// Prints a line to stdout and flushes it, so that a pipe gets it at once.
pub(crate) fn print(line: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// Turns a broken pipe into success: the reader, such as `head`, has closed stdout.
pub(crate) fn ignore_broken_pipe(done: anyhow::Result<()>) -> anyhow::Result<()> {
    match done {
        Err(error) if is_broken_pipe(&error) => Ok(()),
        done => done,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Formats a table with a fixed number of columns: a header, and a line for each row.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Vec<String> {
    table_of(header, rows)
}

/// Formats a table whose columns are known only at run time.
pub(crate) fn table_of<'a, Row>(
    header: impl IntoIterator<Item = &'a str>,
    rows: impl IntoIterator<Item = Row>,
) -> Vec<String>
where
    Row: IntoIterator<Item = String>,
{
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    table.add_rows(rows);
    // comfy-table puts a space before every cell, also before the first of a line.
    table.trim_fmt().lines().map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned()).collect()
}

pub(crate) fn yaml(content: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(content)?.trim_end().to_owned())
}

/// Formats the time of day in the local time zone.
pub(crate) fn time_of_day(instant: Timestamp) -> String {
    instant.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Plain,
    ByState,
}

/// Colours are used on a terminal, unless NO_COLOR is set.
pub(crate) fn colour() -> Colour {
    let wanted = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if wanted { Colour::ByState } else { Colour::Plain }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hue {
    Red,
    Yellow,
    Green,
    Faint,
}

/// Colours the word at a byte offset of the line. A line that was cut before the word stays as it is.
pub(crate) fn coloured(line: &str, offset: usize, word: &str, hue: Hue) -> String {
    let code = match hue {
        Hue::Red => 31,
        Hue::Yellow => 33,
        Hue::Green => 32,
        Hue::Faint => 2,
    };
    let Some((before, rest)) = line.split_at_checked(offset) else { return line.to_owned() };
    match rest.strip_prefix(word) {
        Some(after) => format!("{before}\u{1b}[{code}m{word}\u{1b}[0m{after}"),
        None => line.to_owned(),
    }
}

/// Cuts a line to a width.
pub(crate) fn cut(line: &str, columns: usize) -> String {
    console::truncate_str(line, columns, "…").into_owned()
}

/// Joins the first `most` names, and counts the others: `a, b and 3 more`.
pub(crate) fn name_some(names: &[&str], most: usize) -> String {
    match names.split_at_checked(most) {
        Some((first, rest)) if !rest.is_empty() => format!("{} and {} more", first.join(", "), rest.len()),
        _ => names.join(", "),
    }
}

/// Formats how long ago a time was, in its two largest units.
pub(crate) fn since(time: Timestamp, now: Timestamp) -> String {
    age(Duration::try_from(now.duration_since(time)).unwrap_or_default())
}

/// Formats a duration in its two largest units, such as `1h5m`.
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
