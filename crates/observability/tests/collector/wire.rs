//! What a receiver reads: the messages of remote write, decoded independently of the collector's own types.

use prost::Message;

use crate::server::Request;

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// The series of a request, each as `name{label="value",…} value`.
pub(crate) fn series(request: &Request) -> Vec<String> {
    let body = snap::raw::Decoder::new().decompress_vec(&request.body).expect("the body is snappy");
    let request = WriteRequest::decode(body.as_slice()).expect("the body is a WriteRequest");
    let line = |series: &TimeSeries| {
        let [sample] = series.samples.as_slice() else { panic!("{series:?} has not one sample") };
        assert!(sample.timestamp > 1_600_000_000_000, "{sample:?}");
        let name = &series.labels.iter().find(|label| label.name == "__name__").expect("a name").value;
        let others: Vec<String> = series
            .labels
            .iter()
            .filter(|label| label.name != "__name__")
            .map(|label| format!("{}={:?}", label.name, label.value))
            .collect();
        assert!(series.labels.is_sorted_by(|one, other| one.name < other.name), "{series:?}");
        format!("{name}{{{}}} {}", others.join(","), sample.value)
    };
    request.timeseries.iter().map(line).collect()
}

/// The number of series of a request.
pub(crate) fn count(request: &Request) -> usize {
    series(request).len()
}
