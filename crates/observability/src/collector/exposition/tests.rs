use std::fmt::Write as _;

use proptest::prelude::*;
use rstest::rstest;

use super::*;

/// A sample with its own strings.
#[derive(Debug, Clone)]
struct Owned {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
    timestamp: Option<i64>,
}

impl PartialEq for Owned {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.labels == other.labels
            && self.timestamp == other.timestamp
            && (self.value == other.value || self.value.is_nan() && other.value.is_nan())
    }
}

fn owned(sample: &Sample<'_>) -> Owned {
    let labels = sample.labels().map(|(name, value)| {
        let mut text = String::new();
        value.append_to(&mut text);
        (name.to_owned(), text)
    });
    Owned {
        name: sample.name().to_owned(),
        labels: labels.collect(),
        value: sample.value,
        timestamp: sample.timestamp,
    }
}

/// Parses a text that arrives in chunks of a size.
fn parse_in_chunks(text: &[u8], size: usize) -> Result<Vec<Owned>, ParseError> {
    let mut parser = Parser::default();
    let mut samples = Vec::new();
    for chunk in text.chunks(size.max(1)) {
        parser.feed(Bytes::copy_from_slice(chunk));
        while let Some(sample) = parser.next_sample()? {
            samples.push(owned(&sample));
        }
        assert!(parser.partial.len() <= MAX_LINE_BYTES);
    }
    parser.finish()?;
    Ok(samples)
}

fn parse(text: &str) -> Result<Vec<Owned>, ParseError> {
    parse_in_chunks(text.as_bytes(), usize::MAX)
}

fn sample(name: &str, labels: &[(&str, &str)], value: f64, timestamp: Option<i64>) -> Owned {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Owned { name: name.to_owned(), labels, value, timestamp }
}

#[rstest]
#[case::a_value_alone("up 1\n", sample("up", &[], 1.0, None))]
#[case::a_timestamp("up 1 1700000000000\n", sample("up", &[], 1.0, Some(1_700_000_000_000)))]
#[case::empty_braces("up{} 0\n", sample("up", &[], 0.0, None))]
#[case::a_comma_after_the_last_label("up{a=\"b\",} 1\n", sample("up", &[("a", "b")], 1.0, None))]
#[case::blanks("  up\t{ a = \"b\" , c=\"\" }  1e3 -5 \n", sample("up", &[("a", "b"), ("c", "")], 1000.0, Some(-5)))]
#[case::escapes(r#"m{a="say \"hi\"\\\n\t",b="\\"} 1
"#, sample("m", &[("a", "say \"hi\"\\\n\\t"), ("b", "\\")], 1.0, None))]
#[case::braces_and_commas_in_values("m{a=\"}, b=\"} 1\n", sample("m", &[("a", "}, b=")], 1.0, None))]
#[case::other_scripts("m{a=\"naïve 東京\"} 1\n", sample("m", &[("a", "naïve 東京")], 1.0, None))]
#[case::a_recorded_metric("job:up:sum 3\n", sample("job:up:sum", &[], 3.0, None))]
#[case::not_a_number("m NaN 7\n", sample("m", &[], f64::NAN, Some(7)))]
#[case::infinity("m +Inf\n", sample("m", &[], f64::INFINITY, None))]
#[case::negative_infinity("m -Inf\n", sample("m", &[], f64::NEG_INFINITY, None))]
#[case::comments_and_empty_lines(
    "# HELP m text\n# TYPE m untyped\n\n   \nm 1\n#\n",
    sample("m", &[], 1.0, None)
)]
#[case::a_bucket("h_bucket{le=\"+Inf\"} 4\n", sample("h_bucket", &[("le", "+Inf")], 4.0, None))]
fn valid_line_is_one_sample(#[case] text: &str, #[case] expected: Owned) {
    let expected = [expected];
    assert_eq!(parse(text).unwrap(), expected);
    for size in 1..text.len() {
        assert_eq!(parse_in_chunks(text.as_bytes(), size).unwrap(), expected, "chunks of {size}");
    }
}

#[rstest]
#[case("{a=\"b\"} 1\n", Problem::NoMetricName)]
#[case("1up 1\n", Problem::NoMetricName)]
#[case("<html>\n", Problem::NoMetricName)]
#[case("up{=\"b\"} 1\n", Problem::NoLabelName)]
#[case("up{a:b=\"c\"} 1\n", Problem::NoEqualsSign)]
#[case("up{a=b} 1\n", Problem::NoOpeningQuote)]
#[case("up{a=\"b} 1\n", Problem::NoClosingQuote)]
#[case("up{a=\"b\\\"} 1\n", Problem::NoClosingQuote)]
#[case("up{a=\"b\\", Problem::Unfinished)]
#[case("up{a=\"b\"c=\"d\"} 1\n", Problem::NoSeparator)]
#[case("up\n", Problem::NoValue)]
#[case("up{a=\"b\"}\n", Problem::NoValue)]
#[case("up one\n", Problem::InvalidValue)]
#[case("up 1 1.5\n", Problem::InvalidTimestamp)]
#[case("up 1 99999999999999999999\n", Problem::InvalidTimestamp)]
#[case("up 1 2 3\n", Problem::TextAfterTimestamp)]
#[case("up 1", Problem::Unfinished)]
fn invalid_line_is_named_with_its_problem(#[case] text: &str, #[case] problem: Problem) {
    let error = parse(&format!("ok 1\n# fine\n{text}")).unwrap_err();
    assert_eq!((error.line, error.problem), (3, problem), "{error}");
}

#[test]
fn error_has_the_line_and_an_excerpt_of_it() {
    let error = parse("up 1\n<html>503 Service Unavailable</html>\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 2 is not in the Prometheus text format: it does not begin with the name of a metric: \"<html>503 Service Unavailable</html>\""
    );
    let long = format!("up{{a=\"{}\"}} x\n", "東".repeat(400));
    let error = parse(&long).unwrap_err();
    assert_eq!(error.excerpt.chars().count(), MAX_EXCERPT_CHARS + 1);
    assert_eq!(parse_in_chunks(b"up{a=\"\xff\"} 1\n", 4).unwrap_err().problem, Problem::NotUtf8);
}

#[test]
fn line_that_does_not_end_is_rejected_before_it_fills_the_memory() {
    let chunk = Bytes::from(vec![b'a'; 64 * 1024]);
    let mut parser = Parser::default();
    let error = loop {
        parser.feed(chunk.clone());
        if let Err(error) = parser.next_sample() {
            break error;
        }
    };
    assert_eq!(error.problem, Problem::TooLong);
    assert!(parser.partial.len() <= MAX_LINE_BYTES + chunk.len());
}

fn write(sample: &Owned) -> String {
    let mut text = sample.name.clone();
    if !sample.labels.is_empty() {
        let escape = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> =
            sample.labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let _ = write!(text, "{{{}}}", labels.join(","));
    }
    let _ = match sample.value {
        value if value == f64::INFINITY => write!(text, " +Inf"),
        value => write!(text, " {value}"),
    };
    if let Some(timestamp) = sample.timestamp {
        let _ = write!(text, " {timestamp}");
    }
    text.push('\n');
    text
}

fn any_sample() -> impl Strategy<Value = Owned> {
    let label = ("[a-zA-Z_][a-zA-Z0-9_]{0,8}", any::<String>());
    let labels = proptest::collection::vec(label, 0..6);
    ("[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", labels, any::<f64>(), any::<Option<i64>>())
        .prop_map(|(name, labels, value, timestamp)| Owned { name, labels, value, timestamp })
}

proptest! {
    #[test]
    fn what_is_written_is_read_in_chunks_of_any_size(
        samples in proptest::collection::vec(any_sample(), 0..8),
        size in 1_usize..64,
    ) {
        let text: String = samples.iter().map(write).collect();
        prop_assert_eq!(parse_in_chunks(text.as_bytes(), size).unwrap(), samples);
    }

    #[test]
    fn arbitrary_bytes_are_samples_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..512), size in 1_usize..64) {
        let _ = parse_in_chunks(&bytes, size);
    }

    #[test]
    fn text_that_resembles_samples_is_samples_or_an_error(text in "([a-z]{0,3}[{}=\",\\\\ \n\t0-9.+NaInf#é-]{0,12}){0,12}", size in 1_usize..16) {
        let whole = parse(&text);
        let chunked = parse_in_chunks(text.as_bytes(), size);
        prop_assert_eq!(whole, chunked);
    }
}
