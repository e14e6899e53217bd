//! The messages of Prometheus remote write 1.0, and batches of encoded series that are bounded in number and size. Sending
//! them is left to [`sender`](super::sender).

use std::ops::Range;

use bytes::Bytes;
use prost::Message;

/// The largest number of series in one request.
pub(crate) const MAX_BATCH_SERIES: usize = 10_000;
/// The largest request before compression. A larger single series is a request of its own.
pub(crate) const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;
/// The label that holds the name of a metric.
pub(crate) const NAME_LABEL: &str = "__name__";

/// Prometheus reads this NaN as a number; other bit patterns of NaN have a meaning of their own, such as a stale series.
const NORMAL_NAN: f64 = f64::from_bits(0x7ff8_0000_0000_0001);
/// The field number of `timeseries` in a WriteRequest.
const TIME_SERIES_TAG: u32 = 1;

/// A request of remote write. The collector encodes its field series by series.
#[derive(Clone, PartialEq, Message)]
pub struct WriteRequest {
    /// The series.
    #[prost(message, repeated, tag = "1")]
    pub timeseries: Vec<TimeSeries>,
}

/// A series with its samples.
#[derive(Clone, PartialEq, Message)]
pub struct TimeSeries {
    /// The labels, sorted by name.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    /// The samples; the collector sends one.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
}

/// A label.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Label {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A value at a time.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Sample {
    /// The value.
    #[prost(double, tag = "1")]
    pub value: f64,
    /// The time in milliseconds since 1970.
    #[prost(int64, tag = "2")]
    pub timestamp: i64,
}

/// Why a body is not a request of remote write.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is too large when it is decompressed.
    #[error("the body has {0} bytes when it is decompressed; the limit is {1}")]
    TooLarge(usize, usize),
    /// It is not compressed with snappy.
    #[error("the body is not compressed with snappy: {0}")]
    Compression(#[from] snap::Error),
    /// It is not a message of remote write.
    #[error("the body is not a message of remote write 1.0: {0}")]
    Message(#[from] prost::DecodeError),
}

/// Decodes the body of a request, of at most `max_bytes` when it is decompressed.
pub fn decode(body: &[u8], max_bytes: usize) -> Result<WriteRequest, DecodeError> {
    let length = snap::raw::decompress_len(body)?;
    if length > max_bytes {
        return Err(DecodeError::TooLarge(length, max_bytes));
    }
    Ok(WriteRequest::decode(snap::raw::Decoder::new().decompress_vec(body)?.as_slice())?)
}

/// One series under construction. It keeps the memory of its strings for the next series.
#[derive(Debug, Default)]
pub(crate) struct SeriesBuffer {
    series: TimeSeries,
    spare: Vec<Label>,
}

impl SeriesBuffer {
    /// Starts a new series.
    pub(crate) fn clear(&mut self) {
        self.spare.append(&mut self.series.labels);
        self.series.samples.clear();
    }

    /// Adds a label whose value `write_value` appends to an empty string.
    pub(crate) fn add_label(&mut self, name: &str, write_value: impl FnOnce(&mut String)) {
        let mut label = self.spare.pop().unwrap_or_default();
        label.name.clear();
        label.name.push_str(name);
        label.value.clear();
        write_value(&mut label.value);
        self.series.labels.push(label);
    }

    /// Sorts the labels, and keeps the first of several with the same name.
    pub(crate) fn sort_labels(&mut self) {
        let labels = &mut self.series.labels;
        labels.sort_by(|one, other| one.name.cmp(&other.name));
        labels.dedup_by(|next, kept| next.name == kept.name);
    }

    /// The labels so far.
    pub(crate) fn labels(&self) -> &[Label] {
        &self.series.labels
    }

    /// Sets the sample.
    pub(crate) fn set_sample(&mut self, value: f64, timestamp: i64) {
        let value = if value.is_nan() { NORMAL_NAN } else { value };
        self.series.samples.clear();
        self.series.samples.push(Sample { value, timestamp });
    }

    /// The series.
    pub(crate) fn series(&self) -> &TimeSeries {
        &self.series
    }
}

/// Encoded series for one request. Any range of them is also a valid request, so that a batch can be split without encoding
/// it again.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    encoded: Vec<u8>,
    /// Where each series ends.
    ends: Vec<usize>,
    compressed: Vec<u8>,
}

impl Batch {
    /// The number of series.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no series.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Whether a series fits in. An empty batch takes any series.
    pub(crate) fn can_take(&self, series: &TimeSeries) -> bool {
        let size = prost::encoding::message::encoded_len(TIME_SERIES_TAG, series);
        self.is_empty() || self.len() < MAX_BATCH_SERIES && self.encoded.len() + size <= MAX_BATCH_BYTES
    }

    /// Adds a series.
    pub(crate) fn push(&mut self, series: &TimeSeries) {
        prost::encoding::message::encode(TIME_SERIES_TAG, series, &mut self.encoded);
        self.ends.push(self.encoded.len());
    }

    /// Removes all series and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.encoded.clear();
        self.ends.clear();
    }

    /// The request with a range of the series, compressed.
    pub(crate) fn compress(&mut self, series: Range<usize>) -> Result<Bytes, snap::Error> {
        let end_of = |count: usize| match count.checked_sub(1) {
            Some(last) => self.ends.get(last).copied().unwrap_or(self.encoded.len()),
            None => 0,
        };
        let request = self.encoded.get(end_of(series.start)..end_of(series.end)).unwrap_or_default();
        let needed = snap::raw::max_compress_len(request.len());
        if self.compressed.len() < needed {
            self.compressed.resize(needed, 0);
        }
        let length = snap::raw::Encoder::new().compress(request, &mut self.compressed)?;
        Ok(Bytes::copy_from_slice(self.compressed.get(..length).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, value: f64) -> TimeSeries {
        let mut buffer = SeriesBuffer::default();
        buffer.add_label(NAME_LABEL, |value| value.push_str(name));
        buffer.add_label("cluster", |value| value.push_str("spoke-1"));
        buffer.set_sample(value, 1_700_000_000_000);
        buffer.series().clone()
    }

    fn decode(body: &[u8]) -> Vec<TimeSeries> {
        let request = snap::raw::Decoder::new().decompress_vec(body).unwrap();
        WriteRequest::decode(request.as_slice()).unwrap().timeseries
    }

    #[test]
    fn every_range_of_a_batch_is_a_request() {
        let all: Vec<TimeSeries> =
            (0..5).map(|index| series(&format!("m{index}"), f64::from(index))).collect();
        let mut batch = Batch::default();
        all.iter().for_each(|one| batch.push(one));
        for start in 0..=5 {
            for end in start..=5 {
                assert_eq!(decode(&batch.compress(start..end).unwrap()), all[start..end], "{start}..{end}");
            }
        }
    }

    #[test]
    fn buffer_forgets_the_series_before() {
        let mut buffer = SeriesBuffer::default();
        for labels in [["z", "y"], ["b", "a"]] {
            buffer.clear();
            for name in labels {
                buffer.add_label(name, |value| value.push_str("value"));
            }
            buffer.sort_labels();
            buffer.set_sample(1.0, 2);
        }
        let label = |name: &str| Label { name: name.into(), value: "value".into() };
        assert_eq!(buffer.labels(), [label("a"), label("b")]);
        assert_eq!(buffer.series().samples.len(), 1);
    }

    #[test]
    fn not_a_number_is_written_as_prometheus_does() {
        for value in [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0002)] {
            let mut buffer = SeriesBuffer::default();
            buffer.set_sample(value, 0);
            assert_eq!(buffer.series().samples[0].value.to_bits(), 0x7ff8_0000_0000_0001);
        }
    }

    #[test]
    fn batch_is_bounded_in_number_and_size() {
        let one = series("up", 1.0);
        let mut batch = Batch::default();
        while batch.can_take(&one) {
            batch.push(&one);
        }
        assert_eq!(batch.len(), MAX_BATCH_SERIES);

        let large = series(&"x".repeat(1024 * 1024), 1.0);
        batch.clear();
        while batch.can_take(&large) {
            batch.push(&large);
        }
        assert_eq!(batch.len(), 3);
        assert!(batch.encoded.len() <= MAX_BATCH_BYTES);

        batch.clear();
        assert!(batch.can_take(&series(&"x".repeat(MAX_BATCH_BYTES), 1.0)), "alone, it is sent all the same");
    }
}
