//! Go's time layouts: a layout is how the time 2006-01-02 15:04:05 -07:00 would be written. Times are in UTC.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The elements of a layout, longest first, so that `2006` is not read as `2` and `006`.
const ELEMENTS: [&str; 30] = [
    "January",
    "Monday",
    "Z07:00",
    "-07:00",
    "Z0700",
    "-0700",
    "2006",
    ".000000000",
    ".000000",
    ".000",
    ".999999999",
    ".999999",
    ".999",
    "Jan",
    "Mon",
    "MST",
    "Z07",
    "-07",
    "01",
    "02",
    "03",
    "04",
    "05",
    "06",
    "15",
    "PM",
    "pm",
    "_2",
    "1",
    "2",
];

/// Formats a time by a layout of Go, such as `2006-01-02T15:04:05Z07:00`.
pub fn format_time(time: Timestamp, layout: &str) -> String {
    let zoned = time.to_zoned(TimeZone::UTC);
    let mut output = String::new();
    let mut rest = layout;
    while let Some(first) = rest.chars().next() {
        match ELEMENTS.iter().find(|element| rest.starts_with(**element)) {
            Some(element) => {
                write_element(&mut output, element, &zoned);
                rest = rest.get(element.len()..).unwrap_or_default();
            }
            None => {
                output.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
            }
        }
    }
    output
}

fn write_element(output: &mut String, element: &str, time: &jiff::Zoned) {
    let hour12 = match time.hour() % 12 {
        0 => 12,
        hour => hour,
    };
    let strftime = |format: &str| time.strftime(format).to_string();
    let nanoseconds = time.subsec_nanosecond();
    let written = match element {
        "2006" => write!(output, "{:04}", time.year()),
        "06" => write!(output, "{:02}", time.year().rem_euclid(100)),
        "January" => write!(output, "{}", strftime("%B")),
        "Jan" => write!(output, "{}", strftime("%b")),
        "01" => write!(output, "{:02}", time.month()),
        "1" => write!(output, "{}", time.month()),
        "Monday" => write!(output, "{}", strftime("%A")),
        "Mon" => write!(output, "{}", strftime("%a")),
        "02" => write!(output, "{:02}", time.day()),
        "_2" => write!(output, "{:>2}", time.day()),
        "2" => write!(output, "{}", time.day()),
        "15" => write!(output, "{:02}", time.hour()),
        "03" => write!(output, "{hour12:02}"),
        "04" => write!(output, "{:02}", time.minute()),
        "05" => write!(output, "{:02}", time.second()),
        "PM" => write!(output, "{}", if time.hour() < 12 { "AM" } else { "PM" }),
        "pm" => write!(output, "{}", if time.hour() < 12 { "am" } else { "pm" }),
        "MST" => write!(output, "UTC"),
        "Z07:00" | "Z0700" | "Z07" => write!(output, "Z"),
        "-07:00" => write!(output, "+00:00"),
        "-0700" => write!(output, "+0000"),
        "-07" => write!(output, "+00"),
        ".000" => write!(output, ".{:03}", nanoseconds / 1_000_000),
        ".000000" => write!(output, ".{:06}", nanoseconds / 1_000),
        ".000000000" => write!(output, ".{nanoseconds:09}"),
        fraction => {
            let digits = fraction.len().saturating_sub(1);
            let all = format!("{nanoseconds:09}");
            let kept = all.get(..digits).unwrap_or(&all).trim_end_matches('0');
            if kept.is_empty() { Ok(()) } else { write!(output, ".{kept}") }
        }
    };
    // Writing to a string cannot fail.
    let _ = written;
}
