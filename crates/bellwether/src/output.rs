//! What commands print: lines, tables that line up, ages.

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::time::Duration;

use clap::ValueEnum;
use comfy_table::{Table, presets};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

/// How commands that read print what they found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

impl Format {
    /// A table without rows tells a person nothing.
    pub(crate) fn is_for_people(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

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
    table_of(header, rows)
}

/// The same, where what is asked for says which columns there are.
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
    // Every cell has a space before it, the first of a line too.
    table.trim_fmt().lines().map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned()).collect()
}

pub(crate) fn yaml(content: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(content)?.trim_end().to_owned())
}

/// The time of day where the person is.
pub(crate) fn time_of_day(instant: Timestamp) -> String {
    instant.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Plain,
    ByState,
}

/// Colours are for terminals, and for those who do not mind them.
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

/// Colours a word, which begins at a place that a cut line may not have.
pub(crate) fn coloured(line: &str, place: usize, word: &str, hue: Hue) -> String {
    let code = match hue {
        Hue::Red => 31,
        Hue::Yellow => 33,
        Hue::Green => 32,
        Hue::Faint => 2,
    };
    let Some((before, rest)) = line.split_at_checked(place) else { return line.to_owned() };
    match rest.strip_prefix(word) {
        Some(after) => format!("{before}\u{1b}[{code}m{word}\u{1b}[0m{after}"),
        None => line.to_owned(),
    }
}

/// A line that fits.
pub(crate) fn cut(line: &str, columns: usize) -> String {
    console::truncate_str(line, columns, "…").into_owned()
}

/// A few names, and how many others.
pub(crate) fn some_of(names: &[&str], most: usize) -> String {
    match names.split_at_checked(most) {
        Some((first, rest)) if !rest.is_empty() => format!("{} and {} more", first.join(", "), rest.len()),
        _ => names.join(", "),
    }
}

/// How long ago something was, in the two largest units.
pub(crate) fn since(time: Timestamp, now: Timestamp) -> String {
    age(Duration::try_from(now.duration_since(time)).unwrap_or_default())
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
