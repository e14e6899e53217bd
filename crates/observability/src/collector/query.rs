//! Parses the results of instant queries, which recording rules forward as metrics. Requests are left to
//! [`cycle`](super::cycle).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::remote_write::NAME_LABEL;

/// One element of a result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryResult {
    /// The labels without the name.
    pub(crate) labels: BTreeMap<String, String>,
    /// The value.
    pub(crate) value: f64,
    /// The time in milliseconds since 1970.
    pub(crate) timestamp: i64,
}

/// A result that cannot be forwarded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryError {
    /// The response is not that of the query API.
    #[error("it is not a response of the query API: {0}; check the address --from-query")]
    Malformed(#[from] serde_json::Error),
    /// Prometheus could not evaluate the query.
    #[error("the query failed: {0}; correct the query of the recording rule")]
    Failed(String),
    /// The result has no single value per series.
    #[error("the query returns a {0}; a recording rule needs an instant vector or a scalar")]
    Unsupported(&'static str),
    /// A value is not a number.
    #[error("the value {0:?} is not a number")]
    InvalidValue(String),
}

#[derive(Deserialize)]
struct Response {
    status: String,
    error: Option<String>,
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Element>),
    Scalar(Point),
    Matrix(IgnoredAny),
    String(IgnoredAny),
}

#[derive(Deserialize)]
struct Element {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    value: Option<Point>,
}

/// A time in seconds, and a value as text.
#[derive(Deserialize)]
struct Point(f64, String);

/// Parses the response to a query. Native histograms have no single value and are left out.
pub(crate) fn parse_response(json: &[u8]) -> Result<Vec<QueryResult>, QueryError> {
    let response: Response = serde_json::from_slice(json)?;
    match response.data {
        Some(Data::Vector(elements)) => elements
            .into_iter()
            .filter_map(|Element { metric, value }| Some((metric, value?)))
            .map(|(metric, point)| result(metric, &point))
            .collect(),
        Some(Data::Scalar(point)) => Ok(vec![result(BTreeMap::new(), &point)?]),
        Some(Data::Matrix(_)) => Err(QueryError::Unsupported("range vector")),
        Some(Data::String(_)) => Err(QueryError::Unsupported("string")),
        None => Err(QueryError::Failed(response.error.unwrap_or(response.status))),
    }
}

fn result(mut labels: BTreeMap<String, String>, point: &Point) -> Result<QueryResult, QueryError> {
    labels.remove(NAME_LABEL);
    let Point(seconds, text) = point;
    let value = text.parse().map_err(|_| QueryError::InvalidValue(text.clone()))?;
    // Casting saturates, and the transform drops or clamps what is far away.
    Ok(QueryResult { labels, value, timestamp: (seconds * 1000.0).round() as i64 })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn vector_has_one_result_per_element() {
        let json = br#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"__name__":"up","job":"a"},"value":[1700000000.123,"1"]},
            {"metric":{},"value":[1700000000,"+Inf"]},
            {"metric":{"job":"h"},"histogram":[1700000000,{"count":"1"}]}
        ],"stats":{}},"warnings":["slow"]}"#;
        let results = parse_response(json).unwrap();
        let labels = BTreeMap::from([("job".to_owned(), "a".to_owned())]);
        assert_eq!(
            results,
            [
                QueryResult { labels, value: 1.0, timestamp: 1_700_000_000_123 },
                QueryResult { labels: BTreeMap::new(), value: f64::INFINITY, timestamp: 1_700_000_000_000 },
            ]
        );
    }

    #[test]
    fn scalar_is_one_result() {
        let json = br#"{"status":"success","data":{"resultType":"scalar","result":[1.5,"NaN"]}}"#;
        let results = parse_response(json).unwrap();
        assert_eq!((results.len(), results[0].timestamp), (1, 1500));
        assert!(results[0].value.is_nan());
    }

    #[rstest]
    #[case("<html>", "it is not a response of the query API")]
    #[case("{}", "missing field `status`")]
    #[case(
        r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#,
        "the query failed: parse error"
    )]
    #[case(r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#, "returns a range vector")]
    #[case(r#"{"status":"success","data":{"resultType":"string","result":[1,"x"]}}"#, "returns a string")]
    #[case(
        r#"{"status":"success","data":{"resultType":"scalar","result":[1,"x"]}}"#,
        "the value \"x\" is not a number"
    )]
    #[case(
        r#"{"status":"success","data":{"resultType":"vector","result":[{"value":[1]}]}}"#,
        "invalid length 1"
    )]
    fn other_responses_are_rejected(#[case] json: &str, #[case] problem: &str) {
        let error = parse_response(json.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}
