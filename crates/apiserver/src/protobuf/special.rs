//! The messages that are something else in JSON: times, durations, quantities, ports that are a number or a name,
//! and JSON itself.

use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Number, Value};

use super::wire::{Reader, Wire, expect};
use crate::decode::json_words;
use crate::times;

/// 0001-01-01T00:00:00Z, which Go takes for no time at all.
const NO_TIME: i64 = -62_135_596_800;

/// Text; what is no UTF-8 in it becomes the character for that, byte by byte, as in Go's JSON.
pub(super) fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

pub(super) fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

pub(super) fn float(bytes: [u8; 8]) -> Result<Value, String> {
    let value = f64::from_le_bytes(bytes);
    // A float without a fraction is written as an integer, and so it is kept.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "compared afterwards")]
    let whole = value as i64;
    #[allow(clippy::cast_precision_loss, clippy::float_cmp, reason = "exactly equal is what counts")]
    if whole as f64 == value && whole.unsigned_abs() < 1 << 53 {
        return Ok(whole.into());
    }
    Number::from_f64(value).map(Value::Number).ok_or_else(|| format!("json: unsupported value: {value}"))
}

/// A time to the second; null if it is none.
pub(super) fn time(bytes: &[u8]) -> Result<Value, String> {
    Ok(timestamp(bytes, |_| 0)?.map_or(Value::Null, |at| times::seconds(at).into()))
}

/// A time to the microsecond; null if it is none.
pub(super) fn micro_time(bytes: &[u8]) -> Result<Value, String> {
    Ok(timestamp(bytes, |nanos| nanos / 1000 * 1000)?.map_or(Value::Null, |at| times::micros(at).into()))
}

fn timestamp(bytes: &[u8], precision: impl FnOnce(i64) -> i64) -> Result<Option<Timestamp>, String> {
    let [seconds, nanos] = integers(bytes, "Timestamp", ["Seconds", "Nanos"])?;
    #[allow(clippy::cast_possible_truncation, reason = "nanos have 32 bits, and more are dropped")]
    let nanos = precision(i64::from(nanos as i32));
    if bytes.is_empty() || (seconds, nanos) == (NO_TIME, 0) {
        return Ok(None);
    }
    let at = Timestamp::from_second(seconds)
        .and_then(|at| at.checked_add(SignedDuration::from_nanos(nanos)))
        .ok()
        .filter(|at| at.as_second() >= NO_TIME);
    match at {
        Some(at) => Ok(Some(at)),
        None => Err(format!("a time {seconds} seconds from 1970 is not within the years 1 to 9999")),
    }
}

/// `1h2m3.5s`
pub(super) fn duration(bytes: &[u8]) -> Result<Value, String> {
    let [nanos, _] = integers(bytes, "Duration", ["Duration", ""])?;
    Ok(go_duration(nanos).into())
}

fn go_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let fraction = |unit: u64| {
        let digits = unit.ilog10() as usize;
        let fraction = format!("{:0digits$}", nanos % unit);
        match fraction.trim_end_matches('0') {
            "" => String::new(),
            fraction => format!(".{fraction}"),
        }
    };
    let size = match nanos {
        0 => return "0s".into(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => format!("{}{}µs", nanos / 1_000, fraction(1_000)),
        1_000_000..1_000_000_000 => format!("{}{}ms", nanos / 1_000_000, fraction(1_000_000)),
        _ => {
            let seconds = nanos / 1_000_000_000;
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            let rest = format!("{}{}s", seconds % 60, fraction(1_000_000_000));
            match (hours, minutes) {
                (0, 0) => rest,
                (0, minutes) => format!("{minutes}m{rest}"),
                (hours, minutes) => format!("{hours}h{minutes}m{rest}"),
            }
        }
    };
    format!("{sign}{size}")
}

/// A quantity as it was written; whether it is one is asked of the object as a whole.
pub(super) fn quantity(bytes: &[u8]) -> Result<Value, String> {
    let text = single(bytes, "Quantity", "String_")?.map(text);
    Ok(text.unwrap_or_else(|| "0".to_owned()).into())
}

/// A number, or a name in its place.
pub(super) fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let (mut kind, mut number, mut name) = (0, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag("IntOrString")? {
        match tag.number {
            1 => {
                expect(tag.wire, Wire::VARINT, "Type")?;
                kind = reader.varint()?;
            }
            2 => {
                expect(tag.wire, Wire::VARINT, "IntVal")?;
                number = reader.varint()?;
            }
            3 => {
                expect(tag.wire, Wire::BYTES, "StrVal")?;
                name = text(reader.bytes()?);
            }
            _ => reader.skip(tag.wire)?,
        }
    }
    #[allow(clippy::cast_possible_truncation, reason = "as Kubernetes reads it")]
    match kind {
        0 => Ok((number as i32).into()),
        1 => Ok(name.into()),
        _ => Err("impossible IntOrString.Type".into()),
    }
}

/// JSON as it was written, of a depth that is still free; none is null.
pub(super) fn json(bytes: &[u8], free: usize) -> Result<Value, String> {
    let raw = single(bytes, "JSON", "Raw")?.unwrap_or_default();
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    let value: Value = serde_json::from_slice(raw).map_err(|error| json_words(&error))?;
    if depth(&value) > free { Err("exceeded max depth".into()) } else { Ok(value) }
}

/// How many lists and objects stand in each other; bounded by the parser that the value came from.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The first field of a message that has nothing else.
fn single<'a>(bytes: &'a [u8], message: &str, field: &str) -> Result<Option<&'a [u8]>, String> {
    let mut found = None;
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag(message)? {
        if tag.number == 1 {
            expect(tag.wire, Wire::BYTES, field)?;
            found = Some(reader.bytes()?);
        } else {
            reader.skip(tag.wire)?;
        }
    }
    Ok(found)
}

/// The first two fields of a message, which are integers.
#[allow(clippy::cast_possible_wrap, reason = "as Kubernetes reads them")]
fn integers(bytes: &[u8], message: &str, names: [&str; 2]) -> Result<[i64; 2], String> {
    let (mut first, mut second) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag(message)? {
        let (name, into) = match (tag.number, names) {
            (1, [name, _]) => (name, &mut first),
            (2, [_, name]) if !name.is_empty() => (name, &mut second),
            _ => {
                reader.skip(tag.wire)?;
                continue;
            }
        };
        expect(tag.wire, Wire::VARINT, name)?;
        *into = reader.varint()? as i64;
    }
    Ok([first, second])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_go() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (245_000_000_000, "4m5s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (480_000_000_001, "8m0.000000001s"),
            (-3_600_000_000_000, "-1h0m0s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(go_duration(nanos), text);
        }
    }

    #[test]
    fn text_that_is_no_utf8_loses_only_those_bytes() {
        assert_eq!(text(b"\xff\xfea\xe2\x82"), "\u{fffd}\u{fffd}a\u{fffd}\u{fffd}");
    }

    #[test]
    fn floats_without_a_fraction_are_integers() {
        for (value, json) in [(5.0, "5"), (-3.0, "-3"), (1.5, "1.5"), (0.0, "0")] {
            assert_eq!(float(f64::to_le_bytes(value)).unwrap().to_string(), json);
        }
        assert!(float(f64::to_le_bytes(f64::NAN)).is_err());
    }
}
